"""URLs of the management API, and the JSON of a durableClient binding, in which the SDK finds them."""

from __future__ import annotations

from functions_local.durable.event_json import to_json

#: Prefix of the API that people and check-status answers use.
PUBLIC_PREFIX = "/runtime/webhooks/durabletask"
#: Prefix of the same API that the SDK's client uses.
RPC_PREFIX = "/durabletask"
#: The SDK replaces it by an instance id, as text.
_PLACEHOLDER = "INSTANCEID"


class ManagementUrls:
    """URLs for one origin, like http://127.0.0.1:7071, and one task hub."""

    def __init__(self, origin: str, hub: str) -> None:
        self._origin = origin.rstrip("/")
        self._hub = hub
        self._base = f"{self._origin}{PUBLIC_PREFIX}"
        self._query = f"taskHub={hub}&connection=Storage&code=local"

    def of_instance(self, instance: str) -> dict[str, str]:
        """Return the URLs with which an instance is managed."""
        base, query = f"{self._base}/instances/{instance}", self._query
        return {
            "id": instance,
            "statusQueryGetUri": f"{base}?{query}",
            "sendEventPostUri": f"{base}/raiseEvent/{{eventName}}?{query}",
            "terminatePostUri": f"{base}/terminate?reason={{text}}&{query}",
            "rewindPostUri": f"{base}/rewind?reason={{text}}&{query}",
            "purgeHistoryDeleteUri": f"{base}?{query}",
            "restartPostUri": f"{base}/restart?{query}",
            "suspendPostUri": f"{base}/suspend?reason={{text}}&{query}",
            "resumePostUri": f"{base}/resume?reason={{text}}&{query}",
        }

    def client_binding(self) -> str:
        """Return the JSON that the worker gives a function with a durableClient binding."""
        create = f"{self._base}/orchestrators/{{functionName}}[/{{instanceId}}]?"
        wait = "timeout={timeoutInSeconds}&pollingInterval={intervalInSeconds}&"
        binding = {
            "taskHubName": self._hub,
            "connectionName": None,
            "creationUrls": {
                "createNewInstancePostUri": f"{create}code=local",
                "createAndWaitOnNewInstancePostUri": f"{create}{wait}code=local",
            },
            "managementUrls": self.of_instance(_PLACEHOLDER),
            "baseUrl": self._base,
            "requiredQueryStringParameters": "code=local",
            "rpcBaseUrl": f"{self._origin}{RPC_PREFIX}/",
            "httpBaseUrl": None,
        }
        return to_json(binding)
