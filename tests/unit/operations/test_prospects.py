"""What an action would do is told before it is done: which steps run again, which are undone."""

from __future__ import annotations

import cProfile
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from functions.operations.tasks.prospects import prospects
from functions.pattern.definition import Workflow
from functions.pattern.events import Cancelled, GivenUp
from functions.pattern.records import TaskRecord
from functions.pattern.states import ProcessState, Remedy, StepState
from tests.fakes.tasks import FIRST, SECOND, after, claimed, completed, failed, pending, started, told
from tests.fakes.workflows import DIAMOND, LINE, TASK, trip, workflow
from tests.fakes.workflows import step as a_step
from tests.unit.operations.conftest import Desk, in_error, processed

_GIVEN_UP = GivenUp(epoch=FIRST, reason="still overdue", hold=True, start_by=after(99))


async def _prospects(desk: Desk, record: TaskRecord) -> Any:
    desk.holds(record)
    return (await desk.get(f"/tasks/{TASK}")).json["prospects"]


def _runs(*steps: str) -> dict[str, Any]:
    return {"runs": [*steps], "undoes": [], "waits_until": None}


def _undoes(*steps: str, waits_until: datetime | None = None) -> dict[str, Any]:
    return {"runs": [], "undoes": [*steps], "waits_until": waits_until and _written(waits_until)}


def _only(by_itself: dict[str, Any], *, park: bool = False) -> dict[str, Any]:
    none = dict.fromkeys(("resubmit", "undo", "cancel", "unpark", "question"))
    return {"by_itself": by_itself, **none, "park": park, "answers": [], "skips": [], "events": []}


