"""What waits is measured, left in a row for whoever takes orders, and shown."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from functions.operations.alerts.alerts import Alerts
from functions.operations.backlog import Backlog
from functions.pattern.crowds import SCHEDULERS, CrowdCause
from functions.pattern.errors import TransientError
from functions.pattern.intake import IntakeLimits, Line, read_intake
from functions.pattern.known_crowds import Crowd
from functions.pattern.shared_rows import Chore
from functions.supervisor.crowds import written_crowds
from tests.fakes.clock import FakeClock
from tests.fakes.crowds import FixedDepths, FixedLine
from tests.fakes.ports import fake_ports
from tests.fakes.supervision import RecordedHeartbeats
from tests.fakes.tasks import after

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
