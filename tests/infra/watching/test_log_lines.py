"""The queries read the lines that the application logs: here the code itself produces each one."""

from __future__ import annotations

import json
import logging
from datetime import timedelta
from typing import Any

import pytest

from functions.operations.alerts.alerts import Alerts
from functions.operations.alerts.queues import DeadLetters, log_ages
from functions.operations.backlog import Backlog
from functions.pattern.announcements import announcements
from functions.pattern.identity import TaskId
from functions.pattern.intake import IntakeLimits, Line
from functions.pattern.messages import announcement_message
from functions.pattern.ports import Pile, QueueDepth
from functions.pattern.records import TaskRecord
from functions.pattern.rejected import About
from functions.pattern.silent_agents import SilentAgent
from functions.pattern.states import AnnouncementKind, ProcessState, Remedy
from functions.supervisor.blueprint import report_sweep
from tests.fakes.clock import START, FakeClock
from tests.fakes.crowds import FixedDepths, FixedLine
from tests.fakes.interventions import giving_up, refused, supervised
from tests.fakes.messages import received
from tests.fakes.ports import fake_ports
from tests.fakes.queues import RecordedRejections
from tests.fakes.store import MemoryStateStore
from tests.fakes.supervision import RecordedHeartbeats
from tests.fakes.tasks import SECOND, claimed, pending, started, told
from tests.fakes.workflows import LINE, TRIP, trip
from tests.infra.watching.kql import query_names, read_query
from tests.unit.agents.breaker.conftest import OPEN_FOR, Instances
from tests.unit.supervisor.conftest import Bench

#: Application Insights' severity of a Python error.
_ERROR = "SeverityLevel == 3"


@pytest.fixture(autouse=True)
def _everything_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def _facts(line: str) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(line[line.index("{") :])
    return facts


async def _alert_line(before: TaskRecord, after: TaskRecord, caplog: pytest.LogCaptureFixture) -> str:
    """Return the line that the operators' function logs for a change of a task."""
    [alert] = [each for each in announcements(before, after) if each.kind is AnnouncementKind.ALERT]
    await Alerts(None).alert_task(announcement_message(alert).model_dump_json().encode())
    return caplog.messages[-1]


async def test_task_in_error_is_found(caplog: pytest.LogCaptureFixture) -> None:
    """By the first words, the state and the names of the fields."""
    query = read_query("tasks-in-error")
    before = pending(trip(remedy=Remedy.HOLD))
    line = await _alert_line(before, supervised(before, giving_up()), caplog)
    assert query.head
    assert line.startswith(query.head)
    assert query.facts <= _facts(line).keys()
    assert f'Facts.state) == "{_facts(line)["state"]}"' in query.text
    assert _facts(line)["state"] == ProcessState.ERROR


async def test_failed_undo_is_distinguished_from_other_errors(caplog: pytest.LogCaptureFixture) -> None:
    """By the beginning of the reason."""
    prefix = "undo of "
    assert f'Reason startswith "{prefix}"' in read_query("tasks-in-error").text
    running = told(pending(TRIP), claimed(), started("flight"))
    undoing = told(supervised(running, giving_up()), claimed(SECOND), started("flight", SECOND))
    line = await _alert_line(undoing, told(undoing, *refused("flight", SECOND)[1:]), caplog)
    assert _facts(line)["reason"].startswith(prefix)
    exhausted = supervised(undoing, giving_up(SECOND, reason="undo of flight: still overdue", hold=True))
    line = await _alert_line(undoing, exhausted, caplog)
    assert _facts(line)["reason"].startswith(prefix)


async def test_lost_message_is_found(caplog: pytest.LogCaptureFixture) -> None:
    """The line is an error; the warning about an unsent alert begins the same, and is not counted."""
    query = read_query("lost-messages")
    ports = fake_ports(store=MemoryStateStore(FakeClock()), rejected=RecordedRejections())
    reader = DeadLetters(ports, Alerts(None))
    message = received(properties={"DeadLetterReason": "MaxDeliveryCountExceeded"})
    await reader.take("submissions", message)
    [line] = caplog.records
    assert query.head
    assert line.getMessage().startswith(query.head)
    assert query.facts <= _facts(line.getMessage()).keys()
    assert line.levelno == logging.ERROR
    assert _ERROR in query.text


async def test_rows_that_cannot_be_read_are_found(caplog: pytest.LogCaptureFixture) -> None:
    """How many, and some of them by name."""
    query = read_query("unreadable-rows")
    await Alerts(None).alert_damage(12, {"task-1|task": "ValueError: 'Parked' is not a valid ProcessState"})
    [line] = caplog.records
    assert query.head
    assert line.getMessage().startswith(query.head)
    assert query.facts == _facts(line.getMessage()).keys()
    assert line.levelno == logging.ERROR
    assert _ERROR in query.text


