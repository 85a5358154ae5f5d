"""Service Bus clients: one for each connection that bindings name, made from the app's settings."""

from __future__ import annotations

from azure.identity.aio import DefaultAzureCredential
from azure.servicebus.aio import ServiceBusClient

from functions_local.errors import StartError
from functions_local.settings import AppSettings, how_to_set


class Connections:
    """Keeps the clients while the host runs. Nothing is opened before the first sender or receiver."""

    def __init__(self, settings: AppSettings) -> None:
        self._settings = settings
        self._clients: dict[str, ServiceBusClient] = {}
        self._credential: DefaultAzureCredential | None = None

    def client(self, connection: str, *, used_by: str) -> ServiceBusClient:
        """Give the client of a connection.

        The setting is `connection` or `AzureWebJobs{connection}`, a connection string; or with
        `__fullyQualifiedNamespace` behind it the host name of a real namespace, which is entered with the
        developer's own Azure login. Raises StartError naming the setting when it is missing or no connection
        string.
        """
        if connection not in self._clients:
            self._clients[connection] = self._make(connection, used_by)
        return self._clients[connection]

    async def close(self) -> None:
        """Close every client."""
        for client in self._clients.values():
            await client.close()
        if self._credential is not None:
            await self._credential.close()

    def _make(self, connection: str, used_by: str) -> ServiceBusClient:
        # retry_total=0: the triggers reconnect by themselves, for ever, and say so once for each outage.
        if text := self._setting(connection):
            try:
                return ServiceBusClient.from_connection_string(text, retry_total=0)
            except ValueError as error:
                raise StartError(
                    f"the setting {connection}, which {used_by} uses, is no connection string: {error}"
                ) from error
        if namespace := self._setting(f"{connection}__fullyQualifiedNamespace"):
            self._credential = self._credential or DefaultAzureCredential()
            return ServiceBusClient(namespace, self._credential, retry_total=0)
        raise StartError(f"{used_by} needs the setting {connection}: {how_to_set(connection)}")

    def _setting(self, name: str) -> str | None:
        return self._settings.values.get(name) or self._settings.values.get(f"AzureWebJobs{name}")
