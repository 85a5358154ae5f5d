"""What a change has to be followed by: notices to the caller, alerts to the operator, a Scheduler."""

from __future__ import annotations

from dataclasses import replace

import pytest

from functions.pattern.announcements import announcements, starts_scheduler
from functions.pattern.completion import complete
from functions.pattern.definition import Registry
from functions.pattern.events import AnnouncementSent
from functions.pattern.identity import StepName
from functions.pattern.records import TaskRecord
from functions.pattern.states import AlertCause, AnnouncementKind, ProcessState, Remedy
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
from tests.fakes.tasks import FIRST, SECOND, after, claimed, pending, started, told
from tests.fakes.workflows import TRIP, step, trip, workflow

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


def test_refusal_that_is_compensated_alerts_nobody() -> None:
    """The workflow knows what to do about it."""
    assert _kinds(RUNNING, told(RUNNING, *refused("flight"))) == []


def test_each_entry_into_error_has_its_own_alert() -> None:
    """Two epochs, two messages; one entry told twice is one message."""
    again = told(HELD, resubmission())
    first, second = (
        announcements(WHY_NOT, HELD)[-1],
        announcements(again, supervised(again, giving_up(SECOND)))[-1],
    )
    assert (first.message_id, second.message_id) == ("task-1.1.alert.error", "task-1.2.alert.error")


def test_alert_names_the_epoch_that_it_tells_of() -> None:
    """That in which the task is held, also if the same change opened it; or that which was given up."""
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


def test_caller_without_reply_queue_hears_nothing() -> None:
    """The operator does."""
    silent = pending(trip(remedy=Remedy.HOLD))
    assert _kinds(None, silent) == []
    assert _kinds(silent, supervised(silent, giving_up())) == [ALERT]


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


def test_next_epoch_needs_a_scheduler() -> None:
    """But an end, and a change within an epoch, does not."""
    assert starts_scheduler(RUNNING, recovered(RUNNING))
    assert starts_scheduler(HELD, told(HELD, resubmission()))
    assert not starts_scheduler(BORN, told(BORN, claimed()))
    assert not starts_scheduler(BORN, supervised(BORN, giving_up()))
    assert not starts_scheduler(WHY_NOT, HELD)
