"""Each role's application has its functions, triggers and queues, and its start imports what it needs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from functions.core.definition.definition_checks import DefinitionError
from functions.messaging.queue_names import all_queues, dead_letter_queue, live_queue
from functions.messaging.senders import ForbiddenQueueError
from functions.roles import PERMISSIONS, AppRole, kind_of
from functions.storage.azure_table import AzureTable
from functions.table_accounts import TableAccount
from functions.wiring import Wiring
from functions.workflows.registry import load_registrations
from tests.fakes.application import SETTINGS, agent_addresses, wired

#: What the functions of the hub and of the Agents need besides.
_FURTHER = {
    "AgentStore": "UseDevelopmentStorage=true",
    "EventHubConnection": SETTINGS["ServiceBusConnection"],
}


def wired_for(*roles: AppRole, **settings: str) -> Wiring:
    """Return the parts of an application with these roles. The Agents' has no address of the state store."""
    state = {"StateStore": ""} if roles == (AppRole.AGENTS,) else {}
    return wired(ROLES=",".join(roles), **_FURTHER, **state, **settings)


def functions_of(*roles: AppRole) -> dict[str, Any]:
    """Return the functions of an application, by name."""
    functions = wired_for(*roles).function_app().get_functions()
    return {str(each.get_function_name()): each for each in functions}


def bindings_of(functions: Iterable[Any]) -> list[Any]:
    """Return the bindings of functions."""
    return [binding for function in functions for binding in function.get_bindings()]


def is_of(role: AppRole, function: str) -> bool:
    """Return whether a function belongs to a role. A name counts before a pattern."""
    named = {other for other, reach in PERMISSIONS.items() if function in reach.functions}
    if named:
        return role in named
    return any(fnmatchcase(function, pattern) for pattern in PERMISSIONS[role].functions)


@pytest.mark.parametrize("role", AppRole)
def test_role_has_exactly_its_functions(role: AppRole) -> None:
    """The whole application has the functions of all roles."""
    served, whole = set(functions_of(role)), set(functions_of())
    assert served == {name for name in whole if is_of(role, name)}
    assert {name for name in PERMISSIONS[role].functions if "*" not in name} <= served


@pytest.mark.parametrize("role", AppRole)
def test_role_has_its_triggers(role: AppRole) -> None:
    """Only the Scheduler has Durable bindings, and each role reads its own queues."""
    bindings = bindings_of(functions_of(role).values())
    durable = {binding.type for binding in bindings} & {
        *("durableClient", "orchestrationTrigger", "activityTrigger")
    }
    assert bool(durable) is PERMISSIONS[role].has_durable_client
    queues = {live_queue(each.queue_name) for each in bindings if each.type == "serviceBusTrigger"}
    assert {kind_of(queue) for queue in queues} == PERMISSIONS[role].receives


@pytest.mark.parametrize("role", AppRole)
def test_role_reaches_its_tables_only(role: AppRole, monkeypatch: pytest.MonkeyPatch) -> None:
    """The templates grant no other table."""
    reached, table = set[str](), TableAccount.table

    def opened(account: TableAccount, name: str) -> AzureTable:
        reached.add(name)
        return table(account, name)

    monkeypatch.setattr(TableAccount, "table", opened)
    assert functions_of(role)
    assert reached == PERMISSIONS[role].tables


def test_each_dead_letter_queue_has_one_reader() -> None:
    """No message that the bus gave up is lost unseen."""
    triggers = [each for each in bindings_of(functions_of().values()) if each.type == "serviceBusTrigger"]
    read = [each.queue_name for each in triggers if each.queue_name != live_queue(each.queue_name)]
    assert sorted(read) == sorted(map(dead_letter_queue, all_queues(["payment"])))


@pytest.mark.parametrize("role", AppRole)
async def test_role_sends_to_its_queues_only(role: AppRole) -> None:
    """A message to another queue is a defect, also where the templates do not prevent it."""
    wiring = wired_for(role)
    for queue in all_queues(["payment"]):
        sender: Any = wiring._sender
        if kind_of(queue) in PERMISSIONS[role].sends:
            assert sender._may_send(queue)
        else:
            with pytest.raises(ForbiddenQueueError):
                await sender.put(queue, None)


def test_agents_of_the_whole_application_send_replies_only() -> None:
    """An Agent that works there works in an application of its own."""
    sender: Any = wired_for()._make_sender(PERMISSIONS[AppRole.AGENTS])
    assert {queue for queue in all_queues(["payment"]) if sender._may_send(queue)} == {"agent-replies"}


def test_agents_setting_limits_the_calls_of_its_queue() -> None:
    """A queue has a gate of its own."""
    wiring: Any = wired(AGENT_PAYMENT_AT_ONCE="2")
    assert wiring._calls_at_once == {"payment": 2, "queue:payment": 2}


def test_task_exists_as_long_as_its_caller_may_cancel_it() -> None:
    """The start stops with the name of the workflow and the fix."""
    with pytest.raises(DefinitionError, match=r'"errands": cancel_within: .* set RETENTION_DAYS'):
        wired_for(RETENTION_DAYS="0.5")


#: Each takes a large part of a second: web applications, identities, clients, exporters.
_LATER = {
    *("azure.identity", "azure.monitor", "azure.servicebus", "azure.storage.blob"),
    *("cryptography", "fastapi", "fastapi_offline", "functions.api.order_routes"),
    *("functions.services.sample_application", "msal", "opentelemetry.exporter"),
    *("opentelemetry.instrumentation", "opentelemetry.sdk"),
    *("pyrate_limiter", "starlette"),
}
_START = """
import sys
from functions.settings import load_settings
from functions.storage.azure_table import AzureTable
from functions.table_accounts import TableAccount
from functions.wiring import Wiring, start_telemetry
from functions.workflows.registry import load_registrations
settings = load_settings()
start_telemetry(settings)
print(len(Wiring(settings, load_registrations()).function_app().get_functions()), *sys.modules)
"""


def test_start_imports_no_more_than_it_needs() -> None:
    """All functions are registered, those of the sample services and of the hub, too."""
    started = subprocess.run(
        [sys.executable, "-c", _START],
        cwd=Path(__file__).parents[3],
        env={**SETTINGS, **_FURTHER, **agent_addresses(load_registrations())},
        check=True,
        capture_output=True,
        text=True,
    )
    functions, *modules = started.stdout.split()
    assert int(functions) > 10
    assert _LATER.isdisjoint(modules), sorted(_LATER.intersection(modules))
