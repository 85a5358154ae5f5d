"""The runbook's table of who may do what: the roles that the templates assign, and no other."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.infra.bicep.deployment import Deployment
from tests.infra.bicep.values import Unresolved, properties_of
from tests.infra.infrastructure import REPOSITORY, Infrastructure
from tests.infra.policies.access import role_of

_TABLE = (REPOSITORY / "docs/operations.md").read_text(encoding="utf-8").partition("## Who may do what")[2]
_APPLICATION = "the application's identity"

#: The table's names for the resources that roles are assigned on.
_PLACES = {
    "Microsoft.ServiceBus/namespaces/queues": "each queue",
    "Microsoft.EventHub/namespaces/eventhubs": "each hub",
    "Microsoft.Insights/components": "Application Insights component",
    "Microsoft.DurableTask/schedulers/taskHubs": "task hub",
    "Microsoft.KeyVault/vaults": "vault",
}


def test_table_names_exactly_the_roles_that_are_assigned() -> None:
    """Each with its scope."""
    [everything] = [
        each for each in Infrastructure(REPOSITORY).environments if each.name == "with everything"
    ]
    given = {pair for each in everything.deployment.deployments() for pair in _given(each)}
    assert set(_listed()) == given


def test_every_row_gives_the_reason() -> None:
    """A role without a reason should not be assigned."""
    assert [row for row in _rows() if not all(row[1:])] == []


def _rows() -> list[list[str]]:
    """Read the table's rows, below its header."""
    lines = [line for line in _TABLE.splitlines() if line.startswith("| ")][1:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def _listed() -> Iterator[tuple[str, str]]:
    """Return the application's roles and their scopes; a row without a name continues the one above."""
    who = ""
    for name, roles, place, _ in _rows():
        who = name or who
        if who == _APPLICATION:
            yield from ((role.lower(), re.split(r",| \(", place)[0]) for role in roles.split(", "))


def _given(deployment: Deployment) -> Iterator[tuple[str, str]]:
    """Return the roles that one template assigns, and their scopes."""
    names = _role_names()
    for each in deployment.planned():
        if (
            each.type == "Microsoft.Authorization/roleAssignments"
            and each.template == deployment.template.path
        ):
            scope = each.at("scope")
            assert isinstance(scope, Unresolved)
            yield names[role_of(each)], _place(str(scope.resource_type), deployment)


def _place(resource_type: str, deployment: Deployment) -> str:
    """Return the name of a role's scope; the host's storage account is the one with a container."""
    if resource_type != "Microsoft.Storage/storageAccounts":
        return _PLACES[resource_type]
    is_host = deployment.template.path.stem == "storage-account"
    return "host's storage account" if is_host else "state store's account"


def _role_names() -> dict[str, str]:
    """Return the name of each role, by id."""
    roles = Deployment(REPOSITORY / "infra/modules/roles.bicep", {}).value_of("roles")
    return {
        str(role): re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
        for name, role in properties_of(roles).items()
    }
