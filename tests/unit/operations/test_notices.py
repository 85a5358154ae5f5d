"""A task's view names what was told of it: to its caller, and to the operators."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from functions.operations.notices import notices
from functions.pattern.events import GivenUp, Recovered, Resubmitted
from functions.pattern.records import TaskRecord
from tests.fakes.tasks import FIRST, SECOND, after, claimed, completed, failed, pending, started, told
from tests.fakes.workflows import LINE

_ON_ITS_WAY = (claimed(), started("pick"), completed("pick"), started("send", complete_by=90))


@pytest.fixture
def submitted() -> TaskRecord:
    """Make a task whose caller wants notices."""
    record = pending(LINE)
    return replace(record, order=replace(record.order, reply_to="replies"))


def _told(record: TaskRecord) -> list[tuple[Any, ...]]:
    return [(str(each.kind), each.epoch, each.at) for each in notices(record)]


def _resubmitted(epoch: Any) -> Resubmitted:
    return Resubmitted(epoch=epoch, who="operator", reason="mended", start_by=after(200))


def test_way_without_trouble_has_two_notices(submitted: TaskRecord) -> None:
    """Received, and completed."""
    record = told(told(submitted, *_ON_ITS_WAY), completed("send"), now=after(5))
    assert _told(record) == [("received", 1, after(0)), ("completed", 1, after(5))]


def test_each_time_in_error_is_told_to_both(submitted: TaskRecord) -> None:
    """With the time of the refusal, and in the epoch in which it was."""
    record = told(told(submitted, *_ON_ITS_WAY), failed("send"), now=after(7))
    record = told(record, _resubmitted(FIRST), claimed(SECOND), started("send", SECOND), now=after(8))
    record = told(record, failed("send", SECOND), now=after(9))
    assert _told(record) == [
        ("received", 1, after(0)),
        ("failed", 1, after(7)),
        ("alert", 1, after(7)),
        ("failed", 2, after(9)),
        ("alert", 2, after(9)),
    ]


def test_time_that_is_not_kept_is_not_made_up(submitted: TaskRecord) -> None:
    """A task that was given up does not say when, once it was resubmitted."""
    given_up = GivenUp(epoch=FIRST, reason="still overdue", hold=True, start_by=after(200))
    record = told(told(submitted, *_ON_ITS_WAY), given_up, _resubmitted(FIRST), now=after(100))
    assert _told(record) == [("received", 1, after(0)), ("failed", 1, None), ("alert", 1, None)]


def test_recovery_is_told_to_nobody(submitted: TaskRecord) -> None:
    """It is what the Supervisor is for."""
    recovered = Recovered(epoch=FIRST, start_by=after(200))
    assert _told(told(told(submitted, *_ON_ITS_WAY), recovered, now=after(100))) == [
        ("received", 1, after(0))
    ]


def test_caller_that_wants_no_notices_gets_none() -> None:
    """The operators are told all the same."""
    record = told(pending(LINE), *_ON_ITS_WAY, failed("send"))
    assert [kind for kind, _, _ in _told(record)] == ["alert"]
