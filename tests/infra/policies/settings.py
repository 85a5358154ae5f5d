"""The app's settings and host.json match what the code reads, in both directions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from functions.connections import SettingsError
from functions.messaging.queue_names import requests_queue
from functions.roles import AppRole
from functions.settings import Settings
from tests.infra import application
from tests.infra.application import SampledAgent
from tests.infra.bicep.values import Unresolved, Value, shown
from tests.infra.infrastructure import Environment
from tests.infra.policies import of_environments

DURABLE_CONNECTION = "DURABLE_TASK_SCHEDULER_CONNECTION_STRING"

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
    "EventHubConnection__credential",
    "APPLICATIONINSIGHTS_CONNECTION_STRING",
    "APPLICATIONINSIGHTS_AUTHENTICATION_STRING",
}

#: A setting with this prefix overrides a value of host.json, at the path that follows.
_OVERRIDE = "AzureFunctionsJobHost__"

#: For telemetry on a developer's machine; in Azure, Application Insights replaces them.
_TELEMETRY_ELSEWHERE = {"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SERVICE_NAME"}

#: Settings whose values follow from the deployment, and may differ from their defaults.
_DEPLOYED = {"SAMPLE_SERVICES", "ROLES", "AUTH_MODE", "REQUESTS_IN_FLIGHT", "TRACE_URL_TEMPLATE"}


@of_environments
def settings_are_those_that_are_read(environment: Environment) -> Iterator[str]:
    """Require every setting that code or host reads, no other one, and no connection string.

    A connection is set by an address and an identity, in the apps that use it.
    """
    known = {*application.setting_names(), *HOST} - _TELEMETRY_ELSEWHERE
    strings = {name.partition("__")[0] for name in known if "__" in name}
    used = application.connections(with_hub=environment.has_hub, roles=environment.roles)
    wanted = {name for name in known - strings if "__" not in name or name.partition("__")[0] in used}
    for agent in _agents(environment):
        wanted |= {agent.url_setting, agent.key_setting}
    wanted |= {DURABLE_CONNECTION} if environment.is_scheduled else set()
    given = {name for name in environment.settings if not name.startswith(_OVERRIDE)}
    if wanted - given:
        yield f"settings {sorted(wanted - given)} are not set"
    if given - wanted:
        yield f"settings {sorted(given - wanted)} are not read, or contain a key"


@of_environments
def application_starts_with_its_settings(environment: Environment) -> Iterator[str]:
    """Require that the code accepts its settings, and that those that were not chosen have its defaults."""
    try:
        values = {name: _text(value) for name, value in environment.settings.items()}
        settings = application.start(values, environment.infrastructure.sampled_agents)
    except SettingsError as error:
        yield str(error)
        return
    for setting, field in application.setting_names().items():
        is_chosen = isinstance(environment.settings.get(setting), Unresolved) or setting in _DEPLOYED
        default = Settings.model_fields[field].get_default(call_default_factory=True)
        if not is_chosen and getattr(settings, field) != default:
            yield f"{setting} must be {default}, as in settings.py"


@of_environments
def agents_call_the_samples(environment: Environment) -> Iterator[str]:
    """Require that with sample services each Agent calls the same path as locally, with the vault's key.

    The host has its keys in the vault; the key of the sample services exists exactly where they are called.
    """
    if environment.settings.get("AzureWebJobsSecretStorageType") != "keyvault":
        yield "the host must have its keys in the vault"
    prefix, kind = "function--services--", "Microsoft.KeyVault/vaults/secrets"
    secrets = environment.of(kind) + environment.existing(kind)
    keys = [secret.symbol for secret in secrets if str(secret.at("name")).startswith(prefix)]
    apps = [
        each for each in environment.infrastructure.apps if each["deployed"] == environment.app["deployed"]
    ]
    if len(keys) != sum(each["hasSamplesKey"] for each in apps if environment.has_samples):
        yield f"the vault must have a key {prefix}… exactly where the samples are"
    for agent in _agents(environment) if environment.has_samples else ():
        wanted = {agent.url_setting: f"https://${{app.properties.defaultHostName}}{agent.path}"}
        for key in keys if environment.app["callsAgents"] else ():
            secret = f"${{{key}.properties.secretUriWithVersion}}"
            wanted[agent.key_setting] = f"@Microsoft.KeyVault(SecretUri={secret})"
        for name, value in wanted.items():
            if shown(environment.settings.get(name)) != value:
                yield f"{name} must be {value}"


@of_environments
def references_to_secrets_name_a_version(environment: Environment) -> Iterator[str]:
    """Require that a setting changes with its secret: otherwise the platform keeps the old one for a day."""
    for name, value in environment.settings.items():
        text = shown(value) if isinstance(value, Unresolved) else ""
        if text.startswith("@Microsoft.KeyVault(") and not text.endswith(".secretUriWithVersion})"):
            yield f"{name} must refer to a version of its secret"


@of_environments
def callers_are_identified_by_sign_in_only(environment: Environment) -> Iterator[str]:
    """Require AUTH_MODE easyauth only where sign-in is on: elsewhere the header could be forged."""
    wanted = "easyauth" if environment.of("Microsoft.Web/sites/config", "authsettingsV2") else "keys"
    if environment.settings.get("AUTH_MODE") != wanted:
        yield f"AUTH_MODE must be {wanted}"


@of_environments
def references_are_set(environment: Environment) -> Iterator[str]:
    """Require that each `%NAME%` in host.json or a trigger is a setting."""
    texts = json.dumps([environment.infrastructure.json("host.json"), *application.bindings()], default=str)
    for name in sorted({*re.findall(r"%(\w+)%", texts)} - environment.settings.keys()):
        yield f"%{name}% is no setting"


@of_environments
def host_json_fits_the_durable_backend(environment: Environment) -> Iterator[str]:
    """Require Azure Storage in host.json, and settings that override it for the Durable Task Scheduler."""
    host = environment.infrastructure.json("host.json")
    own = host["extensions"]["durableTask"]["storageProvider"]["type"]
    overrides = {name for name in environment.settings if name.startswith(_OVERRIDE)}
    provider = f"{_OVERRIDE}extensions__durableTask__storageProvider"
    backend = environment.settings.get(f"{provider}__type", own)
    connection = environment.settings.get(f"{provider}__connectionStringName")
    if environment.is_scheduled and (backend, connection) != ("azureManaged", DURABLE_CONNECTION):
        yield f"the durable back end must be azureManaged, on {DURABLE_CONNECTION}"
    if not environment.is_scheduled and (own != "AzureStorage" or overrides):
        yield f"the durable back end must be AzureStorage, without {sorted(overrides)}"
    for name in overrides:
        place: object = host
        for part in name.removeprefix(_OVERRIDE).split("__")[:-1]:
            place = place.get(part) if isinstance(place, dict) else None
        if place is None:
            yield f"host.json has no place for {name}"


def _agents(environment: Environment) -> list[SampledAgent]:
    """Return the Agents of sample services that the app uses; those of a removed workflow can stay.

    An Agent of a removed workflow is behind a queue if it has one, or else an activity.
    """
    sampled, used = environment.infrastructure.sampled_agents, application.agents_of(environment.roles)
    queues = {each["name"] for each in environment.infrastructure.json("infra/queues.json")["queues"]}
    for name in {agent.name for agent in sampled} - application.agents_of(AppRole):
        role = AppRole.AGENTS if requests_queue(name) in queues else AppRole.SCHEDULER
        if environment.app["callsAgents"] and role in environment.roles:
            used |= {name}
    return [agent for agent in sampled if agent.name in used]


def _text(value: Value) -> str:
    """Return a setting as Azure would; values from Azure or the vault are replaced by an address."""
    match value:
        case Unresolved(text, written=True) if not text.startswith("@Microsoft.KeyVault("):
            return re.sub(r"\$\{[^}]*}", "known.example.com", text)
        case Unresolved():
            return "https://known.example.com/"
        case _:
            return str(value)
