"""The functions that watch queues: dead letters are recorded, waiting messages are measured."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast
from unittest.mock import AsyncMock, Mock

import azure.durable_functions as df
import pytest
from fastapi import FastAPI

from functions.messages.queues import QUEUES
from functions.operations.alerts.alerts import Alert, Alerts, lost_alert
from functions.operations.alerts.queues import DeadLetters, log_ages
from functions.operations.backlog import Backlog
from functions.operations.blueprint import housekeeping_blueprint, operations_blueprint
from functions.operations.housekeeping import Housekeeping, OldRows, purge_durable_instance
from functions.pattern.crowds import SCHEDULERS, CrowdCause
from functions.pattern.epochs import MOST_LOST
from functions.pattern.errors import TransientError
from functions.pattern.events import MessageLost
from functions.pattern.identity import SchedulerId, TaskId
from functions.pattern.intake import IntakeLimits, Line, read_intake
from functions.pattern.known_crowds import Crowd
from functions.pattern.messages import SchedulerRequest
from functions.pattern.ports import Pile, QueueDepth
from functions.pattern.rejected import Labels
from functions.pattern.shared_rows import Chore
from functions.pattern.submission_groups import groups_of
from functions.supervisor.crowds import written_crowds
from functions.supervisor.damage import Damage
from tests.fakes.clock import START, FakeClock
from tests.fakes.crowds import FixedDepths, FixedLine
from tests.fakes.messages import received
from tests.fakes.ports import fake_ports
from tests.fakes.queues import RecordedRejections, Rejection
from tests.fakes.store import MemoryStateStore
from tests.fakes.supervision import RecordedHeartbeats
from tests.fakes.tasks import FIRST, after, pending, told
from tests.fakes.workflows import TASK, submission
from tests.unit.operations.conftest import SeenQueues

REQUEST = SchedulerRequest(task_id=TASK, epoch=FIRST).model_dump_json().encode()
PROPERTIES = {"DeadLetterReason": "MaxDeliveryCountExceeded", "DeadLetterErrorDescription": "10 times"}
REASON = "MaxDeliveryCountExceeded: 10 times"


class Reader:
    """A reader of dead letters, with all that it works on."""

    def __init__(self) -> None:
        self.store = MemoryStateStore(FakeClock())
        self.rejections = RecordedRejections()
        self.alerts: list[Alert] = []
        self.reader = DeadLetters(fake_ports(store=self.store, rejected=self.rejections), Alerts(self.post))

    async def post(self, alert: Alert) -> None:
        """Keep the alert, as the webhook would post it."""
        self.alerts.append(alert)


@pytest.fixture
def reader() -> Reader:
    """Make a reader that has read nothing."""
    return Reader()


def _logged(caplog: pytest.LogCaptureFixture) -> dict[str, str | None]:
    [record] = [each for each in caplog.records if each.levelno == logging.ERROR]
    facts: dict[str, str | None] = json.loads(record.getMessage().removeprefix("message lost "))
    return facts


async def test_orders_of_one_message_are_lost_each_by_itself(reader: Reader) -> None:
    """So each can be sent again, or discarded."""
    orders = [submission(task=TaskId(f"o-{number}")) for number in range(2)]
    [group] = groups_of(orders, [])
    dead = received(group.body, "group", properties=PROPERTIES, subject="delivery")
    await reader.reader.take("submissions", dead)
    assert [(each.message_id, each.body) for each in reader.rejections.all] == [
        (f"group.{number}", order.written) for number, order in enumerate(orders)
    ]
    assert [each.facts["message_id"] for each in reader.alerts] == ["group.0", "group.1"]


async def test_task_keeps_a_bounded_number_of_losses(reader: Reader) -> None:
    """One more is recorded in `Rejected` and alerted like the others."""
    lost = [MessageLost(queue="q", message_id=f"{n}", reason="plain") for n in range(MOST_LOST - 1)]
    reader.store.put(told(pending(), *lost))
    for name in ("last", "more"):
        await reader.reader.take("q", received(REQUEST, name, properties=PROPERTIES))
    stored = await reader.store.load(TASK)
    assert stored is not None
    assert [each.message_id for each in stored.record.lost[-2:]] == [f"{MOST_LOST - 2}", "last"]
    assert reader.alerts == [lost_alert("q", name, TASK, REASON) for name in ("last", "more")]


async def test_loss_is_recorded_logged_and_told(reader: Reader, caplog: pytest.LogCaptureFixture) -> None:
    """With the queue, the reason, and the task that the message was about."""
    reader.store.put(pending())
    await reader.reader.take("scheduler-requests", received(REQUEST, "task-1.1", properties=PROPERTIES))
    assert reader.rejections.all == [
        Rejection("scheduler-requests/$DeadLetterQueue", "task-1.1", REQUEST, REASON)
    ]
    assert _logged(caplog) == {
        "queue": "scheduler-requests",
        "message_id": "task-1.1",
        "task": TASK,
        "reason": REASON,
    }
    assert reader.alerts == [lost_alert("scheduler-requests", "task-1.1", TASK, REASON)]


async def test_loss_stands_on_the_task_once(reader: Reader) -> None:
    """Operators see it where they look; the reader may get the same dead letter again."""
    reader.store.put(pending())
    for _ in range(2):
        await reader.reader.take("scheduler-requests", received(REQUEST, "task-1.1", properties=PROPERTIES))
    stored = await reader.store.load(TASK)
    assert stored is not None
    [lost] = stored.record.lost
    assert (lost.queue, lost.message_id, lost.reason) == ("scheduler-requests", "task-1.1", REASON)
    assert replace(stored.record, lost=()) == pending()


@pytest.mark.parametrize(
    "body", [REQUEST, b'{"id":"task-1"}', b'{"task_id":"a|b"}', b"[]", b"{", b"\xff", b""]
)
async def test_task_is_named_only_when_there_is_one(
    reader: Reader, caplog: pytest.LogCaptureFixture, body: bytes
) -> None:
    """Whatever the body says, or however it is broken."""
    await reader.reader.take("submissions", received(body))
    assert _logged(caplog)["task"] is None
    assert reader.rejections.all[0].reason == "not said"


async def test_loss_that_meets_a_defect_of_its_task_is_recorded(reader: Reader) -> None:
    """Otherwise the message would come again for ever."""
    reader.store.put(pending())
    reader.store.change = AsyncMock(side_effect=KeyError("a defect"))  # type: ignore[method-assign]
    await reader.reader.take("submissions", received(REQUEST, "m-1", properties=PROPERTIES))
    assert [each.message_id for each in reader.rejections.all] == ["m-1"]


async def test_lost_alert_is_only_logged(reader: Reader, caplog: pytest.LogCaptureFixture) -> None:
    """An alert about it could be lost as well, and so on."""
    reader.store.put(pending())
    await reader.reader.take("operator-alerts", received(b'{"id":"task-1"}', "a-1", properties=PROPERTIES))
    assert reader.alerts == []
    assert len(reader.rejections.all) == 1
    assert _logged(caplog)["task"] == TASK


async def test_loss_that_cannot_be_recorded_stays_where_it_is(reader: Reader) -> None:
    """The message is not taken, and nothing is told yet."""
    reader.store.failure = TransientError("Table Storage: ServiceRequestError")
    with pytest.raises(TransientError):
        await reader.reader.take("submissions", received(REQUEST, properties=PROPERTIES))
    assert (reader.rejections.all, reader.alerts) == ([], [])


async def test_what_is_lost_is_kept_with_what_is_needed_to_send_it_again(reader: Reader) -> None:
    """A caller may sort its notices by their subjects; why it died is no part of the message."""
    properties = {**PROPERTIES, "tenant": "blue", "weight": 2, "odd": [1]}
    message = received(b"{}", properties=properties, subject="completed", correlation_id="c-7")
    await reader.reader.take("notices-demo", message)
    kept = Labels(subject="completed", correlation_id="c-7", properties={"tenant": "blue", "weight": 2})
    assert reader.rejections.labels == [kept]


@pytest.mark.parametrize("script", ["x", "語", "😀", '"'])
async def test_reason_is_bounded_in_bytes(reader: Reader, script: str) -> None:
    """It goes into rows, whoever wrote it."""
    reader.store.put(pending())
    properties = {"DeadLetterReason": script * 4096}
    await reader.reader.take("scheduler-requests", received(REQUEST, properties=properties))
    [lost] = reader.store.record(TASK).lost
    assert len(json.dumps(lost.reason, ensure_ascii=False).encode()) <= 1024 + 2


async def test_loss_about_a_task_that_cannot_be_read_is_recorded_all_the_same(
    reader: Reader, caplog: pytest.LogCaptureFixture
) -> None:
    """And alerted, with its name; otherwise the dead letter would come again for ever."""
    reader.store.put(pending())
    reader.store.damaged = {TASK}
    await reader.reader.take("scheduler-requests", received(REQUEST, "task-1.1", properties=PROPERTIES))
    assert len(reader.rejections.all) == 1
    assert _logged(caplog)["task"] == TASK


def test_dead_letters_of_every_queue_are_read() -> None:
    """Of all that are defined, so that no message dies unseen."""
    defined = json.loads(Path("infra/queues.json").read_text(encoding="utf-8"))["queues"]
    assert [queue["name"] for queue in defined] == list(QUEUES)


_EMPTY = Pile(0, more=False, oldest_at=None, scheduled=3)


async def _told(caplog: pytest.LogCaptureFixture, *depths: QueueDepth) -> list[str]:
    caplog.set_level(logging.INFO)
    await log_ages(fake_ports(queues=Mock(depths=AsyncMock(return_value=depths))))
    return caplog.messages


async def test_each_queue_with_messages_is_told_with_the_age_of_the_oldest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """In seconds, on a line of its own."""
    minute = Pile(1, more=False, oldest_at=START - timedelta(minutes=1))
    hour = Pile(100, more=True, oldest_at=START - timedelta(hours=1))
    lines = await _told(
        caplog, QueueDepth("submissions", minute, _EMPTY), QueueDepth("agent-replies", hour, None)
    )
    assert lines == [
        'messages wait {"queue": "submissions", "oldest_seconds": 60}',
        'messages wait {"queue": "agent-replies", "oldest_seconds": 3600}',
    ]


async def test_queue_in_which_nothing_waits_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    """Nor is one that could not be looked at, or whose messages all wait for a time of their own."""
    dead = Pile(1, more=False, oldest_at=START)
    assert (
        await _told(caplog, QueueDepth("submissions", _EMPTY, dead), QueueDepth("agent-replies", None, None))
        == []
    )


async def test_message_from_the_future_has_not_waited(caplog: pytest.LogCaptureFixture) -> None:
    """The service's clock may be ahead."""
    ahead = Pile(1, more=False, oldest_at=START + timedelta(seconds=2))
    assert await _told(caplog, QueueDepth("submissions", ahead, _EMPTY)) == [
        'messages wait {"queue": "submissions", "oldest_seconds": 0}'
    ]