def _written(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def _refused(workflow: Workflow) -> TaskRecord:
    """Refuse the last of three steps; each began a second after the one before."""
    record = told(pending(workflow), claimed())
    for number, step in enumerate(("flight", "hotel", "car")):
        record = told(record, started(step), now=after(number))
        last = failed(step) if step == "car" else completed(step)
        record = told(record, last, now=after(number))
    return record


async def test_resubmission_runs_what_is_not_done(desk: Desk) -> None:
    """And leaves what is; nothing is undone."""
    shown = await _prospects(desk, _refused(trip(remedy=Remedy.HOLD)))
    assert shown["resubmit"] == _runs("car")


async def test_undo_goes_back_in_the_order_of_dispatch(desk: Desk) -> None:
    """Also what failed, for its outcome is not known; but not what can't be undone."""
    shown = await _prospects(desk, _refused(trip(remedy=Remedy.HOLD)))
    assert shown["undo"] == shown["cancel"] == _undoes("car", "flight")


async def test_resubmission_of_an_undo_goes_on_undoing(desk: Desk) -> None:
    """What is undone is not undone again."""
    record = told(
        _refused(trip()),
        claimed(SECOND),
        started("car", SECOND),
        completed("car", SECOND),
        started("flight", SECOND),
        failed("flight", SECOND),
    )
    shown = await _prospects(desk, record)
    assert shown["resubmit"] == shown["undo"] == _undoes("flight")


async def test_nothing_is_resubmitted_while_an_outcome_is_unknown(desk: Desk) -> None:
    """It was begun, nobody knows what came of it: that is asked first."""
    workflow = trip(remedy=Remedy.HOLD, hotel_idempotent=False)
    begun = told(pending(workflow), claimed(), started("flight"), completed("flight"), started("hotel"))
    desk.clock.advance(50)
    shown = await _prospects(desk, told(begun, _GIVEN_UP, now=desk.clock.now()))
    assert shown["resubmit"] is None
    assert shown["undo"]["undoes"] == ["flight"]
    assert shown["question"] == "hotel: its outcome is unknown, and it must not run twice"
    assert shown["answers"] == [{"step": "hotel", "done": _runs("car"), "not_done": _runs("hotel", "car")}]


@pytest.mark.parametrize(
    ("record", "by_itself"),
    [(pending(LINE), _runs("pick", "send")), (processed(), None)],
    ids=["under way", "processed"],
)
async def test_task_that_is_not_in_error_can_only_be_cancelled(
    desk: Desk, record: TaskRecord, by_itself: Any
) -> None:
    """Here, nothing has to be undone for that."""
    assert await _prospects(desk, record) == {
        "by_itself": by_itself,
        "resubmit": None,
        "undo": None,
        "cancel": _undoes(),
        "park": by_itself is not None,
        "unpark": None,
        "skips": [],
        "events": [],
        "question": None,
        "answers": [],
    }


async def test_cancelling_waits_for_what_must_not_be_repeated(desk: Desk) -> None:
    """Once that is decided, it is shown with who and why, and what follows; it is not offered again."""
    workflow = trip(hotel_idempotent=False)
    record = told(pending(workflow), claimed(), started("flight"), completed("flight"), started("hotel"))
    shown = await _prospects(desk, record)
    assert shown["cancel"] == _undoes("flight", waits_until=after(20))
    assert (shown["question"], shown["answers"]) == (None, [])  # its Agent may answer yet
    cancelled = told(record, Cancelled(who="ann", reason="no trip", by_operator=True, start_by=after(30)))
    desk.holds(cancelled)
    shown = (await desk.get(f"/tasks/{TASK}")).json
    assert shown["prospects"] == _only(_undoes("flight", waits_until=after(20)))
    assert shown["state"] == "Processing"
    assert shown["decision"] == {
        "ended_by": "cancelled",
        "who": "ann",
        "reason": "no trip",
        "until": _written(after(20)),
    }


async def test_hold_waits_for_what_must_not_be_repeated(desk: Desk) -> None:
    """Then nothing is run or undone by itself; to cancel is still possible."""
    workflow = trip(remedy=Remedy.HOLD, hotel_idempotent=False)
    record = told(pending(workflow), claimed(), started("flight"), started("hotel"), failed("flight"))
    assert record.task.decision is not None
    shown = await _prospects(desk, record)
    assert shown["by_itself"] == _undoes(waits_until=after(20))
    assert shown["cancel"] == _undoes("flight", waits_until=after(20))


async def test_task_that_is_being_undone_takes_no_action(desk: Desk) -> None:
    """It can't be undone twice, and not be done again; what is still to be undone is told."""
    assert await _prospects(desk, _refused(trip())) == _only(_undoes("car", "flight"), park=True)


async def test_nothing_follows_when_all_is_undone(desk: Desk) -> None:
    """An undo is final."""
    record = told(pending(LINE), Cancelled(who="ann", reason="no", by_operator=True, start_by=after(30)))
    assert await _prospects(desk, record) is None


async def test_looking_changes_nothing(desk: Desk) -> None:
    """What would follow is tried on a copy."""
    desk.holds(in_error())
    before = await desk.store.load(TASK)
    await desk.get(f"/tasks/{TASK}")
    assert await desk.store.load(TASK) == before


async def test_graph_is_told_by_what_steps_need(desk: Desk) -> None:
    """As the task was recorded: no workflow of that name need be registered."""
    record = pending(DIAMOND)
    desk.holds(replace(record, order=replace(record.order, workflow="gone")))
    assert (await desk.get(f"/tasks/{TASK}")).json["needs"] == {
        "open": [],
        "left": ["open"],
        "right": ["open"],
        "close": ["left", "right"],
    }


def test_page_of_a_wide_task_does_not_block_the_process() -> None:
    """A fan-out whose service is gone: each of its items could be skipped, and none is cut in each trial."""
    brief, long = _calls_to_look_at("no"), _calls_to_look_at("refused " * 100)
    assert long < 1.2 * brief < 600_000


def _calls_to_look_at(error: str) -> int:
    """Count the calls of functions that it takes to show 89 steps which failed with `error`."""
    wide = workflow(*(a_step(f"s{number}") for number in range(89)), name="wide")
    record = told(pending(wide), claimed(), *(started(f"s{number}") for number in range(89)))
    steps = tuple(replace(each, state=StepState.FAILED, error=error) for each in record.steps)
    task = replace(
        record.task, process_state=ProcessState.ERROR, locked_by=None, finished_at=after(0), last_error="no"
    )
    calls = cProfile.Profile()
    shown = calls.runcall(prospects, replace(record, task=task, steps=steps), after(1))
    assert shown is not None
    assert len(shown.skips) == 89
    return sum(each.callcount for each in calls.getstats())


def test_question_is_told_whole() -> None:
    """However much was said: what an operator has to find out may stand at its end."""
    held = in_error()
    unrecorded = replace(held.steps[1], state=StepState.UNRECORDED, error="its result is too large " * 30)
    shown = prospects(held.with_step(unrecorded), after(1))
    assert shown is not None
    assert shown.question == f"send: {unrecorded.error}"
