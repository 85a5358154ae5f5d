"""The functions that are registered, and what each is handed."""

from __future__ import annotations

from typing import Any, cast

import azure.durable_functions as df
import pytest
from fastapi import FastAPI

from functions.messages.queues import QUEUES
from functions.operations.alerts.alerts import Alerts
from functions.operations.backlog import Backlog
from functions.operations.blueprint import housekeeping_blueprint, operations_blueprint
from functions.operations.housekeeping import Housekeeping, OldRows, purge_durable_instance
from functions.pattern.identity import SchedulerId
from functions.supervisor.damage import Damage
from tests.fakes.messages import received
from tests.fakes.ports import fake_ports
from tests.fakes.queues import RecordedRejections, Rejection
from tests.unit.operations.conftest import SeenQueues


class Operations:
    """The functions, and what is behind them; it stands in for alerts and housekeeping."""

    def __init__(self) -> None:
        self.alerts: list[bytes] = []
        self.measured = 0
        self.rejections, self.queues = RecordedRejections(), SeenQueues()
        ports = fake_ports(rejected=self.rejections, queues=self.queues)
        app = df.DFApp()
        alerts, housekeeping = cast("Alerts", self), Housekeeping(ports, 30, cast("Damage", self))
        app.register_functions(
            operations_blueprint(FastAPI, alerts, ports, OldRows(ports, 30), cast("Backlog", self))
        )
        app.register_functions(housekeeping_blueprint(housekeeping))
        self.functions: dict[str, Any] = {each.get_function_name(): each for each in app.get_functions()}

    async def alert_task(self, body: bytes) -> None:
        """Take an alert."""
        self.alerts.append(body)

    async def run(self) -> None:
        """Measure what waits."""
        self.measured += 1

    async def post_recorded(self, _loss: object) -> None:
        """Take a loss."""


@pytest.fixture
def operations() -> Operations:
    """Register the functions."""
    return Operations()


async def test_alert_is_taken_from_its_queue(operations: Operations) -> None:
    """The whole body, as it came."""
    function = operations.functions["operator_alert"]
    assert function.get_trigger().queue_name == "operator-alerts"
    await function.get_user_function()(received())
    assert operations.alerts == [b"{}"]


async def test_each_queue_has_a_reader_of_its_dead_letters(operations: Operations) -> None:
    """Under a name of its own; it knows which queue it reads."""
    readers = [name for name in operations.functions if name.startswith("dead_letter_")]
    assert len(readers) == len(QUEUES)
    reader = operations.functions["dead_letter_agent_replies"]
    assert reader.get_trigger().queue_name == "agent-replies/$DeadLetterQueue"
    await reader.get_user_function()(received(b"x", properties={"DeadLetterReason": "expired"}))
    await reader.get_user_function()(received(b"x", None))
    assert operations.rejections.all == [
        Rejection("agent-replies/$DeadLetterQueue", "m-1", b"x", "expired"),
        Rejection("agent-replies/$DeadLetterQueue", "", b"x", "not said"),
    ]


async def test_what_waits_is_measured_four_times_a_minute(operations: Operations) -> None:
    """So that callers hear of it soon."""
    timer = operations.functions["backlog"]
    assert timer.get_trigger().schedule == "*/15 * * * * *"
    await timer.get_user_function()(None)
    assert operations.measured == 1


def test_housekeeping_runs_all_day_long(operations: Operations) -> None:
    """What one night could delete would be a bound on what may arrive; and not together with a sweep."""
    assert operations.functions["housekeeping"].get_trigger().schedule == "15 */5 * * * *"
    assert operations.functions["old_rows"].get_trigger().schedule == "45 */5 * * * *"


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
    assert await purge_durable_instance(client, SchedulerId(instance)) is gone
    assert client.terminated == ([] if gone else ["task-1.1"])
