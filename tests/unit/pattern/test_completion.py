"""The answer of a processed task: made with the event that ends it, where its version is deployed."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from functions.pattern.announcements import announcements, starts_scheduler
from functions.pattern.completion import complete
from functions.pattern.definition import AnswerMaker, Registry, Results
from functions.pattern.events import StepSkipped
from functions.pattern.folding import Fold, Rules, Told, fold
from functions.pattern.readiness import what_is_missing
from functions.pattern.records import MAX_ANSWER_BYTES, TaskRecord
from functions.pattern.states import AnnouncementKind, ProcessState
from tests.fakes.clock import START
from tests.fakes.interventions import done
from tests.fakes.tasks import claimed, completed, pending, skipped, started, told
from tests.fakes.workflows import LINE, Parcel
from tests.unit.pattern.test_parking import release
from tests.unit.pattern.test_requests import nested

NONE_DEPLOYED = Registry((), {})


def _sum_up(parcel: Parcel, results: Results) -> dict[str, Any]:
    return {"weight": parcel.weight} | {str(name): result for name, result in results.items()}


def _nearly(reply_to: str | None = "notices-demo") -> TaskRecord:
    record = pending(LINE)
    record = replace(record, order=replace(record.order, reply_to=reply_to))
    return told(record, claimed(), started("pick"), completed("pick", result=b'{"n":1}'))


def _ended(answer: AnswerMaker | None, registry: Registry | None = None) -> Fold:
    """End a task in one fold, with the start that the last outcome follows."""
    registry = registry or Registry((replace(LINE, answer=answer),), {})
    ends = [Told(event) for event in done("send")]
    return fold(_nearly(), ends, START, Rules(partial(complete, registry)))


def test_answer_is_made_of_payload_and_all_results() -> None:
    """With the outcome that ends the task: one change, and the notice has it."""
    folded = _ended(_sum_up)
    assert folded.record.task.process_state is ProcessState.PROCESSED
    assert json.loads(folded.record.task.answer or b"") == {"weight": 3, "pick": {"n": 1}, "send": {}}
    assert len(folded.changes) == len(done("send"))
    [notice] = announcements(folded.changes[-1].before, folded.changes[-1].after)
    assert notice.kind is AnnouncementKind.COMPLETED
    assert notice.answer == {"weight": 3, "pick": {"n": 1}, "send": {}}


def test_skipped_step_can_be_the_last_one() -> None:
    """It follows from another event; its result is None."""

    def skip(record: TaskRecord, _: object) -> list[StepSkipped]:
        return [skipped("send")] if record.task.process_state is ProcessState.PROCESSING else []

    registry = Registry((replace(LINE, answer=_sum_up),), {})
    folded = fold(_nearly(), [Told(claimed(), skip)], START, Rules(partial(complete, registry)))
    assert json.loads(folded.record.task.answer or b"")["send"] is None


def test_without_an_answer_nothing_of_a_result_leaves() -> None:
    """And nobody is alerted."""
    folded = _ended(None)
    assert folded.record.task.answer is None
    [notice] = announcements(folded.changes[-1].before, folded.record)
    assert (notice.answer, notice.reason) == (None, None)


def _raise(_: object, __: object) -> dict[str, Any]:
    raise ValueError("secret result")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (_raise, "ValueError: secret result"),
        (lambda _, results: results["ship"], "KeyError: 'ship'"),
        (lambda _, __: {"text": "x" * MAX_ANSWER_BYTES}, f"its answer has {MAX_ANSWER_BYTES + 12} bytes"),
        (lambda _, __: {"price": float("nan")}, "answer.price is nan"),
        (lambda _, __: [1], "its answer is of type list, not a dict"),
        (lambda _, __: nested(150), "its answer is nested deeper than 99 levels"),
    ],
)
def test_task_is_processed_without_its_answer(answer: AnswerMaker, reason: str) -> None:
    """Operators are alerted once, with the reason; its caller is told of the lack, and no more."""
    folded = _ended(answer)
    before, after = folded.changes[-1].before, folded.record
    assert (after.task.process_state, after.task.answer) == (ProcessState.PROCESSED, None)
    assert reason in (after.task.last_error or "")
    notice, alert = announcements(before, after)
    assert alert.kind is AnnouncementKind.ALERT
    assert reason in (alert.reason or "")
    assert notice.reason == "its answer can't be given"
    assert announcements(after, replace(after, lost=())) == ()


def test_largest_answer_is_given() -> None:
    """Its bytes count, not its characters."""
    room = MAX_ANSWER_BYTES - len(json.dumps({"text": ""}))
    assert len(_ended(lambda _, __: {"text": "文" * (room // 3)}).record.task.answer or b"") > room
    assert _ended(lambda _, __: {"text": "文" * (room // 3 + 1)}).record.task.answer is None


LAST = Registry((replace(LINE, answer=_sum_up),), {})


class _Stricter(Parcel):
    """A payload that has by now a field which no recorded one has."""

    colour: str


@pytest.mark.parametrize(
    ("deployed", "reason"),
    [
        (NONE_DEPLOYED, "version 1 of 'line' is not deployed here"),
        (
            Registry((replace(LINE, answer=_sum_up, payload=_Stricter),), {}),
            "the payload does not fit version 1 of 'line' as it is deployed here: colour: Field required",
        ),
        (
            Registry((replace(LINE, steps=(LINE.steps[0],), answer=_raise),), {}),
            (
                "version 1 of 'line' as it is deployed here is not the recorded one; its answer:"
                " ValueError: secret result"
            ),
        ),
    ],
    ids=["version", "payload", "shape"],
)
def test_task_that_is_done_waits_parked_for_its_answer(deployed: Registry, reason: str) -> None:
    """Where nobody can tell what its answer is, its last outcome counts; another host gives the answer."""
    folded = _ended(None, deployed)
    task = folded.record.task
    assert (task.process_state, task.parked_for) == (ProcessState.PENDING, "line|1")
    assert (task.finished_at, task.locked_by, task.last_error) == (None, None, reason)
    assert all(step.settled for step in folded.record.steps)
    [alert] = announcements(folded.changes[-1].before, folded.record)
    assert (alert.kind, alert.reason) == (AnnouncementKind.ALERT, reason)
    assert what_is_missing(deployed, folded.record) is not None
    assert what_is_missing(LAST, folded.record) is None


def test_task_that_waited_for_its_answer_ends_with_it() -> None:
    """At once, without another Scheduler; its caller hears of it then."""
    waiting = _ended(None, NONE_DEPLOYED).record
    ended = fold(waiting, [Told(release(waiting))], START, Rules(partial(complete, LAST)))
    task = ended.record.task
    assert (task.process_state, task.failure_count, task.last_error) == (ProcessState.PROCESSED, 0, None)
    assert json.loads(task.answer or b"")["pick"] == {"n": 1}
    [change] = ended.changes
    [notice] = announcements(change.before, change.after)
    assert (notice.kind, notice.answer) == (AnnouncementKind.COMPLETED, json.loads(task.answer or b""))
    assert not starts_scheduler(change.before, change.after)


def test_alert_about_an_answer_names_the_epoch_that_the_release_opened() -> None:
    """Released in vain: the answer raises, or the payload still does not fit."""
    waiting = _ended(None, NONE_DEPLOYED).record
    for line in (replace(LINE, answer=_raise), replace(LINE, answer=_sum_up, payload=_Stricter)):
        deployed = Registry((line,), {})
        [change] = fold(waiting, [Told(release(waiting))], START, Rules(partial(complete, deployed))).changes
        alert = announcements(change.before, change.after)[-1]
        assert (alert.kind, alert.epoch) == (AnnouncementKind.ALERT, change.after.task.epoch)


def test_answer_is_made_once() -> None:
    """A repeat of the last outcome changes nothing."""
    last = _ended(_sum_up).record
    again = fold(last, [Told(completed("send"))], START, Rules(partial(complete, NONE_DEPLOYED)))
    assert again.record is last
