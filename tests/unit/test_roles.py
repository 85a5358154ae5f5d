"""Each role's application has its functions, tables and queues; its start loads what it needs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import azure.durable_functions as df
import pytest
from azure.servicebus.aio import ServiceBusClient

from functions.adapters import NotOfThisRoleError
from functions.agents.endpoints import url_setting
from functions.bus.hub import HubSubmissions
from functions.bus.messages import QueuedMessages
from functions.bus.sender import connect_bus
from functions.connections import Connection
from functions.messages.queues import QUEUES, living_queue
from functions.pattern.errors import SettingsError
from functions.pattern.ports import Ports
from functions.roles import AGENT_TABLES, REACHES, AppRole, QueueKind, kind_of, reach_of
from functions.settings import load_settings
from functions.store import connect as table_storage
from functions.store.agent_requests import AGENT_REQUESTS_TABLE
from functions.store.tables import CIRCUITS_TABLE, TABLES
from functions.wiring import Wiring
from functions.workflows.registry import load_registrations
from tests.infra.application import functions
from tests.security.conftest import SETTINGS

_REGISTRATIONS = load_registrations()
_STEPS = [step for each in _REGISTRATIONS for step in each.workflow.steps]
_STATE = {"StateStore": "UseDevelopmentStorage=true"}
_BUS = "Endpoint=sb://127.0.0.1;SharedAccessKeyName=local;SharedAccessKey=local"
_OTHERS = {
    "AgentStore": "UseDevelopmentStorage=true",
    "ServiceBusConnection": _BUS,
    "EventHubConnection": _BUS,
    "SAMPLE_SERVICES": "1",
    "SUBMIT_TO": "hub",
}
_ADDRESSES = {url_setting(step.agent): "https://service.example" for step in _STEPS}

_OF_TASKS = {
    *("store", "index", "index_rows", "outbox", "retention"),
    *("heartbeats", "times", "alert_minute", "minute_counts"),
}
#: The ports of each table.
_PORTS = {
    "Tasks": _OF_TASKS,
    "Rejected": {"rejected"},
    "Circuits": {"breakers"},
    "AgentRequests": {"agent_requests"},
}


def _wired(*roles: AppRole, **settings: str) -> Wiring:
    """Wire an application with these roles; the Agents' has no address of the state store."""
    state = {} if roles == (AppRole.AGENTS,) else _STATE
    given = {"ROLES": ",".join(roles), **state, **_OTHERS, **_ADDRESSES, **settings}
    with pytest.MonkeyPatch.context() as environment:
        for name, value in given.items():
            environment.setenv(name, value)
        return Wiring(load_settings(), _REGISTRATIONS)


def _functions(*roles: AppRole) -> dict[str, Any]:
    app = df.DFApp()
    for blueprint in _wired(*roles).blueprints():
        app.register_functions(blueprint)
    return {each.get_function_name(): each for each in app.get_functions()}


def _roles_serving(function: str) -> frozenset[AppRole]:
    """Return the roles that name a function, or else the roles whose pattern matches it."""
    named = frozenset(role for role, reach in REACHES.items() if function in reach.functions)
    return named or frozenset(
        role
        for role, reach in REACHES.items()
        if any(fnmatchcase(function, each) for each in reach.functions)
    )


def _bindings(functions: Iterable[Any]) -> list[Any]:
    return [binding for function in functions for binding in function.get_bindings()]


@pytest.mark.parametrize("role", AppRole)
def test_role_has_exactly_its_functions(role: AppRole) -> None:
    """Those of the whole application that the table gives it, and all that the table names."""
    served = set(_functions(role))
    assert served == {name for name in _functions() if role in _roles_serving(name)}
    assert {each for each in REACHES[role].functions if "*" not in each} <= served


@pytest.mark.parametrize("role", AppRole)
def test_only_the_scheduler_has_a_durable_client(role: AppRole) -> None:
    """Others ask for Schedulers on their queue; so only its storage holds the task hub."""
    kinds = {binding.type for binding in _bindings(_functions(role).values())}
    durable = kinds & {"durableClient", "orchestrationTrigger", "activityTrigger"}
    assert bool(durable) is REACHES[role].has_durable_client is (role is AppRole.SCHEDULER)