LIMITS = IntakeLimits(age=timedelta(minutes=10), waiting=1_000)


class Measuring:
    """The timer, and what it looks at."""

    def __init__(self) -> None:
        self.clock, self.heartbeats = FakeClock(), RecordedHeartbeats()
        self.line, self.depths = FixedLine(), FixedDepths()
        ports = fake_ports(clock=self.clock, heartbeats=self.heartbeats, line=self.line, queues=self.depths)
        self.run = Backlog(ports, LIMITS, Alerts(None)).run


@pytest.fixture
def measuring() -> Measuring:
    """Make a timer that has not run."""
    return Measuring()


async def test_row_tells_what_waits_and_that_orders_are_refused(
    measuring: Measuring, caplog: pytest.LogCaptureFixture
) -> None:
    """Messages, and tasks that no Scheduler has claimed; those behind an Agent cost nobody anything."""
    crowd = Crowd(
        behind=SCHEDULERS,
        cause=CrowdCause.NOT_PICKED_UP,
        since=after(0),
        tasks=700,
        found_at=after(0),
        until=after(60),
    )
    agents = Crowd(
        behind="Agent pay",
        cause=CrowdCause.NO_REPLY,
        since=after(0),
        tasks=9_000,
        found_at=after(0),
        until=after(60),
    )
    await measuring.heartbeats.beat(Chore.CROWDS, written_crowds((crowd, agents)))
    measuring.line.there = Line(500, after(-30))
    await measuring.run()
    intake = read_intake(measuring.heartbeats.latest_of(Chore.INTAKE))
    assert intake is not None
    assert (intake.messages, intake.not_picked_up) == (500, 700)
    assert (intake.oldest_seconds, intake.retry_after) == (30, 18)
    assert [line for line in caplog.messages if line.startswith("orders are refused for now {")]


