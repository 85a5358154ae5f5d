"""A task's view names what was sent about it, to its caller and to the operators, and when."""

from __future__ import annotations

from dataclasses import replace

from functions.pattern.identity import StepName
from functions.pattern.records import SentAnnouncement
from functions.pattern.states import AlertCause, AnnouncementKind
from tests.fakes.tasks import FIRST, SECOND, after
from tests.fakes.workflows import TASK
from tests.unit.operations.conftest import Desk, in_error


async def test_notices_are_shown_in_the_order_of_sending(desk: Desk) -> None:
    """With the time that was recorded when they were sent."""
    sent = (
        SentAnnouncement(
            kind=AnnouncementKind.ALERT,
            epoch=FIRST,
            sent_at=after(8),
            cause=AlertCause.NOTED,
            step=StepName("pay"),
        ),
        SentAnnouncement(kind=AnnouncementKind.RECEIVED, epoch=FIRST, sent_at=after(1)),
        SentAnnouncement(kind=AnnouncementKind.FAILED, epoch=SECOND, sent_at=after(9)),
    )
    record = in_error()
    desk.holds(replace(record, task=replace(record.task, sent=sent)))
    none = {"cause": None, "step": None}
    noted = {"cause": "noted", "step": "pay"}
    assert (await desk.get(f"/tasks/{TASK}")).json["notices"] == [
        {"kind": "received", "epoch": 1, "sent_at": "2026-11-21T10:00:01.123456Z"} | none,
        {"kind": "alert", "epoch": 1, "sent_at": "2026-11-21T10:00:08.123456Z"} | noted,
        {"kind": "failed", "epoch": 2, "sent_at": "2026-11-21T10:00:09.123456Z"} | none,
    ]


async def test_what_is_not_sent_yet_is_not_shown(desk: Desk) -> None:
    """The history says what should have been sent; only the record of sending says what was."""
    desk.holds(in_error())
    assert (await desk.get(f"/tasks/{TASK}")).json["notices"] == []