@pytest.mark.parametrize("role", AppRole)
def test_role_is_triggered_by_queues_that_it_may_receive_from(role: AppRole) -> None:
    """By each kind of them; those that the Supervisor only looks at, it reads the dead letters of."""
    bindings = _bindings(_functions(role).values())
    queues = {living_queue(each.queue_name) for each in bindings if each.type == "serviceBusTrigger"}
    assert set(map(kind_of, queues)) == REACHES[role].receives


def _is_there(ports: Ports, port: str) -> bool:
    try:
        _ = getattr(ports, port).anything
    except NotOfThisRoleError:
        return False
    except AttributeError:
        return True
    raise AssertionError(port)


@pytest.mark.parametrize("role", AppRole)
def test_role_gets_the_adapters_of_its_tables_only(role: AppRole) -> None:
    """The Agents' application has no state store, and starts without its address."""
    ports = _wired(role)._ports
    wanted = set[str]().union(*(_PORTS[table] for table in REACHES[role].tables))
    every = set[str]().union(*_PORTS.values())
    assert {port for port in every if _is_there(ports, port)} == wanted
    assert every <= {field.name for field in fields(Ports)}


@pytest.mark.parametrize(("role", "queues"), [(AppRole.FRONT, set()), (AppRole.AGENTS, {"queues"})])
def test_role_looks_only_at_queues_that_it_may_receive_from(role: AppRole, queues: set[str]) -> None:
    """The front knows the length of the line from one row that the Supervisor writes."""
    ports = _wired(role)._ports
    assert {port for port in ("queues", "line") if _is_there(ports, port)} == queues


def test_agents_have_no_more_in_the_whole_application() -> None:
    """What works there, works in an application of their own."""
    ports = _wired()._agent_ports
    assert not any(_is_there(ports, port) for port in _OF_TASKS)
    assert {queue for queue in QUEUES if _may_send(ports, queue)} == _sendable(AppRole.AGENTS)
    assert _is_there(_wired()._ports, "store")


@pytest.mark.parametrize("role", AppRole)
def test_role_sends_to_its_queues_only(role: AppRole) -> None:
    """What the templates would not let it do in Azure, it is not let do anywhere."""
    ports = _wired(role)._ports
    assert {queue for queue in QUEUES if _may_send(ports, queue)} == _sendable(role)


def _may_send(ports: Ports, queue: str) -> bool:
    """Tell whether the messages of these ports find a sender for a queue; none is connected."""
    postbox: Any = ports.postbox
    try:
        postbox._sender(queue)
    except NotOfThisRoleError:
        return False
    return True


def _sendable(role: AppRole) -> set[str]:
    return {queue for queue in QUEUES if kind_of(queue) in REACHES[role].sends}


@pytest.mark.parametrize("role", AppRole)
def test_only_the_front_puts_orders_on_the_hub(role: AppRole) -> None:
    """Nobody else has that right in Azure, and each has the queue if it may submit at all."""
    submissions: Any = _wired(role, SUBMIT_TO="hub")._ports.submissions
    assert isinstance(submissions._submissions, HubSubmissions) is (role is AppRole.FRONT)


def test_supervisor_of_its_own_measures_no_circuits(monkeypatch: pytest.MonkeyPatch) -> None:
    """It calls nobody, and would tell of circuits that are closed for ever."""
    observed: list[object] = []
    monkeypatch.setattr("functions.agents.catalog.observe_breakers", observed.append)
    _wired(AppRole.SUPERVISOR)
    assert observed == []
    _wired(AppRole.AGENTS)
    assert len(observed) == 1


def test_role_needs_the_addresses_of_the_services_that_it_calls() -> None:
    """The front calls none; the Scheduler does without the address of an Agent behind a queue."""
    _wired(AppRole.FRONT, **dict.fromkeys(_ADDRESSES, ""))
    _wired(AppRole.SCHEDULER, PAYMENT_URL="")
    with pytest.raises(SettingsError, match="PAYMENT_URL"):
        _wired(AppRole.AGENTS, PAYMENT_URL="")
    with pytest.raises(SettingsError, match="DRONE_URL"):
        _wired(AppRole.SCHEDULER, DRONE_URL="")


def test_tables_of_the_roles_are_the_stores() -> None:
    """The table of roles names them; the store makes them."""
    assert AGENT_TABLES == (CIRCUITS_TABLE, AGENT_REQUESTS_TABLE)
    assert reach_of(AppRole).tables == {*TABLES, *AGENT_TABLES}


