"""Access: each app has its own identity, and exactly the roles that its code needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from functions.roles import AGENT_TABLES, AppRole
from tests.infra.application import agents_of, bindings, queues_received, queues_sent
from tests.infra.bicep.deployment import Planned
from tests.infra.bicep.values import Unresolved, Value, at, owner_of, shown, type_of
from tests.infra.infrastructure import Environment, Infrastructure
from tests.infra.policies import of_environments, policy

_SENDER = "69a216fc-b8fb-44d8-bc22-1f3c2cd27a39"
_RECEIVER = "4f6d3b9b-027b-4f4c-9142-0e5a2a2247e0"
#: The only role of an owner: the Functions host needs it for its leases.
_BLOBS = "b7e6dc6d-f1e8-4753-8033-0f276bb0955b"
_QUEUES = "974c5e8b-45b9-4653-ba55-5f855dd0fb88"
_TABLES = "0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3"
_SCHEDULER_USER = "0ad04412-c4d5-4796-b79c-f76d14c8d402"
_HUB_RECEIVER = "a638d3c7-ab3a-418d-83e6-5f17a39d4fde"
_PUBLISHER = "3913510d-42f4-4e42-8a64-420c390055eb"
_VAULT_OFFICER = "b86a8fe4-44ce-4948-aee5-eccb2c155cd7"

_VAULT = "AzureWebJobsSecretStorageKeyVaultUri"
_HOST = "AzureWebJobsStorage__blobServiceUri"

#: The types of the resources that no two apps share; the accounts of the state store are shared.
_OWN = (
    "Microsoft.ManagedIdentity/",
    "Microsoft.KeyVault/",
    "Microsoft.Storage/",
    "Microsoft.Web/serverfarms",
)
_STATE = ("StateStore", "AgentStore")


@of_environments
def each_app_has_exactly_the_roles_that_it_needs(environment: Environment) -> Iterator[str]:
    """Require each role on the narrowest resource, for the identity of an app."""
    every = environment.of("Microsoft.Authorization/roleAssignments")
    sites = environment.of("Microsoft.Web/sites")
    identities = {_identity_of(site) for site in sites}
    principals = [owner_of(each.at("properties", "principalId")) for each in every]
    if not {*principals} <= identities:
        yield f"roles are for {sorted({*principals} - identities)}, which are no app's identities"
    own = _identity_of(environment.site)
    assigned = Counter(
        (role_of(each), owner_of(each.at("scope")))
        for each, principal in zip(every, principals, strict=True)
        if principal == own
    )
    needed = Counter(_roles_needed(environment))
    if assigned != needed:
        yield f"roles {sorted(assigned - needed)} are too many, and {sorted(needed - assigned)} are missing"


def _roles_needed(environment: Environment) -> Iterator[tuple[str, str]]:
    """Yield the roles of the app's identity, each with the path of its scope."""
    names, settings, reach = environment.names, environment.settings, environment.permissions
    host, state, agents = owner_of(settings.get(_HOST)), names["stateStorage"], names["agentStorage"]
    yield _BLOBS, host
    yield _VAULT_OFFICER, owner_of(settings.get(_VAULT))
    yield _PUBLISHER, str(names["insights"])
    if reach.has_durable_client:
        yield from ((role, host) for role in (_QUEUES, _TABLES))
    if environment.is_scheduled:
        yield _SCHEDULER_USER, f"{names['durableScheduler']}/tasks"
    if reach.reads_hub and environment.has_hub:
        for hub in environment.infrastructure.json("infra/hubs.json")["hubs"]:
            yield _HUB_RECEIVER, f"{names['eventHubs']}/{hub['name']}"
    if environment.is_only_app:
        yield _TABLES, str(state)  # It creates the tables itself.
    else:
        has_samples = environment.has_samples and AppRole.FRONT in environment.roles
        for table in (*reach.tables, *(environment.infrastructure.sample_tables if has_samples else ())):
            yield _TABLES, f"{agents if table in AGENT_TABLES else state}/default/{table}"
    yield from _queue_roles_needed(environment)


