"""Access: no keys and no passwords, only identities, with the least privileges that they need."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from functions.roles import AGENT_TABLES, AppRole, reach_of
from functions.services.service import FAULTS_TABLE
from tests.infra.application import agents_of, bindings, queues_left, queues_received, queues_sent
from tests.infra.bicep.deployment import Planned
from tests.infra.bicep.values import Unresolved, Value, owner_of
from tests.infra.infrastructure import Environment, Infrastructure

_SENDER = "69a216fc-b8fb-44d8-bc22-1f3c2cd27a39"
_RECEIVER = "4f6d3b9b-027b-4f4c-9142-0e5a2a2247e0"
_BLOB_OWNER = "b7e6dc6d-f1e8-4753-8033-0f276bb0955b"
_SCHEDULER_USER = "0ad04412-c4d5-4796-b79c-f76d14c8d402"
_HUB_RECEIVER = "a638d3c7-ab3a-418d-83e6-5f17a39d4fde"
_TABLES = "0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3"
_IDENTITY = "Microsoft.ManagedIdentity/userAssignedIdentities"

#: Each role that is granted, and the type of resource that it is granted on.
#: The only owner is Storage Blob Data Owner, which the Functions host needs for its leases.
_SCOPES = {
    _BLOB_OWNER: "Microsoft.Storage/storageAccounts",
    "974c5e8b-45b9-4653-ba55-5f855dd0fb88": "Microsoft.Storage/storageAccounts",
    _TABLES: "Microsoft.Storage/storageAccounts",
    _SENDER: "Microsoft.ServiceBus/namespaces/queues",
    _RECEIVER: "Microsoft.ServiceBus/namespaces/queues",
    _HUB_RECEIVER: "Microsoft.EventHub/namespaces/eventhubs",
    "3913510d-42f4-4e42-8a64-420c390055eb": "Microsoft.Insights/components",
    _SCHEDULER_USER: "Microsoft.DurableTask/schedulers/taskHubs",
    "b86a8fe4-44ce-4948-aee5-eccb2c155cd7": "Microsoft.KeyVault/vaults",
}

_TABLE = "Microsoft.Storage/storageAccounts/tableServices/tables"

#: The properties that make a service accept identities only.
_KEYS_OFF = {
    "Microsoft.Storage/storageAccounts": (("allowSharedKeyAccess",), False),
    "Microsoft.ServiceBus/namespaces": (("disableLocalAuth",), True),
    "Microsoft.EventHub/namespaces": (("disableLocalAuth",), True),
    "Microsoft.Insights/components": (("DisableLocalAuth",), True),
    "Microsoft.OperationalInsights/workspaces": (("features", "disableLocalAuth"), True),
    "Microsoft.KeyVault/vaults": (("enableRbacAuthorization",), True),
    "Microsoft.Web/sites/basicPublishingCredentialsPolicies": (("allow",), False),
}


def keys_and_passwords_are_off(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that every service refuses keys, and the app refuses deployment by password."""
    for kind, (path, wanted) in _KEYS_OFF.items():
        for resource in infrastructure.each(kind):
            if resource.at("properties", *path) is not wanted:
                yield f"{resource.title}: {'.'.join(path)} must be {wanted}"


def passwords_are_off_for_ftp_and_scm(infrastructure: Infrastructure) -> Iterator[str]:
    """Require it for FTP and for the deployment site; by default, both accept passwords."""
    for environment in infrastructure.environments:
        doors = environment.of("Microsoft.Web/sites/basicPublishingCredentialsPolicies")
        if {door.at("name") for door in doors} != {"ftp", "scm"}:
            yield f"{environment.name}: passwords must be off for ftp and scm"


