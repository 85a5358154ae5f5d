"""The app's settings and host.json match what the code reads, in both directions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

from functions.connections import SettingsError
from functions.messaging.agent_messages import requests_queue
from functions.roles import AppRole
from tests.infra import application
from tests.infra.application import SampledAgent
from tests.infra.bicep.values import Unresolved, Value
from tests.infra.infrastructure import Environment, Infrastructure

#: Read by the Functions host and its extensions.
HOST = {
    "AzureWebJobsStorage__blobServiceUri",
    "AzureWebJobsStorage__queueServiceUri",
    "AzureWebJobsStorage__tableServiceUri",
    "AzureWebJobsStorage__credential",
    "AzureWebJobsStorage__clientId",
    "AzureWebJobsSecretStorageType",
    "AzureWebJobsSecretStorageKeyVaultUri",
    "AzureWebJobsSecretStorageKeyVaultClientId",
    "ServiceBusConnection__credential",
    "APPLICATIONINSIGHTS_CONNECTION_STRING",
    "APPLICATIONINSIGHTS_AUTHENTICATION_STRING",
}
DURABLE_CONNECTION = "DURABLE_TASK_SCHEDULER_CONNECTION_STRING"

#: A setting with this prefix overrides a value of host.json, at the path that follows.
_OVERRIDE = "AzureFunctionsJobHost__"

#: Fields of the settings that may differ from their defaults: addresses of services, authentication.
_GIVEN = {
    "sample_services",
    "roles",
    "agent_store_uri",
    "agent_store_client_id",
    "state_store_uri",
    "state_store_client_id",
    "service_bus_namespace",
    "service_bus_client_id",
    "event_hubs_namespace",
    "event_hubs_client_id",
    "agents_client_id",
    "application_insights_connection",
    "application_insights_authentication",
    "alert_webhook_url",
    "auth_mode",
    "trace_url_template",
    "requests_in_flight",
}


def every_known_setting_is_set(infrastructure: Infrastructure) -> Iterator[str]:
    """Require every setting that the code reads, except connection strings, and all that the host needs."""
    for environment in infrastructure.environments:
        wanted = _known(infrastructure, environment) - application.TELEMETRY_ELSEWHERE
        for name in sorted(wanted - environment.settings.keys()):
            yield f"{environment.name}: setting {name} is not set"


def no_unknown_setting_is_set(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that every setting is read, and that none is a connection string."""
    for environment in infrastructure.environments:
        for name in sorted(environment.settings.keys() - _known(infrastructure, environment)):
            if not name.startswith(_OVERRIDE):
                yield f"{environment.name}: setting {name} is not read, or contains a key"


