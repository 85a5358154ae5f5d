"""Access: no keys and no passwords, only identities, with the least privileges that they need."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from tests.infra.application import queues_left, queues_received, queues_sent
from tests.infra.bicep.deployment import Planned
from tests.infra.bicep.values import Unresolved, Value
from tests.infra.infrastructure import Environment, Infrastructure

_SENDER = "69a216fc-b8fb-44d8-bc22-1f3c2cd27a39"
_RECEIVER = "4f6d3b9b-027b-4f4c-9142-0e5a2a2247e0"
_BLOB_OWNER = "b7e6dc6d-f1e8-4753-8033-0f276bb0955b"
_SCHEDULER_USER = "0ad04412-c4d5-4796-b79c-f76d14c8d402"
_HUB_RECEIVER = "a638d3c7-ab3a-418d-83e6-5f17a39d4fde"
_HUB_SENDER = "2b629674-e913-4c01-ae53-ef4638d8f975"
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
    _HUB_SENDER: "Microsoft.EventHub/namespaces/eventhubs",
    "3913510d-42f4-4e42-8a64-420c390055eb": "Microsoft.Insights/components",
    _SCHEDULER_USER: "Microsoft.DurableTask/schedulers/taskHubs",
    "b86a8fe4-44ce-4948-aee5-eccb2c155cd7": "Microsoft.KeyVault/vaults",
}

#: How often each role is assigned, besides those on queues and on the task hub.
_ASSIGNED = {
    _BLOB_OWNER: 1,
    "974c5e8b-45b9-4653-ba55-5f855dd0fb88": 1,
    _TABLES: 2,
    "3913510d-42f4-4e42-8a64-420c390055eb": 1,
    "b86a8fe4-44ce-4948-aee5-eccb2c155cd7": 1,
}

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
        elif _type_of(scope) != _SCOPES[role]:
            yield f"{assignment.title}: role {role} belongs on {_SCOPES[role]}"
        if _type_of(assignment.at("properties", "principalId")) != _IDENTITY:
            yield f"{assignment.title}: roles are for the app's identity"
        if assignment.at("properties", "principalType") != "ServicePrincipal":
            yield f"{assignment.title}: without principalType ServicePrincipal, a new identity is not found"


def owner_is_for_the_host_only(infrastructure: Infrastructure) -> Iterator[str]:
    """Require exactly one owner role in an environment: the host's, on its own account."""
    for environment in infrastructure.environments:
        owned = [each for each in assignments(environment) if role_of(each) == _BLOB_OWNER]
        if len(owned) != 1:
            yield f"{environment.name}: Storage Blob Data Owner is for the host's account, and for no other"


def every_role_is_assigned(infrastructure: Infrastructure) -> Iterator[str]:
    """Require each role that the app and its host need, besides those on queues; no more of them either."""
    for environment in infrastructure.environments:
        given = Counter(map(role_of, assignments(environment)))
        scheduler = environment.parameters.get("durableBackend") == "scheduler"
        sends = environment.has_hub and environment.settings.get("SUBMIT_TO") == "hub"
        accounts = environment.parameters.get("stateAccounts", 1)
        optional = {
            _TABLES: _ASSIGNED[_TABLES] + (accounts - 1 if isinstance(accounts, int) else 0),
            _SCHEDULER_USER: int(scheduler),
            _HUB_RECEIVER: int(environment.has_hub),
            _HUB_SENDER: int(sends),
        }
        for role, wanted in {**_ASSIGNED, **optional}.items():
            if given[role] != wanted:
                yield f"{environment.name}: role {role} is assigned {given[role]} times, not {wanted}"


def queues_may_be_used_as_the_code_does(infrastructure: Infrastructure) -> Iterator[str]:
    """Require Sender and Receiver only on the queues that the code sends to and receives from."""
    for environment in infrastructure.environments:
        names = [str(queue.at("name")) for queue in environment.of("Microsoft.ServiceBus/namespaces/queues")]
        replies = {name for name in names if name.startswith("notices-")}
        for role, wanted in ((_SENDER, queues_sent(replies)), (_RECEIVER, queues_received())):
            granted = {names[number] for number in _numbers(environment, role) if number < len(names)}
            if granted | queues_left() != wanted | queues_left():
                yield f"{environment.name}: {role} is on {sorted(granted)}, and needed on {sorted(wanted)}"


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


def _numbers(environment: Environment, role: str) -> Iterator[int]:
    for assignment in assignments(environment):
        scope = assignment.at("scope")
        if role_of(assignment) == role and isinstance(scope, Unresolved):
            found = re.fullmatch(r"queue\[(\d+)]", scope.text)
            yield from [int(found.group(1))] if found else []
