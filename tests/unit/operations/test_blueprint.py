"""The functions that are registered, and what each is handed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import azure.durable_functions as df
import pytest

from functions.operations.alerts.alerts import Alerts
from functions.operations.alerts.queues import QUEUES, Backlog, DeadLetters
from functions.operations.blueprint import (
    alerts_blueprint,
    backlog_blueprint,
    dead_letters_blueprint,
    housekeeping_blueprint,
)
from functions.operations.housekeeping import DurableInstances, Housekeeping, SchedulerInstances
from functions.pattern.identity import SchedulerId


class Taken:
    """Stands in for everything behind the functions, and keeps what it is handed."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    async def alert_task(self, body: bytes) -> None:
        """Take an alert."""
        self.calls.append((body,))

    async def take(self, queue: str, message_id: str, body: bytes, properties: Mapping[str, Any]) -> None:
        """Take a dead letter."""
        self.calls.append((queue, message_id, body, properties))

    async def log_ages(self) -> None:
        """Log how long messages have waited."""
        self.calls.append(())

    async def run(self, instances: SchedulerInstances) -> None:
        """Keep house."""
        self.calls.append((instances,))


def _functions(blueprint: df.Blueprint) -> dict[str, Any]:
    app = df.DFApp()
    app.register_functions(blueprint)
    return {each.get_function_name(): each for each in app.get_functions()}


@dataclass(frozen=True, slots=True)
class Message:
    """One message, as far as the functions look at it."""

    body: bytes
    message_id: str | None = "m-1"
    application_properties: Mapping[str, Any] | None = None

    def get_body(self) -> bytes:
        """Give the whole body."""
        return self.body


async def test_alert_is_taken_from_its_queue() -> None:
    """The whole body, as it came."""
    taken = Taken()
    functions = _functions(alerts_blueprint(_as(Alerts, taken)))
    assert functions["operator_alert"].get_trigger().queue_name == "operator-alerts"
    await functions["operator_alert"].get_user_function()(Message(b"{}"))
    assert taken.calls == [(b"{}",)]


async def test_each_queue_has_a_reader_of_its_dead_letters() -> None:
    """Under a name of its own; it knows which queue it reads."""
    taken = Taken()
    functions = _functions(dead_letters_blueprint(_as(DeadLetters, taken), QUEUES))
    assert len(functions) == len(QUEUES)
    reader = functions["dead_letter_agent_replies"]
    assert reader.get_trigger().queue_name == "agent-replies/$DeadLetterQueue"
    await reader.get_user_function()(Message(b"x", application_properties={"DeadLetterReason": "expired"}))
    await reader.get_user_function()(Message(b"x", None))
    assert taken.calls == [
        ("agent-replies", "m-1", b"x", {"DeadLetterReason": "expired"}),
        ("agent-replies", "", b"x", {}),
    ]


async def test_ages_of_messages_are_logged_every_five_minutes() -> None:
    """As often as alert rules look."""
    taken = Taken()
    [timer] = _functions(backlog_blueprint(_as(Backlog, taken))).values()
    assert timer.get_trigger().schedule == "0 */5 * * * *"
    await timer.get_user_function()(None)
    assert taken.calls == [()]


def test_housekeeping_runs_by_its_schedule() -> None:
    """Every night, or as it is told."""
    [by_default] = _functions(housekeeping_blueprint(_as(Housekeeping, Taken()))).values()
    assert by_default.get_trigger().schedule == "0 30 3 * * *"
    [told] = _functions(housekeeping_blueprint(_as(Housekeeping, Taken()), schedule="*/5 * * * * *")).values()
    assert told.get_trigger().schedule == "*/5 * * * * *"


class Client:
    """A Durable client for which some instances still run."""

    def __init__(self, *running: str) -> None:
        self._running = running
        self.terminated: list[str] = []

    async def purge_instance_history(self, instance: str) -> None:
        """Refuse what still runs."""
        if instance in self._running:
            raise RuntimeError("The operation failed with an unexpected status code 400")

    async def terminate(self, instance: str, reason: str) -> None:
        """End an instance."""
        assert reason
        self.terminated.append(instance)


@pytest.mark.parametrize(("instance", "gone"), [("task-1.1", False), ("task-1.2", True)])
async def test_instance_that_still_runs_is_ended_first(instance: str, gone: bool) -> None:  # noqa: FBT001 - a case
    """It is purged another day; any other is gone now."""
    client = Client("task-1.1")
    assert await DurableInstances(client).purge(SchedulerId(instance)) is gone
    assert client.terminated == ([] if gone else ["task-1.1"])


def _as[PartT](_part: type[PartT], stand_in: object) -> PartT:
    return stand_in  # type: ignore[return-value]  # it has the one method that the function calls