def application_starts_with_its_settings(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that the code accepts its settings, and that those that were not chosen have its defaults."""
    for environment in infrastructure.environments:
        try:
            values = {name: _text(value) for name, value in environment.settings.items()}
            read = application.start(values, infrastructure.sampled_agents)
        except SettingsError as error:
            yield f"{environment.name}: {error}"
            continue
        for setting, field in application.setting_names().items():
            default = application.default_of(field)
            if field not in _GIVEN and getattr(read, field) != default:
                yield f"{environment.name}: {setting} must be {default}, as in settings.py"


def agents_call_the_samples(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that with sample services each Agent calls the same path as locally, at the app itself."""
    for environment in infrastructure.environments:
        if not environment.parameters.get("sampleServices", True):
            continue
        for agent in _agents(infrastructure, environment):
            address = _text_of(environment.settings.get(agent.url_setting))
            if address != f"https://${{app.properties.defaultHostName}}{agent.path}":
                yield f"{environment.name}: {agent.url_setting} must lead to {agent.path} of the app itself"


def agents_send_the_key_of_the_samples(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that the host keeps its keys in the vault, and that Agents send that of the sample services."""
    prefix = f"function--{application.samples_function()}--"
    for environment in infrastructure.environments:
        if environment.settings.get("AzureWebJobsSecretStorageType") != "keyvault":
            yield f"{environment.name}: the host must keep its keys in the vault"
        kind = "Microsoft.KeyVault/vaults/secrets"
        secrets = environment.of(kind) + environment.existing(kind)
        keys = [secret.symbol for secret in secrets if str(secret.at("name")).startswith(prefix)]
        vaults = [each for each in infrastructure.apps if each["deployed"] == environment.app["deployed"]]
        wanted = sum(each["hasSamplesKey"] for each in vaults)
        if len(keys) != (wanted if environment.parameters.get("sampleServices", True) else 0):
            yield f"{environment.name}: the vault must have a key {prefix}… exactly where the samples are"
        if not environment.app["callsAgents"]:
            continue
        agents = _agents(infrastructure, environment)
        for name, key in product((agent.key_setting for agent in agents), keys):
            reference = f"@Microsoft.KeyVault(SecretUri=${{{key}.properties.secretUriWithVersion}})"
            if _text_of(environment.settings.get(name)) != reference:
                yield f"{environment.name}: {name} must refer to the key of the samples, and to its version"


def references_to_secrets_name_a_version(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that a setting changes with its secret: otherwise the platform keeps the old one for a day."""
    for environment in infrastructure.environments:
        for name, value in environment.settings.items():
            text = _text_of(value)
            if text.startswith("@Microsoft.KeyVault(") and not text.endswith(".secretUriWithVersion})"):
                yield f"{environment.name}: {name} must refer to a version of its secret"


def callers_are_identified_by_sign_in_only(infrastructure: Infrastructure) -> Iterator[str]:
    """Require AUTH_MODE easyauth only where sign-in is on: elsewhere the header could be forged."""
    for environment in infrastructure.environments:
        configs = {config.at("name") for config in environment.of("Microsoft.Web/sites/config")}
        wanted = "easyauth" if "authsettingsV2" in configs else "keys"
        if environment.settings.get("AUTH_MODE") != wanted:
            yield f"{environment.name}: AUTH_MODE must be {wanted}"


def connections_are_set(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that each trigger's connection is set, by identity, and that each one that is set is used."""
    for environment in infrastructure.environments:
        used = application.connections(with_hub=environment.has_hub, roles=environment.roles)
        parts = [name.split("__") for name in environment.settings if "__" in name]
        connections = {prefix for prefix, *_ in parts if prefix != _OVERRIDE.rstrip("_")}
        if connections != used:
            yield f"{environment.name}: connections {sorted(connections)} are set, and {sorted(used)} used"


def references_are_set(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that each `%NAME%` in host.json or a trigger is a setting."""
    texts = [*_strings(infrastructure.json("host.json")), *application.texts()]
    names = {name for text in texts for name in re.findall(r"%(\w+)%", text)}
    for environment in infrastructure.environments:
        for name in sorted(names - environment.settings.keys()):
            yield f"{environment.name}: %{name}% is no setting"


def host_json_fits_the_durable_backend(infrastructure: Infrastructure) -> Iterator[str]:
    """Require Azure Storage in host.json, and settings that override it for the Durable Task Scheduler."""
    durable = infrastructure.json("host.json")["extensions"]["durableTask"]
    for environment in infrastructure.environments:
        overrides = {name for name in environment.settings if name.startswith(_OVERRIDE)}
        wanted = "azureManaged" if _scheduled(environment) else "AzureStorage"
        provider = f"{_OVERRIDE}extensions__durableTask__storageProvider"
        if environment.settings.get(f"{provider}__type", durable["storageProvider"]["type"]) != wanted:
            yield f"{environment.name}: the durable back end must be {wanted}"
        if _scheduled(environment):
            if environment.settings.get(f"{provider}__connectionStringName") != DURABLE_CONNECTION:
                yield f"{environment.name}: the scheduler's connection must be {DURABLE_CONNECTION}"
        elif overrides:
            yield f"{environment.name}: host.json needs no {sorted(overrides)}"
        for name in overrides:
            if not _in_host_json(infrastructure, name.removeprefix(_OVERRIDE).split("__")[:-1]):
                yield f"{environment.name}: host.json has no place for {name}"


def _known(infrastructure: Infrastructure, environment: Environment) -> set[str]:
    durable = {DURABLE_CONNECTION} if _scheduled(environment) else set()
    own = set(application.setting_names()) - application.CONNECTION_STRINGS
    hub = {"EventHubConnection__credential"} | application.HUB_CONNECTION if environment.has_hub else set()
    own -= application.HUB_CONNECTION | application.AGENT_STORE
    connections = application.connections(with_hub=environment.has_hub, roles=environment.roles)
    hub = hub if "EventHubConnection" in connections else set()
    own |= application.AGENT_STORE if "AgentStore" in connections else set()
    if "StateStore" not in connections:
        own -= {"StateStore__tableServiceUri", "StateStore__clientId"}
    sampled = _agents(infrastructure, environment)
    agents = {name for agent in sampled for name in (agent.url_setting, agent.key_setting)}
    return own | hub | agents | HOST | durable


def _agents(infrastructure: Infrastructure, environment: Environment) -> list[SampledAgent]:
    """Return the Agents of sample services that the app knows; those of a removed workflow can stay."""
    known = application.agents_of(environment.roles)
    if environment.app["callsAgents"]:
        known |= _left(infrastructure, environment.roles)
    return [agent for agent in infrastructure.sampled_agents if agent.name in known]


def _left(infrastructure: Infrastructure, roles: frozenset[AppRole]) -> frozenset[str]:
    """Return the Agents of removed workflows: who has a queue is one behind it, and others are activities."""
    left = {agent.name for agent in infrastructure.sampled_agents} - application.agents_of(AppRole)
    queues = {each["name"] for each in infrastructure.json("infra/queues.json")["queues"]}
    queued = {name for name in left if requests_queue(name) in queues}
    if roles == {AppRole.AGENTS}:
        return frozenset(queued)
    return frozenset(left - queued if roles == {AppRole.SCHEDULER} else left)


def _scheduled(environment: Environment) -> bool:
    is_chosen = environment.parameters.get("durableBackend") == "scheduler"
    return is_chosen and AppRole.SCHEDULER in environment.roles


def _in_host_json(infrastructure: Infrastructure, path: list[str]) -> bool:
    place: object = infrastructure.json("host.json")
    for name in path:
        place = place.get(name) if isinstance(place, dict) else None
    return place is not None


def _text_of(value: Value) -> str:
    return value.text if isinstance(value, Unresolved) else ""


def _text(value: Value) -> str:
    """Return a setting as Azure would; values from Azure or the vault are replaced by an address."""
    match value:
        case Unresolved(text, written=True) if not text.startswith("@Microsoft.KeyVault("):
            return re.sub(r"\$\{[^}]*}", "known.example.com", text)
        case Unresolved():
            return "https://known.example.com/"
        case _:
            return str(value)


def _strings(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for each in value.values():
                yield from _strings(each)
        case list():
            for each in value:
                yield from _strings(each)
