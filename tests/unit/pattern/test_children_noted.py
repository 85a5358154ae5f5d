"""Ends of children that come too late to count: what operators hear of them."""

from __future__ import annotations

import pytest

from functions.pattern.announcements import announcements
from functions.pattern.states import AnnouncementKind, Remedy, StepState
from tests.fakes.interventions import result_given
from tests.fakes.tasks import after, told
from tests.unit.pattern.test_children import CAR, HOUR, UNDONE, ended, flow, renting
from tests.unit.pattern.waiting_tasks import after_the_end, handed_back


@pytest.mark.parametrize("state", [StepState.COMPLETED, StepState.UNRECORDED])
def test_child_undone_after_it_was_processed_is_noted(state: StepState) -> None:
    """By an operator, once: those of the parent are alerted, also before they gave its result."""
    before = told(renting(), ended(state))
    noted = told(before, UNDONE)
    assert noted.step(CAR).noted == "its task is undone by now"
    assert [each.kind for each in announcements(before, noted)] == [AnnouncementKind.ALERT]
    assert told(noted, UNDONE) is noted


def test_child_that_is_done_after_its_parent_went_on_without_it_is_noted() -> None:
    """It stands, and nobody uses it: operators are alerted; when they undo it, that is noted instead."""
    before = after_the_end(handed_back(renting(flow(on_failure=Remedy.CONTINUE))), HOUR)
    assert told(before, UNDONE) is before
    noted = told(before, ended())
    assert (noted.step(CAR).state, noted.step(CAR).noted) == (
        StepState.FAILED,
        "gone on without, but its task was done after all, and stands",
    )
    assert [each.kind for each in announcements(before, noted)] == [AnnouncementKind.ALERT]
    assert told(noted, ended()) is noted
    assert told(noted, UNDONE).step(CAR).noted == "its task is undone by now"


def test_child_that_is_done_although_an_operator_gave_its_result_is_noted() -> None:
    """It was done by hand as well: operators are alerted. That a child was undone before is nothing new."""
    held = after_the_end(handed_back(renting(flow(Remedy.HOLD))), HOUR)
    given = told(held, result_given("car"), now=after(HOUR + 9))
    assert told(given, UNDONE) is given
    noted = told(given, ended())
    assert noted.step(CAR).noted == "its result is an operator's, but its task was done, too, and stands"
    assert [each.kind for each in announcements(given, noted)] == [AnnouncementKind.ALERT]
    assert told(noted, ended()) is noted
    assert told(noted, UNDONE).step(CAR).noted == "its task is undone by now"