def _queue_roles_needed(environment: Environment) -> Iterator[tuple[str, str]]:
    namespace, reach = environment.names["serviceBus"], environment.permissions
    queues = environment.of("Microsoft.ServiceBus/namespaces/queues")
    declared = {str(queue.at("name")) for queue in queues}
    for queue in queues_sent({name for name in declared if name.startswith("notices-")}):
        if reach.sends_to(queue):
            yield _SENDER, f"{namespace}/{queue}"
    for queue in queues_received():
        if reach.receives_from(queue):
            yield _RECEIVER, f"{namespace}/{queue}"


@policy
def apps_have_resources_of_their_own(infrastructure: Infrastructure) -> Iterator[str]:
    """Require one identity, plan, vault and host storage of each app, wherever it names them, and one subnet.

    No other app of the deployment has the same.
    """
    users: dict[tuple[int, str, str], str] = {}
    for environment in infrastructure.environments:
        site, name = environment.site, environment.name
        settings = {key: each for key, each in environment.settings.items() if not key.startswith(_STATE)}
        found = [each for each in _unresolved([site.body, settings]) if type_of(each).startswith(_OWN)]
        used = {(type_of(each).split("/")[0], owner_of(each).partition("/")[0]) for each in found}
        subnet = site.at("properties", "virtualNetworkSubnetId")
        used |= {("subnet", subnet.text)} if isinstance(subnet, Unresolved) else set()
        if sorted(kind for kind, _ in used if kind != "subnet") != sorted(
            each.split("/")[0] for each in _OWN
        ):
            yield f"{name}: the app uses {sorted(used)}"
        for kind, owner in used:
            if users.setdefault((id(environment.deployment), kind, owner), name) != name:
                yield f"{name}: {owner} is used by another app, too"
        package = site.at("properties", "functionAppConfig", "deployment", "storage", "authentication")
        vault = site.at("properties", "keyVaultReferenceIdentity")
        for each in (at(package, "userAssignedIdentityResourceId"), vault):
            if not type_of(each).startswith("Microsoft.ManagedIdentity/"):
                yield f"{name}: package and vault must be read with the app's identity"


def _unresolved(value: Value) -> Iterator[Unresolved]:
    match value:
        case Unresolved():
            yield value
        case list() | dict():
            for each in value.values() if isinstance(value, dict) else value:
                yield from _unresolved(each)


@policy
def roles_file_says_what_the_code_does(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that infra/roles.json is the table of functions/roles.py, in its order, and the Agents'."""
    both = agents_of({AppRole.SCHEDULER}) & agents_of({AppRole.AGENTS})
    if {*infrastructure.json("infra/roles.json")["agentsOfBothWays"]} != both:
        yield f"agentsOfBothWays must be {sorted(both)}"
    for environment in infrastructure.environments:
        app, reach = environment.app, environment.permissions
        wanted = {
            "tables": sorted(reach.tables - {*AGENT_TABLES}),
            "agentTables": sorted(reach.tables & {*AGENT_TABLES}),
            "receives": sorted(reach.receives),
            "sends": sorted(reach.sends),
            "taskHub": reach.has_durable_client,
            "readsHub": reach.reads_hub,
            "http": any(each["type"] == "httpTrigger" for each in bindings(roles=environment.roles)),
        }
        for key, value in wanted.items():
            if (sorted(app[key]) if isinstance(value, list) else app[key]) != value:
                yield f"{app['roles']}: {key} must be {value}"
    split = [app["roles"] for app in infrastructure.apps if app["deployed"] == "split"]
    if split != [[role] for role in AppRole]:
        yield f"the roles are {split}"


def role_of(assignment: Planned) -> str:
    """Return the id of the assigned role."""
    definition: Value = assignment.at("properties", "roleDefinitionId")
    return shown(definition).rstrip(")}").rpartition(", ")[2]


def _identity_of(site: Planned) -> str:
    return owner_of(site.at("properties", "keyVaultReferenceIdentity"))