async def test_intake_is_not_shut_by_tasks_of_which_nothing_was_found_for_long(measuring: Measuring) -> None:
    """They were claimed meanwhile: a crowd is known until its last extension ends, which may take hours."""
    crowd = Crowd(
        behind=SCHEDULERS,
        cause=CrowdCause.NOT_PICKED_UP,
        since=after(-1_000),
        tasks=100_000,
        found_at=after(-301),
        until=after(10_000),
    )
    await measuring.heartbeats.beat(Chore.CROWDS, written_crowds((crowd,)))
    await measuring.run()
    intake = read_intake(measuring.heartbeats.latest_of(Chore.INTAKE))
    assert intake is not None
    assert (intake.not_picked_up, intake.retry_after) == (0, 0)


async def test_nothing_is_said_while_orders_are_taken(
    measuring: Measuring, caplog: pytest.LogCaptureFixture
) -> None:
    """The row says so."""
    await measuring.run()
    intake = read_intake(measuring.heartbeats.latest_of(Chore.INTAKE))
    assert intake is not None
    assert intake.retry_after == 0
    assert caplog.messages == []


async def test_ages_of_queues_are_logged_every_five_minutes(
    measuring: Measuring, caplog: pytest.LogCaptureFixture
) -> None:
    """As often as alert rules look: each look transfers bodies."""
    caplog.set_level(logging.INFO)
    measuring.depths.oldest = {"submissions": after(-60)}
    for _ in range(41):
        await measuring.run()
        measuring.clock.advance(15)
    assert measuring.depths.looks == 3
    assert "submissions" in caplog.text


async def test_line_that_can_not_be_seen_leaves_the_row_as_it_was(measuring: Measuring) -> None:
    """And the ages are told nevertheless."""
    measuring.line.failure = TransientError("queue submissions: gone")
    await measuring.run()
    assert await measuring.heartbeats.latest(Chore.INTAKE) is None
    assert measuring.depths.looks == 1


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