def nothing_is_public_in_storage(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that no blob can be read anonymously."""
    for account in infrastructure.each("Microsoft.Storage/storageAccounts"):
        if account.at("properties", "allowBlobPublicAccess") is not False:
            yield f"{account.title}: allowBlobPublicAccess must be false"
    for container in infrastructure.each("Microsoft.Storage/storageAccounts/blobServices/containers"):
        if container.at("properties", "publicAccess") != "None":
            yield f"{container.title}: publicAccess must be None"


def roles_are_narrow(infrastructure: Infrastructure) -> Iterator[str]:
    """Require each role to be listed, on the narrowest sufficient resource, and for the app's identity."""
    for assignment in infrastructure.each("Microsoft.Authorization/roleAssignments"):
        role, scope = role_of(assignment), assignment.at("scope")
        if role not in _SCOPES:
            yield f"{assignment.title}: role {role} is not one that the app needs"
        elif _type_of(scope) != _SCOPES[role] and (role, _type_of(scope)) != (_TABLES, _TABLE):
            yield f"{assignment.title}: role {role} belongs on {_SCOPES[role]}"
        if _type_of(assignment.at("properties", "principalId")) != _IDENTITY:
            yield f"{assignment.title}: roles are for the app's identity"
        if assignment.at("properties", "principalType") != "ServicePrincipal":
            yield f"{assignment.title}: without principalType ServicePrincipal, a new identity is not found"


def owner_is_for_the_host_only(infrastructure: Infrastructure) -> Iterator[str]:
    """Require exactly one owner role for each app: its host's, on an account of its own."""
    for environment in infrastructure.environments:
        owned = [each for each in assignments(environment) if role_of(each) == _BLOB_OWNER]
        if len(owned) != len(environment.of("Microsoft.Web/sites")):
            yield f"{environment.name}: Storage Blob Data Owner is for the host's account, and for no other"


def every_role_is_assigned(infrastructure: Infrastructure) -> Iterator[str]:
    """Require each role that apps and their hosts need, besides those on queues; no more of them either."""
    for environment in infrastructure.environments:
        given = Counter(map(role_of, assignments(environment)))
        apps = len(environment.of("Microsoft.Web/sites"))
        scheduler = environment.parameters.get("durableBackend") == "scheduler"
        wanted = {
            _BLOB_OWNER: apps,
            "974c5e8b-45b9-4653-ba55-5f855dd0fb88": 1,
            "3913510d-42f4-4e42-8a64-420c390055eb": apps,
            "b86a8fe4-44ce-4948-aee5-eccb2c155cd7": apps,
            _SCHEDULER_USER: int(scheduler),
            _HUB_RECEIVER: int(environment.has_hub),
        }
        for role, count in wanted.items():
            if given[role] != count:
                yield f"{environment.name}: role {role} is assigned {given[role]} times, not {count}"


def tables_may_be_used_as_the_roles_say(infrastructure: Infrastructure) -> Iterator[str]:
    """Require the role on the tables of functions/roles.py, each in its account, and on no other.

    One app with all roles has it on the account, and makes the tables itself.
    """
    samples = {FAULTS_TABLE, *(agent.table for agent in infrastructure.sampled_agents)}
    for environment in infrastructure.environments:
        granted = Counter(_told(each) for each in _of_app(environment) if role_of(each) == _TABLES)
        if environment.is_whole:
            wanted = Counter({"all tables": 1})
        else:
            reach = reach_of(environment.roles)
            wanted = Counter(reach.tables)
            has_samples = environment.parameters.get("sampleServices", True)
            wanted.update(samples if has_samples and AppRole.FRONT in environment.roles else ())
        if granted != wanted:
            yield f"{environment.name}: tables {granted} may be used, and {wanted} are needed"
        for table in environment.existing(_TABLE):
            parent = table.at("parent")
            is_agents = isinstance(parent, Unresolved) and parent.text == "tableService[1]"
            if is_agents is not (table.at("name") in AGENT_TABLES):
                yield f"{environment.name}: {table.at('name')} is looked for in another account"


def queues_may_be_used_as_the_code_does(infrastructure: Infrastructure) -> Iterator[str]:
    """Require Sender and Receiver only on the queues that the code sends to and receives from."""
    for environment in infrastructure.environments:
        names = [str(queue.at("name")) for queue in environment.of("Microsoft.ServiceBus/namespaces/queues")]
        replies = {name for name in names if name.startswith("notices-")}
        left = queues_left() & {*names}
        sent, received = queues_sent(replies) | left, queues_received() | left
        if not environment.is_whole:
            reach = reach_of(environment.roles)
            sent = {name for name in sent if reach.sends_to(name)}
            received = {name for name in received if reach.receives_from(name)}
        for role, wanted in ((_SENDER, sent), (_RECEIVER, received)):
            granted = {names[number] for number in _numbers(environment, role) if number < len(names)}
            if granted != wanted:
                yield f"{environment.name}: {role} is on {sorted(granted)}, and needed on {sorted(wanted)}"


def hubs_may_be_used_as_the_roles_say(infrastructure: Infrastructure) -> Iterator[str]:
    """Require an app's roles on the event hub and on the task hub to be those of functions/roles.py."""
    for environment in infrastructure.environments:
        reach = reach_of(environment.roles)
        scheduler = environment.parameters.get("durableBackend") == "scheduler"
        wanted = {
            _HUB_RECEIVER: reach.reads_hub and environment.has_hub,
            _SCHEDULER_USER: reach.has_durable_client and scheduler,
        }
        granted = set(map(role_of, _of_app(environment))) & wanted.keys()
        if granted != {role for role, is_needed in wanted.items() if is_needed}:
            yield f"{environment.name}: on hubs, {sorted(granted)} are assigned"


def roles_file_says_what_the_code_does(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that infra/roles.json is the table of functions/roles.py, in its order, and the Agents'."""
    both = agents_of({AppRole.SCHEDULER}) & agents_of({AppRole.AGENTS})
    if {*infrastructure.json("infra/roles.json")["agentsOfBothWays"]} != both:
        yield f"infra/roles.json: agentsOfBothWays must be {sorted(both)}"
    for app in infrastructure.apps:
        roles = frozenset(map(AppRole, app["roles"]))
        reach = reach_of(roles)
        said = [{*app["tables"], *app["agentTables"]}, {*app["receives"]}, {*app["sends"]}]
        said += [app["taskHub"], app["readsHub"]]
        wanted = [reach.tables, reach.receives, reach.sends, reach.has_durable_client, reach.reads_hub]
        if said != wanted:
            yield f"{app['roles']}: infra/roles.json differs from functions/roles.py"
        if {*app["agentTables"]} - {*AGENT_TABLES}:
            yield f"{app['roles']}: not all of agentTables are the Agents'"
        http = any(each["type"] == "httpTrigger" for each in bindings(roles=roles))
        if app["http"] is not http:
            yield f"{app['roles']}: http must be {http}"
    split = [app["roles"] for app in infrastructure.apps if app["deployed"] == "split"]
    if split != [[role] for role in AppRole]:
        yield f"infra/roles.json: the roles are {split}"


def assignments(environment: Environment) -> list[Planned]:
    """Return the role assignments of an environment."""
    return environment.of("Microsoft.Authorization/roleAssignments")


def role_of(assignment: Planned) -> str:
    """Return the id of the assigned role."""
    definition = assignment.at("properties", "roleDefinitionId")
    text = definition.text if isinstance(definition, Unresolved) else str(definition)
    found = re.search(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", text)
    return found.group() if found else text


def _type_of(value: Value) -> str | None:
    return value.resource_type if isinstance(value, Unresolved) else None


def _of_app(environment: Environment) -> list[Planned]:
    """Return the assignments of the app's identity, but for those on its own host storage and vault."""
    identity = owner_of(environment.site.at("properties", "keyVaultReferenceIdentity"))
    settings = environment.settings
    own = {
        owner_of(settings.get("AzureWebJobsStorage__blobServiceUri")),
        owner_of(settings.get("AzureWebJobsSecretStorageKeyVaultUri")),
    }
    return [
        each
        for each in assignments(environment)
        if owner_of(each.at("properties", "principalId")) == identity
        and owner_of(each.at("scope")) not in own
    ]


def _told(assignment: Planned) -> str:
    return str(assignment.at("properties", "description") or "").partition(": ")[2]


def _numbers(environment: Environment, role: str) -> Iterator[int]:
    for assignment in _of_app(environment):
        scope = assignment.at("scope")
        if role_of(assignment) == role and isinstance(scope, Unresolved):
            found = re.fullmatch(r"queue\[(\d+)]", scope.text)
            yield from [int(found.group(1))] if found else []
