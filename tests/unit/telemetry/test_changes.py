"""Tasks and steps are counted where each change passes once."""

from __future__ import annotations

import pytest

from functions.pattern.events import Event
from functions.pattern.records import TaskRecord
from functions.pattern.states import Remedy
from functions.telemetry.changes import CountedChanges, MinuteCounter
from tests.fakes.announcer import RecordingAnnouncer
from tests.fakes.clock import FakeClock
from tests.fakes.interventions import overdue_at, recovery, resubmission
from tests.fakes.minute_counts import MemoryMinuteCounts
from tests.fakes.tasks import SECOND, after, claimed, completed, failed, pending, skipped, started, told
from tests.fakes.workflows import LINE, TRIP, step, trip, workflow
from tests.unit.telemetry.conftest import Measured, Series, series

HELD = trip(remedy=Remedy.HOLD)
PAIR = workflow(step("left", undo=True), step("right"), name="pair", remedy=Remedy.COMPENSATE)


class Counted:
    """Changes of one task, announced one after another; each is a second after the last."""

    def __init__(self, record: TaskRecord) -> None:
        self.announcer = RecordingAnnouncer()
        minutes = MinuteCounter(MemoryMinuteCounts(), clock=FakeClock(), new_id=str)
        self.changes = CountedChanges(self.announcer, minutes)
        self.record = record
        self.seconds = 0.0

    async def tell(self, *events: Event) -> None:
        """Let these happen."""
        for event in events:
            self.seconds += 1
            await self._change(told(self.record, event, now=after(self.seconds)))

    async def supervise(self, event: Event) -> None:
        """Let the Supervisor act once the task is overdue."""
        await self._change(told(self.record, event, now=overdue_at(self.record)))

    async def _change(self, changed: TaskRecord) -> None:
        await self.changes.announce(self.record, changed)
        self.record = changed


def _duration(step: str, outcome: str, direction: str = "do") -> Series:
    return series("step.duration", step_agent=step, step_outcome=outcome, step_direction=direction)


async def test_recorded_order_counts_as_submitted(measured: Measured) -> None:
    """Once, when it is new; it is announced as before."""
    counted = Counted(pending(LINE))
    await counted.changes.announce(None, counted.record)
    assert measured.take() == {series("tasks.submitted", task_workflow="line"): 1}
    assert counted.announcer.changes == [(None, counted.record)]


async def test_processed_task_is_counted_and_timed(measured: Measured) -> None:
    """By workflow: each step from its dispatch to its outcome, the task from submission to the end."""
    counted = Counted(pending(LINE))
    await counted.tell(claimed(), started("pick", complete_by=12), completed("pick"))
    await counted.tell(started("send", complete_by=14), completed("send"))
    assert measured.take() == {
        _duration("pick", "completed"): 1,
        _duration("send", "completed"): 1,
        series("tasks.processed", task_workflow="line"): 1,
        series("task.duration", task_workflow="line", task_state="Processed"): 5,
    }


async def test_refusal_that_waits_for_an_operator_is_an_error(measured: Measured) -> None:
    """It is no recovery, and neither is what the operator does then."""
    counted = Counted(pending(HELD))
    await counted.tell(claimed(), started("flight"), failed("flight"), resubmission())
    found = measured.take()
    assert found[series("tasks.errors", task_workflow="trip")] == 1
    assert (series("task.duration", task_workflow="trip", task_state="Error")) in found
    assert _duration("flight", "failed") in found
    assert not [name for name, _ in found if name == "tasks.recoveries"]


async def test_compensated_task_is_counted_with_its_undoing(measured: Measured) -> None:
    """What a refusal turned back is no error; undone steps have their own durations."""
    counted = Counted(pending(TRIP))
    await counted.tell(claimed(), started("flight"), completed("flight"))
    await counted.tell(started("hotel"), failed("hotel"), claimed(SECOND))
    await counted.tell(started("flight", SECOND), completed("flight", SECOND))
    found = measured.take()
    assert found[series("tasks.compensated", task_workflow="trip")] == 1
    assert _duration("hotel", "failed") in found
    assert _duration("flight", "completed", "undo") in found
    assert not {name for name, _ in found} & {"tasks.errors", "tasks.recoveries"}


async def test_recovery_is_counted_with_the_step_that_expired(measured: Measured) -> None:
    """The Supervisor's; the step lasted until then."""
    counted = Counted(pending(LINE))
    await counted.tell(claimed(), started("pick", complete_by=12))
    await counted.supervise(recovery())
    assert measured.take() == {
        series("tasks.recoveries", task_workflow="line"): 1,
        _duration("pick", "expired"): 10,
    }


async def test_step_overtaken_within_its_time_is_stale(measured: Measured) -> None:
    """When its neighbour is refused, it may still be under way."""
    counted = Counted(pending(PAIR))
    await counted.tell(claimed(), started("left", complete_by=12), started("right", complete_by=13))
    await counted.tell(failed("right"))
    found = measured.take()
    assert (found[_duration("left", "stale")], found[_duration("right", "failed")]) == (2, 1)


async def test_skipped_step_has_no_duration(measured: Measured) -> None:
    """It was never dispatched."""
    counted = Counted(pending(LINE))
    await counted.tell(claimed(), skipped("pick"))
    assert measured.take() == {}


async def test_step_of_an_older_epoch_is_not_counted_again(measured: Measured) -> None:
    """A step that was under way when its epoch ended is counted then, and not at the next claim."""
    counted = Counted(pending(LINE))
    await counted.tell(claimed(), started("pick", complete_by=12))
    await counted.supervise(recovery())
    measured.take()
    await counted._change(told(counted.record, claimed(SECOND, start_by=90), now=after(13)))
    assert measured.take() == {}


async def test_durations_have_bounds_for_seconds(measured: Measured) -> None:
    """From ten milliseconds to hours; the SDK's own are for milliseconds."""
    counted = Counted(pending(LINE))
    await counted.tell(claimed(), started("pick", complete_by=12), completed("pick"))
    bounds = measured.bounds("step.duration")
    assert (bounds[0], bounds[-1]) == (0.01, 14_400)


@pytest.mark.parametrize("skew", [-1, -3600])
async def test_clock_that_is_behind_gives_no_negative_time(measured: Measured, skew: float) -> None:
    """Two machines' clocks differ; a duration is zero at the least."""
    counted = Counted(pending(LINE))
    await counted.tell(claimed(), started("pick", complete_by=12))
    counted.seconds = skew - 1
    await counted.tell(completed("pick"))
    assert measured.take()[_duration("pick", "completed")] == 0
