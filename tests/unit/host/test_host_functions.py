"""Registered functions: their triggers, and the Durable client that starts runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import azure.functions as func
import pytest

from functions import host_functions as host
from functions.messaging.message_format import QueueMessage
from functions.messaging.received_messages import NotHandledError
from functions.messaging.task_messages import RunRequest

NOW = datetime(2026, 1, 2, tzinfo=UTC)
RUN = RunRequest(task="t1", epoch=1, run=2)


class Client:
    """A Durable client that notes what it is asked for."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.fault = fault
        self.started: list[tuple[str, str, Any]] = []
        self.purged: list[tuple[datetime, datetime, list[str]]] = []

    async def start_new(self, name: str, instance: str, given: Any) -> str:
        """Start an instance, or raise the fault."""
        self.started.append((name, instance, given))
        if self.fault is not None:
            raise self.fault
        return instance

    async def purge_instance_history_by(self, since: datetime, until: datetime, states: list[Any]) -> Any:
        """Purge instances, or raise the fault."""
        if self.fault is not None:
            raise self.fault
        self.purged.append((since, until, [state.name for state in states]))

        class Result:
            instances_deleted = 7

        return Result()


class Message:
    """A message as the host passes it to a function."""

    message_id, subject, correlation_id = "m1", "run", None
    application_properties: Mapping[str, Any] = {"a": 1, "b": None}

    def get_body(self) -> bytes:
        """Return the body."""
        return b"{}"


def functions_of(add: Callable[..., None], *given: Any, **options: Any) -> dict[str, Any]:
    """Return the functions that are added as the host indexes them, by name."""
    app = func.FunctionApp()
    add(app, *given, **options)
    return {str(each.get_function_name()): each for each in app.get_functions()}


def types_of(function: Any) -> list[str]:
    """Return the types of a function's bindings."""
    return sorted(binding.type for binding in function.get_bindings())


async def test_run_that_is_under_way_is_not_started_again() -> None:
    """The service refuses a second instance of one id. After another error, a message is handled again."""
    with host.durable_client(
        Client(Exception("An Orchestration instance with the ID t1.1.2 already exists."))
    ):
        assert await host.start_run(RUN)
    with host.durable_client(Client(ConnectionError("no answer"))), pytest.raises(NotHandledError):
        await host.start_run(RUN)


async def test_without_a_client_no_run_is_started() -> None:
    """A client is used in its own invocation only, also after an error."""

    async def fail() -> None:
        with host.durable_client(Client()):
            raise ValueError("a defect")

    with pytest.raises(ValueError, match="a defect"):
        await fail()
    assert not await host.start_run(RUN)


async def test_invocations_at_the_same_time_have_their_own_clients() -> None:
    """One event loop runs all invocations of a process. A run's id is its instance's, and its input."""
    clients = [Client(), Client()]
    is_bound = [asyncio.Event(), asyncio.Event()]

    async def invoke(number: int) -> None:
        with host.durable_client(clients[number]):
            is_bound[number].set()
            await is_bound[1 - number].wait()
            await host.start_run(RunRequest(task=f"t{number}", epoch=1, run=1))

    await asyncio.gather(invoke(0), invoke(1))
    assert [client.started for client in clients] == [
        [("scheduler", run, run)] for run in ("t0.1.1", "t1.1.1")
    ]


async def _nothing(*_: Any) -> None:
    """Handle anything."""


@pytest.mark.parametrize(
    ("add", "given", "expected"),
    [
        (
            host.add_scheduler,
            (_nothing,),
            {"scheduler": ["orchestrationTrigger"], "run_agents": ["activityTrigger"]},
        ),
        (host.add_submission, (_nothing,), {"submission": ["durableClient", "serviceBusTrigger"]}),
        (host.add_hub, ("orders", "group", _nothing), {"ingestion": ["durableClient", "eventHubTrigger"]}),
        (
            partial(host.add_queue, starts_runs=True),
            ("a", "queue-a", _nothing),
            {"a": ["durableClient", "serviceBusTrigger"]},
        ),
        (host.add_queue, ("b", "queue-b", _nothing), {"b": ["serviceBusTrigger"]}),
        (
            host.add_purge,
            ("0 * * * * *", timedelta(days=1), lambda: NOW),
            {"purge": ["durableClient", "timerTrigger"]},
        ),
    ],
)
def test_functions_have_their_bindings(
    add: Callable[..., None], given: tuple[Any, ...], expected: dict[str, list[str]]
) -> None:
    """The decorators of azure-functions register Durable bindings, too."""
    found = functions_of(add, *given)
    assert {name: types_of(function) for name, function in found.items()} == expected


def test_event_hub_is_retried_without_end() -> None:
    """The checkpoint stays before a batch that fails."""
    function = functions_of(host.add_hub, "orders", "group", _nothing)["ingestion"]
    assert function.get_settings_dict("retry_policy")["max_retry_count"] == "-1"


async def test_queue_function_binds_the_client_while_it_handles_a_message() -> None:
    """Another function has none."""
    seen: list[bool] = []

    async def receive(message: QueueMessage) -> None:
        assert message == QueueMessage(message_id="m1", body=b"{}", subject="run", properties={"a": 1})
        seen.append(await host.start_run(RUN))

    functions = functions_of(host.add_queue, "a", "queue-a", receive, starts_runs=True, seconds=5)
    functions |= functions_of(host.add_queue, "b", "queue-b", receive, seconds=5)
    message = Message()
    await functions["b"].get_user_function()(message)
    bound = functions["a"].get_user_function()
    await getattr(bound, "client_function", bound)(message, Client())
    assert seen == [False, True]


@pytest.mark.parametrize(("days", "hours"), [(30, 24), (0.5, 12)])
async def test_purge_deletes_ended_instances_of_an_age(
    days: float, hours: float, caplog: pytest.LogCaptureFixture
) -> None:
    """Never one that is running. They are kept for a day at most, and no longer than the tasks.

    A purge that fails raises nothing; the next purge continues.
    """
    found = functions_of(host.add_purge, "0 * * * * *", timedelta(days=days), lambda: NOW)
    function, client = found["purge"].get_user_function(), Client(ConnectionError("no answer"))
    with caplog.at_level(logging.INFO, "functions"):
        for fault in (client.fault, None):
            client.fault = fault
            await getattr(function, "client_function", function)(None, client)
    [(since, until, states)] = client.purged
    assert since < NOW - timedelta(days=1_000)
    assert until == NOW - timedelta(hours=hours)
    assert states == ["Completed", "Failed", "Terminated"]
    lines = [each.getMessage() for each in caplog.records if each.name == "functions.host_functions"]
    assert lines == ["Durable instances are not purged: ConnectionError", 'purge {"instances": 7}']