@pytest.mark.parametrize(
    ("settings", "missing"),
    [({"AgentStore": ""}, "AgentStore"), ({"ServiceBusConnection": ""}, "ServiceBus")],
)
def test_agents_need_their_own_store(settings: dict[str, str], missing: str) -> None:
    """And nothing of the state store: one line says so."""
    with pytest.raises(SettingsError, match=missing):
        _wired(AppRole.AGENTS, **settings)


def test_role_that_does_not_exist_is_refused() -> None:
    """With those that do; without any, the application is whole."""
    with pytest.raises(SettingsError, match=r"ROLES is wrong .*'supervisor'"):
        _wired(AppRole.FRONT, ROLES="front,back")
    assert _wired()._roles == set(AppRole)


@pytest.mark.parametrize("role", [None, *AppRole])
def test_tables_are_made_by_the_whole_application_only(
    role: AppRole | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any other reads what the state store was made with, if it has one."""
    made: list[Sequence[str]] = []
    monkeypatch.setattr("functions.wiring.prepare_tables", lambda _, names, **__: made.append(names))
    monkeypatch.setattr("functions.wiring.make_tables", lambda _, names, **__: made.append(names))
    _wired(*([] if role is None else [role])).prepare()
    if role is None:
        assert set[str]().union(*made) >= {*TABLES, *AGENT_TABLES}
    else:
        assert [*made] == ([] if role is AppRole.AGENTS else [()])


def test_queue_of_any_other_name_is_a_callers() -> None:
    """It takes notices; what an Agent is asked for has a name of its own form."""
    assert kind_of("erp-replies") is QueueKind.NOTICES
    assert kind_of("agent-car-rental-requests") is QueueKind.AGENT_REQUESTS


_HUB = {
    "EventHubConnection": "Endpoint=sb://127.0.0.1:5672;SharedAccessKeyName=local;SharedAccessKey=local",
}
_URLS = [f"{name}_URL" for name in ("PAYMENT", "ACCOUNT", "PACKAGE", "TRANSPORT", "DRONE", "DELIVERY")]


@pytest.mark.parametrize(
    ("given", "way"),
    [
        ({}, QueuedMessages),
        (_HUB, QueuedMessages),
        ({**_HUB, "SUBMIT_TO": "queue"}, QueuedMessages),
        ({**_HUB, "SUBMIT_TO": "hub"}, HubSubmissions),
    ],
)
def test_api_submits_to_the_way_that_is_chosen(
    given: dict[str, str], way: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the queue, unless the settings say otherwise; what is put back goes to the queue in any case."""
    for name, value in {**SETTINGS, **dict.fromkeys(_URLS, "https://service.example"), **given}.items():
        monkeypatch.setenv(name, value)
    ports = Wiring(load_settings(), load_registrations())._ports
    submissions: Any = ports.submissions
    assert isinstance(submissions._submissions, way)
    assert isinstance(ports.postbox, QueuedMessages)


def test_functions_of_the_hub_are_there_only_with_it() -> None:
    """All others are the same."""
    without, with_hub = functions(), functions(with_hub=True)
    assert {name: each for name, each in with_hub.items() if name in without} == without
    assert _types(with_hub["ingestion"]) == ["durableClient", "eventHubTrigger"]
    assert with_hub.keys() - without.keys() == {"ingestion"}


def _types(bindings: Sequence[dict[str, Any]]) -> list[str]:
    return sorted(str(each["type"]) for each in bindings)


#: The event hub's clients are to come later, too.
_HUB_AT_START = {
    "EventHubConnection": "Endpoint=sb://127.0.0.1;SharedAccessKeyName=local;SharedAccessKey=local",
    "SUBMIT_TO": "hub",
}

#: Each takes a large part of a second: web applications, identities, the bus, exporters.
LATER = {
    "azure.eventhub",
    "azure.identity",
    "azure.monitor",
    "azure.servicebus",
    "azure.storage.blob",
    "cryptography",
    "fastapi",
    "fastapi_offline",
    "functions.api.application",
    "functions.operations.application",
    "functions.services.application",
    "msal",
    "opentelemetry.exporter",
    "opentelemetry.sdk",
    "pyrate_limiter",
    "starlette",
}

#: The functions are registered, and nothing is connected to.
_START = """
import gc, sys
from functions.wiring import Wiring
Wiring.prepare = lambda self: None
import function_app
print(gc.get_threshold()[0], gc.get_freeze_count(), len(function_app.app.get_functions()), *sys.modules)
"""


def test_what_a_start_does_not_need_comes_later() -> None:
    """All functions are registered without it, those of the sample services, too."""
    steps = [step for each in load_registrations() for step in each.workflow.steps]
    addresses = {url_setting(step.agent): "https://service.example" for step in steps}
    started = subprocess.run(
        [sys.executable, "-c", _START],
        cwd=Path(__file__).parents[2],
        env={**SETTINGS, **_HUB_AT_START, **addresses},
        check=True,
        capture_output=True,
        text=True,
    )
    new_objects, frozen, functions, *modules = started.stdout.split()
    assert int(functions) > 20
    assert int(new_objects) > 50_000, "garbage is collected often: a seventh of a busy process's time"
    assert int(frozen) > 0
    assert LATER.isdisjoint(modules), sorted(LATER.intersection(modules))


BY_IDENTITY = Connection(None, "https://account.table.core.windows.net", "client")


@pytest.mark.parametrize(
    ("connect", "setting"),
    [
        (table_storage.connect, "StateStore"),
        (table_storage.connect_at_start, "StateStore"),
        (connect_bus, "ServiceBusConnection"),
    ],
)
@pytest.mark.parametrize("text", ["rubbish", "Endpoint=;AccountName=;"])
def test_connection_string_that_cannot_work_is_named(
    connect: Callable[[Connection], object], setting: str, text: str
) -> None:
    """The start stops with one line that names the setting; the string, a secret, is not shown."""
    with pytest.raises(SettingsError) as refusal:
        connect(Connection(text, None, None))
    line = str(refusal.value)
    assert line.startswith(f"setting {setting} is wrong (")
    assert "set it to" in line
    assert "\n" not in line
    assert text not in line


_AT = "Endpoint=sb://bus.example/"
_BUS_KEY = "SharedAccessKeyName=root;SharedAccessKey=a2V5="


@pytest.mark.parametrize(
    "text",
    [
        f"{_AT};{_BUS_KEY}",
        f" {_AT};{_BUS_KEY};UseDevelopmentEmulator=true; ",
        f"{_AT};{_BUS_KEY};EntityPath=",
        f"endpoint=sb://bus.example;{_BUS_KEY.upper().replace('=ROOT', '=root')}",
        f"HostName=sb://bus.example;{_BUS_KEY}",
        f"{_AT};SharedAccessSignature=sig",
        f"{_AT};SharedAccessSignature=sig;{_BUS_KEY}",
        f"{_AT};SharedAccessSignature=sig;SharedAccessKeyName=root",
        f"{_AT};SharedAccessKeyName=root",
        f"{_AT};SharedAccessKey=a2V5=",
        _AT,
        _BUS_KEY,
        f"Endpoint=bus.example;{_BUS_KEY}",
        f"{_AT};{_BUS_KEY};more",
    ],
)
async def test_bus_is_checked_at_start_as_the_sdk_checks_it_later(text: str) -> None:
    """So a string that is taken works, and one that can't work is named before the first message."""
    try:
        await ServiceBusClient.from_connection_string(text).close()
    except ValueError:
        with pytest.raises(SettingsError, match="setting ServiceBusConnection is wrong"):
            connect_bus(Connection(text, None, None))
    else:
        client = connect_bus(Connection(text, None, None))
        assert client() is client()
        assert client().fully_qualified_namespace == "bus.example"


async def test_state_store_is_reached_by_identity() -> None:
    """Without a connection string, the address and the identity are used."""
    async with table_storage.connect(BY_IDENTITY) as client:
        assert client.service.url == BY_IDENTITY.address
    with table_storage.connect_at_start(BY_IDENTITY) as client_at_start:
        assert client_at_start.url == BY_IDENTITY.address


async def test_service_bus_is_reached_by_identity() -> None:
    """The namespace's host name is all it needs."""
    async with connect_bus(Connection(None, "bus.servicebus.windows.net", None))() as client:
        assert client.fully_qualified_namespace == "bus.servicebus.windows.net"
