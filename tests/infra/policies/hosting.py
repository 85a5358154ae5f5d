"""How the app is hosted: plan, runtime, scale, identity, zones, and what can't be deleted."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tests.infra import application
from tests.infra.bicep.template import named, text_of
from tests.infra.bicep.values import Unresolved, Value, at, items_of
from tests.infra.infrastructure import Environment, Infrastructure

_PLAN: Value = {"name": "FC1", "tier": "FlexConsumption"}
_IDENTITY = "Microsoft.ManagedIdentity/userAssignedIdentities"

#: The groups of functions that scale together; every other function is a group of its own.
_GROUPS = {"httpTrigger": "http", "orchestrationTrigger": "durable"}

_HUBS = "Microsoft.EventHub/namespaces"

#: What holds data, and may be locked.
_LOCKED = (
    "Microsoft.KeyVault/vaults",
    "Microsoft.ServiceBus/namespaces",
    "Microsoft.Storage/storageAccounts",
    _HUBS,
)


def app_runs_as_it_is_tested(infrastructure: Infrastructure) -> Iterator[str]:
    """Require Flex Consumption, and the version of Python that runs these tests."""
    for plan in infrastructure.each("Microsoft.Web/serverfarms"):
        if plan.at("sku") != _PLAN or plan.at("properties", "reserved") is not True:
            yield f"{plan.title}: the plan must be Flex Consumption, on Linux"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for app in infrastructure.each("Microsoft.Web/sites"):
        runtime = app.at("properties", "functionAppConfig", "runtime")
        if runtime != {"name": "python", "version": version}:
            yield f"{app.title}: the runtime must be Python {version}"


def always_ready_groups_exist(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that each is a group of the app; with zones, Azure refuses fewer than two instances of one."""
    for environment, scale in _scales(infrastructure):
        functions = application.functions(roles=environment.roles)
        kinds = {each["type"] for its in functions.values() for each in its}
        groups = {_GROUPS[kind] for kind in _GROUPS.keys() & kinds}
        groups |= {f"function:{name}" for name in functions}
        least = 2 if environment.parameters.get("zoneRedundant") else 1
        for each in items_of(at(scale, "alwaysReady")):
            count = at(each, "instanceCount")
            if at(each, "name") not in groups:
                yield f"{environment.name}: no function is in the always-ready group {at(each, 'name')}"
            if not isinstance(count, int) or count < least:
                yield f"{environment.name}: {count} instances of {at(each, 'name')} are always ready"


def callers_may_fill_an_instance(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that one caller may have all requests of an instance: fewer would bring no second one."""
    for environment, scale in _scales(infrastructure):
        at_once = at(scale, "triggers", "http", "perInstanceConcurrency")
        if at_once is None or environment.settings.get("REQUESTS_IN_FLIGHT") != str(at_once):
            yield f"{environment.name}: REQUESTS_IN_FLIGHT must be perInstanceConcurrency, {at_once}"


def app_uses_its_own_identity(infrastructure: Infrastructure) -> Iterator[str]:
    """Require it for the package and for references to the vault: by default, both take another identity."""
    for app in infrastructure.each("Microsoft.Web/sites"):
        package = app.at("properties", "functionAppConfig", "deployment", "storage", "authentication")
        if at(package, "type") != "UserAssignedIdentity" or app.at("identity", "type") != "UserAssigned":
            yield f"{app.title}: the package is read with the user-assigned identity"
        for name, used in (
            ("package", at(package, "userAssignedIdentityResourceId")),
            ("vault", app.at("properties", "keyVaultReferenceIdentity")),
        ):
            if not isinstance(used, Unresolved) or used.resource_type != _IDENTITY:
                yield f"{app.title}: the {name} must be read with the app's identity"


def durable_scheduler_takes_the_identity(infrastructure: Infrastructure) -> Iterator[str]:
    """Require its connection by managed identity, and billing by use, as the documentation says."""
    for environment in infrastructure.environments:
        schedulers = environment.of("Microsoft.DurableTask/schedulers")
        for scheduler in schedulers if environment.app["taskHub"] else ():
            if scheduler.at("properties", "sku") != {"name": "Consumption"}:
                yield f"{environment.name}: the scheduler must be billed by use"
            connection = environment.settings.get("DURABLE_TASK_SCHEDULER_CONNECTION_STRING")
            text = connection.text if isinstance(connection, Unresolved) else str(connection)
            parts = dict(part.partition("=")[::2] for part in text.split(";"))
            if parts.keys() != {"Endpoint", "Authentication", "ClientID"} or (
                parts["Authentication"] != "ManagedIdentity"
            ):
                yield f"{environment.name}: the scheduler must be reached by managed identity"


def zones_are_as_chosen(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that the plan runs in zones exactly where that is asked for: it costs instances."""
    for environment in infrastructure.environments:
        wanted = environment.parameters.get("zoneRedundant", False)
        for plan in environment.of("Microsoft.Web/serverfarms"):
            if plan.at("properties", "zoneRedundant") is not wanted:
                yield f"{environment.name}: zoneRedundant must be {wanted}"


def data_is_protected_as_chosen(infrastructure: Infrastructure) -> Iterator[str]:
    """Require locks and purge protection exactly where asked for: they hinder `azd down`."""
    for environment in infrastructure.environments:
        locks = environment.of("Microsoft.Authorization/locks")
        locked = sorted(str(getattr(lock.at("scope"), "resource_type", None)) for lock in locks)
        holding = sorted(each.type for kind in _LOCKED for each in environment.of(kind))
        if locked != (holding if environment.parameters.get("locked") else []):
            yield f"{environment.name}: locks are on {locked}"
        if any(lock.at("properties", "level") != "CanNotDelete" for lock in locks):
            yield f"{environment.name}: a lock is against deleting only; the application writes"
        wanted = True if environment.parameters.get("purgeProtection") else None
        for vault in environment.of("Microsoft.KeyVault/vaults"):
            if vault.at("properties", "enablePurgeProtection") is not wanted:
                yield f"{environment.name}: enablePurgeProtection must be {wanted}"


def regions_are_listed(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that azd offers a list of regions, and that those with zones are among them."""
    main = infrastructure.environments[0].deployment.template
    location = main.parameters["location"]
    offered = {
        text_of(each).strip("'") for each in named(location.decorators.get("allowed", (main.root,))[0])
    }
    zones = infrastructure.environments[0].deployment.value_of("regionsWithZones")
    missing = sorted(set(map(str, items_of(zones))) - offered)
    if missing:
        yield f"{main.path.name}: location does not offer {missing}"
    metadata = "".join(text_of(each) for each in location.decorators.get("metadata", ()))
    if "".join(metadata.split()) != "{azd:{type:'location'}}":
        yield f"{main.path.name}: location must be marked for azd"


def _scales(infrastructure: Infrastructure) -> Iterator[tuple[Environment, Value]]:
    for environment in infrastructure.environments:
        yield environment, environment.site.at("properties", "functionAppConfig", "scaleAndConcurrency")
