"""Notices to callers, alerts to operators, the answer of a processed task, and counted ends."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from functions.pattern.announcements import announcements, starts_scheduler
from functions.pattern.completion import complete
from functions.pattern.definition import AnswerMaker, Registry, Results
from functions.pattern.events import AnnouncementSent, StepSkipped
from functions.pattern.folding import Fold, Rules, Told, fold
from functions.pattern.identity import StepName
from functions.pattern.occurrences import StepEnd, occurrences
from functions.pattern.readiness import what_is_missing
from functions.pattern.records import MAX_ANSWER_BYTES, TaskRecord
from functions.pattern.states import AlertCause, AnnouncementKind, Direction, Outcome, ProcessState, Remedy
from functions.pattern.supervision import judge
from tests.fakes.clock import START
from tests.fakes.interventions import (
    done,
    found_done,
    giving_up,
    recovered,
    refused,
    resubmission,
    supervised,
    undo_request,
)
from tests.fakes.supervision import POLICY
from tests.fakes.tasks import FIRST, SECOND, after, claimed, completed, pending, skipped, started, told
from tests.fakes.workflows import LINE, TRIP, Parcel, each, step, trip, workflow
from tests.unit.pattern.test_json import nested
from tests.unit.pattern.test_parking import release

RECEIVED, COMPLETED, FAILED = AnnouncementKind.RECEIVED, AnnouncementKind.COMPLETED, AnnouncementKind.FAILED
COMPENSATED, ALERT = AnnouncementKind.COMPENSATED, AnnouncementKind.ALERT


def _heard(record: TaskRecord) -> TaskRecord:
    return replace(record, order=replace(record.order, reply_to="notices-demo"))


BORN = _heard(pending(TRIP))
RUNNING = told(BORN, claimed(), started("flight"))
NEARLY = told(RUNNING, *done("flight", "hotel"), started("car"))
LAST = told(NEARLY, *done("car"))
WHY_NOT = _heard(pending(trip(remedy=Remedy.HOLD)))
HELD = supervised(WHY_NOT, giving_up())
UNDOING = told(supervised(RUNNING, giving_up()), claimed(SECOND), started("flight", SECOND))


def _kinds(before: TaskRecord | None, after: TaskRecord) -> list[AnnouncementKind]:
    return [told.kind for told in announcements(before, after)]


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        pytest.param(None, BORN, [RECEIVED], id="recorded"),
        pytest.param(BORN, told(BORN, claimed()), [], id="claimed"),
        pytest.param(BORN, RUNNING, [], id="started"),
        pytest.param(NEARLY, LAST, [COMPLETED], id="Processed"),
        pytest.param(RUNNING, recovered(RUNNING), [], id="recovered"),
        pytest.param(RUNNING, told(RUNNING, *refused("flight")), [], id="refused, and compensated"),
        pytest.param(WHY_NOT, HELD, [FAILED, ALERT], id="Error"),
        pytest.param(RUNNING, supervised(RUNNING, giving_up()), [ALERT], id="turned back"),
        pytest.param(BORN, supervised(BORN, giving_up()), [COMPENSATED, ALERT], id="nothing to undo"),
        pytest.param(UNDOING, told(UNDOING, *done("flight", epoch=SECOND)), [COMPENSATED], id="undone"),
        pytest.param(UNDOING, told(UNDOING, *refused("flight", SECOND)), [FAILED, ALERT], id="undo refused"),
        pytest.param(HELD, told(HELD, resubmission()), [], id="resubmitted"),
        pytest.param(HELD, told(HELD, undo_request()), [COMPENSATED], id="undone by the operator at once"),
        pytest.param(LAST, LAST, [], id="told again"),
    ],
)
def test_change_is_followed_by(
    before: TaskRecord | None, after: TaskRecord, kinds: list[AnnouncementKind]
) -> None:
    """Notices for the ends only; an alert for each entry into `Error` and for exhausted recoveries."""
    assert _kinds(before, after) == kinds


def test_each_entry_into_error_has_its_own_alert() -> None:
    """Two epochs, two messages; one entry told twice is one message."""
    again = told(HELD, resubmission())
    first, second = (
        announcements(WHY_NOT, HELD)[-1],
        announcements(again, supervised(again, giving_up(SECOND)))[-1],
    )
    assert (first.message_id, second.message_id) == ("task-1.1.alert.error", "task-1.2.alert.error")
    # The alert names its epoch.
    in_the_next = replace(HELD, task=replace(HELD.task, epoch=SECOND))  # unparked, with nothing left to do
    assert announcements(WHY_NOT, in_the_next)[-1].epoch == SECOND
    assert announcements(RUNNING, supervised(RUNNING, giving_up()))[-1].epoch == FIRST


def test_causes_for_alarm_are_messages_of_their_own() -> None:
    """`Error`, the operator's answer, and then no answer for the caller: no queue drops the second alert.

    That one names the epoch that the operator's answer opened, in which the task has ended, or is parked.
    """
    once = replace(
        workflow(step("pay", idempotent=False)), answer=lambda _, results: results[StepName("nothing")]
    )
    paying = told(pending(once), claimed(), started("pay", complete_by=5))
    held = supervised(paying, giving_up(hold=True))
    found = told(held, found_done("pay"), now=after(12))
    lacking, parked = (complete(Registry(deployed, {}), found) for deployed in ((once,), ()))
    alerts = [announcements(*change)[-1] for change in ((paying, held), (held, lacking), (held, parked))]
    assert [alert.message_id for alert in alerts] == [
        "task-1.1.alert.error",
        "task-1.2.alert.no-answer",
        "task-1.2.alert.parked.5f06a25e",
    ]
    for alert in alerts:
        lacking = told(lacking, AnnouncementSent(announcement=alert, sent_at=after(13)))
    assert [each.cause for each in lacking.task.sent] == [alert.cause for alert in alerts]


def test_announcement_says_what_happened() -> None:
    """To which order, when, why, and under which correlation id."""
    notice, alert = announcements(WHY_NOT, HELD)
    assert (notice.task, notice.workflow, notice.epoch) == ("task-1", "trip", FIRST)
    assert (notice.state, notice.reason, notice.at) == (
        ProcessState.ERROR,
        "still overdue",
        HELD.task.finished_at,
    )
    assert (notice.reply_to, notice.correlation_id) == ("notices-demo", "c-1")
    assert alert == replace(notice, kind=ALERT, cause=AlertCause.ERROR)
    # Caller without reply queue hears nothing.
    silent = pending(trip(remedy=Remedy.HOLD))
    assert _kinds(None, silent) == []
    assert _kinds(silent, supervised(silent, giving_up())) == [ALERT]


def test_next_epoch_needs_a_scheduler() -> None:
    """But an end, and a change within an epoch, does not."""
    assert starts_scheduler(RUNNING, recovered(RUNNING))
    assert starts_scheduler(HELD, told(HELD, resubmission()))
    assert not starts_scheduler(BORN, told(BORN, claimed()))
    assert not starts_scheduler(BORN, supervised(BORN, giving_up()))
    assert not starts_scheduler(WHY_NOT, HELD)


NONE_DEPLOYED = Registry((), {})


def _sum_up(parcel: Parcel, results: Results) -> dict[str, Any]:
    return {"weight": parcel.weight} | {str(name): result for name, result in results.items()}


def _nearly() -> TaskRecord:
    record = pending(LINE)
    record = replace(record, order=replace(record.order, reply_to="notices-demo"))
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
    # Answer is made once.
    last = _ended(_sum_up).record
    again = fold(last, [Told(completed("send"))], START, Rules(partial(complete, NONE_DEPLOYED)))
    assert again.record is last


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


ANSWERING = Registry((replace(LINE, answer=_sum_up),), {})


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
    assert what_is_missing(ANSWERING, folded.record) is None


def test_task_that_waited_for_its_answer_ends_with_it() -> None:
    """At once, without another Scheduler; its caller hears of it then."""
    waiting = _ended(None, NONE_DEPLOYED).record
    ended = fold(waiting, [Told(release(waiting))], START, Rules(partial(complete, ANSWERING)))
    task = ended.record.task
    assert (task.process_state, task.failure_count, task.last_error) == (ProcessState.PROCESSED, 0, None)
    assert json.loads(task.answer or b"")["pick"] == {"n": 1}
    [change] = ended.changes
    [notice] = announcements(change.before, change.after)
    assert (notice.kind, notice.answer) == (AnnouncementKind.COMPLETED, json.loads(task.answer or b""))
    assert not starts_scheduler(change.before, change.after)
    # Alert about an answer names the epoch that the release opened.
    for line in (replace(LINE, answer=_raise), replace(LINE, answer=_sum_up, payload=_Stricter)):
        deployed = Registry((line,), {})
        [change] = fold(waiting, [Told(release(waiting))], START, Rules(partial(complete, deployed))).changes
        alert = announcements(change.before, change.after)[-1]
        assert (alert.kind, alert.epoch) == (AnnouncementKind.ALERT, change.after.task.epoch)


def _ends(before: TaskRecord, changed: TaskRecord) -> list[tuple[str, Outcome, float]]:
    return [(end.shape.step, end.outcome, end.seconds) for end in occurrences(before, changed).steps]


def test_end_of_a_step_has_its_time_from_dispatch_to_outcome() -> None:
    """In the direction of the task."""
    record = told(pending(LINE), claimed(), started("pick", complete_by=12))
    changed = told(record, completed("pick"), now=after(4))
    assert occurrences(record, changed).steps == (
        StepEnd(record.step(StepName("pick")).shape, Direction.DO, Outcome.COMPLETED, 2),
    )
    # End of an item is an end of its step.
    record = told(pending(workflow(each("call")), weight=2), claimed(), started("call.0", complete_by=11))
    assert _ends(record, told(record, completed("call.0"), now=after(2))) == [("call", Outcome.COMPLETED, 1)]
    # Step that may fail and ran out of time has expired.
    flow = workflow(step("mail", on_failure=Remedy.CONTINUE), step("file", "mail"))
    record = told(pending(flow), claimed(), started("mail", complete_by=20))
    given_up = judge(record, after(40), POLICY)
    assert given_up is not None
    assert _ends(record, told(record, given_up, now=after(40))) == [("mail", Outcome.EXPIRED, 30)]
