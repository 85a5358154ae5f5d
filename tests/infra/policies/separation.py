"""What each app shares with no other: its identity, its host's storage, its vault, its subnet."""

from __future__ import annotations

from collections.abc import Iterator

from functions.roles import AppRole
from tests.infra.bicep.values import Unresolved, Value, at, owner_of
from tests.infra.infrastructure import Environment, Infrastructure
from tests.infra.policies.access import assignments, role_of

_BLOBS = "b7e6dc6d-f1e8-4753-8033-0f276bb0955b"
_OF_THE_TASK_HUB = ("974c5e8b-45b9-4653-ba55-5f855dd0fb88", "0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3")
_VAULT_OFFICER = "b86a8fe4-44ce-4948-aee5-eccb2c155cd7"

_VAULT = "AzureWebJobsSecretStorageKeyVaultUri"
_HOST = "AzureWebJobsStorage__blobServiceUri"
_PACKAGE = ("properties", "functionAppConfig", "deployment", "storage")


def apps_use_what_is_their_own(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that an app has one identity, host storage and vault, wherever it names them."""
    for environment in infrastructure.environments:
        site, settings = environment.site, environment.settings
        package = site.at(*_PACKAGE)
        identities = [
            site.at("properties", "keyVaultReferenceIdentity"),
            at(package, "authentication", "userAssignedIdentityResourceId"),
            *(value for name, value in settings.items() if name.endswith(("__clientId", "_CLIENT_ID"))),
            settings.get("AzureWebJobsSecretStorageKeyVaultClientId"),
            settings.get("APPLICATIONINSIGHTS_AUTHENTICATION_STRING"),
        ]
        hosts = [
            value for name, value in settings.items() if name.startswith(_HOST.partition("__")[0] + "__")
        ]
        hosts = [at(package, "value"), *(each for each in hosts if _of(each, "Microsoft.Storage/"))]
        for what, used in (("identity", identities), ("host storage", hosts)):
            if len(set(map(owner_of, used))) != 1:
                yield f"{environment.name}: {what} is of {sorted(set(map(owner_of, used)))}"


def apps_share_nothing_of_their_own(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that no other app of the deployment has the same."""
    taken: dict[tuple[int, str, str], str] = {}
    for environment in infrastructure.environments:
        for what, value in _own(environment):
            key = (id(environment.deployment), what, value)
            if taken.setdefault(key, environment.name) != environment.name:
                yield f"{environment.name}: {what} {value} is that of {taken[key]}, too"


def hosts_may_use_their_own_only(infrastructure: Infrastructure) -> Iterator[str]:
    """Require an app's roles on its host storage and its vault, and nobody else's there."""
    for environment in infrastructure.environments:
        site, settings = environment.site, environment.settings
        identity = owner_of(site.at("properties", "keyVaultReferenceIdentity"))
        hub = _OF_THE_TASK_HUB if AppRole.SCHEDULER in environment.roles else ()
        for setting, wanted in ((_HOST, {_BLOBS, *hub}), (_VAULT, {_VAULT_OFFICER})):
            own = owner_of(settings.get(setting))
            given = [each for each in assignments(environment) if owner_of(each.at("scope")) == own]
            held = {(role_of(each), owner_of(each.at("properties", "principalId"))) for each in given}
            if held != {(role, identity) for role in wanted}:
                yield f"{environment.name}: on {own}, {sorted(held)} are held"


def _own(environment: Environment) -> Iterator[tuple[str, str]]:
    properties = environment.site.at("properties")
    yield "identity", owner_of(at(properties, "keyVaultReferenceIdentity"))
    yield "plan", owner_of(at(properties, "serverFarmId"))
    yield "host storage", owner_of(environment.settings.get(_HOST))
    yield "vault", owner_of(environment.settings.get(_VAULT))
    subnet = at(properties, "virtualNetworkSubnetId")
    if isinstance(subnet, Unresolved):
        yield "subnet", subnet.text


def _of(value: Value, kind: str) -> bool:
    return isinstance(value, Unresolved) and str(value.resource_type).startswith(kind)