async def test_refused_replies_and_silent_agents_are_found(caplog: pytest.LogCaptureFixture) -> None:
    """By their Agents; that an Agent replies again is no alert."""
    alerts = Alerts(None)
    silent = SilentAgent(agent="payment", since=START, tasks=40, found_at=START)
    await alerts.alert_refused(About(agent="payment"), "epoch: Input should be a valid integer")
    await alerts.alert_silence(silent, ended=False)
    await alerts.alert_silence(silent, ended=True)
    lines, again = caplog.records[:2], caplog.records[2]
    for name, line in zip(("refused-replies", "silent-agents"), lines, strict=True):
        query = read_query(name)
        assert query.head
        assert line.getMessage().startswith(query.head)
        assert query.facts <= _facts(line.getMessage()).keys()
        assert line.levelno == logging.ERROR
        assert not again.getMessage().startswith(query.head)


async def test_crowd_is_found(caplog: pytest.LogCaptureFixture) -> None:
    """By what it is behind."""
    query = read_query("crowds")
    bench = Bench()
    for number in range(20):
        bench.store.put(pending(LINE, TaskId(f"task-{number}")))
    bench.clock.advance(36)
    await bench.sweep()
    [crowd] = bench.crowds.alerts
    await Alerts(None).alert_crowd(crowd, 600)
    line = caplog.records[-1]
    assert query.head
    assert line.getMessage().startswith(query.head)
    assert query.facts <= _facts(line.getMessage()).keys()
    assert line.levelno == logging.ERROR
    assert _ERROR in query.text


async def test_refused_orders_are_found(caplog: pytest.LogCaptureFixture) -> None:
    """Each time that what waits is measured."""
    query, line = read_query("refused-orders"), FixedLine()
    line.there = Line(30, START)
    limits = IntakeLimits(age=timedelta(seconds=1), waiting=1)
    ports = fake_ports(line=line, heartbeats=RecordedHeartbeats(), queues=FixedDepths())
    await Backlog(ports, limits, Alerts(None)).run()
    assert query.head
    assert caplog.messages[-1].startswith(query.head)
    assert query.facts == _facts(caplog.messages[-1]).keys()


async def test_sweep_is_found_with_its_figures(caplog: pytest.LogCaptureFixture) -> None:
    """Also a sweep that did nothing: it shows that the Supervisor is alive."""
    query = read_query("sweeps")
    bench = Bench()
    await report_sweep(bench.supervisor)
    bench.store.put(pending(LINE))
    bench.clock.advance(36)
    await report_sweep(bench.supervisor)
    quiet, busy = caplog.messages
    assert query.head
    assert quiet.startswith(query.head)
    assert busy.startswith(query.head)
    assert query.facts <= _facts(busy).keys()
    assert read_query("silent-supervisor").head == query.head


async def test_waiting_messages_are_found_with_their_age(caplog: pytest.LogCaptureFixture) -> None:
    """And with their queue."""

    class Queues:
        async def depths(self) -> list[QueueDepth]:
            return [QueueDepth("submissions", Pile(1, more=False, oldest_at=START), None)]

    query = read_query("waiting-messages")
    await log_ages(fake_ports(queues=Queues()))
    assert query.head
    assert caplog.messages[-1].startswith(query.head)
    assert query.facts == _facts(caplog.messages[-1]).keys()


async def test_failed_sweep_is_no_sign_of_life(caplog: pytest.LogCaptureFixture) -> None:
    """A Supervisor that keeps failing counts as silent."""

    class Broken:
        async def run(self) -> None:
            raise OSError

    await report_sweep(Broken())  # type: ignore[arg-type] # the only method that is called
    head = read_query("sweeps").head
    assert head
    assert not caplog.messages[-1].startswith(head)


async def test_breaker_is_found_open_and_closed(caplog: pytest.LogCaptureFixture) -> None:
    """The service is named between the first words and the change."""
    query = read_query("breakers")
    instances = Instances()
    breaker = await instances.open_breaker()
    instances.clock.advance(OPEN_FOR)
    instances.drones.fault = None
    await instances.call(breaker)
    opened, closed = caplog.messages
    assert query.head
    for line, change in zip((opened, closed), query.changes, strict=True):
        assert line.startswith(f"{query.head}drone: {change}")


def test_every_query_of_lines_is_checked_against_the_code() -> None:
    """A new query needs a test here."""
    held = {
        "refused-replies",
        "silent-agents",
        "crowds",
        "refused-orders",
        "tasks-in-error",
        "lost-messages",
        "silent-supervisor",
        "sweeps",
        "breakers",
        "waiting-messages",
        "unreadable-rows",
    }
    assert {name for name in query_names() if "AppTraces" in read_query(name).text} == held
