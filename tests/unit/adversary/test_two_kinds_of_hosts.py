"""While hosts of two kinds run side by side, of which neither can go on with a task, operators are told once."""

from __future__ import annotations

from dataclasses import replace

from functions.pattern.announcements import announcements
from functions.pattern.definition import Registry
from functions.pattern.events import Parked
from functions.pattern.readiness import is_new, what_is_missing
from functions.pattern.records import TaskRecord
from functions.pattern.states import AnnouncementKind
from tests.fakes.tasks import FIRST, after, claimed, pending, told
from tests.fakes.workflows import step, workflow
from tests.unit.supervisor.test_parks import Stricter

FLOW = workflow(step("pick"), name="shop", resource="shops")
ONE_KIND = Registry((replace(FLOW, payload=Stricter),), {})
OTHER_KIND = Registry((replace(FLOW, steps=(step("weigh"),)),), {})


def test_each_reason_is_alerted_once_though_sweeps_alternate() -> None:
    """Which host the Supervisor's timer fires on is Azure's business: ten sweeps are no ten alerts."""
    record: TaskRecord = told(pending(FLOW), claimed())
    alerts = 0
    for number in range(10):
        reason = what_is_missing((ONE_KIND, OTHER_KIND)[number % 2], record)
        assert reason is not None
        scheduler = None if record.task.is_parked else record.task.locked_by
        if not is_new(reason, record.task.last_error):
            continue
        parked = told(record, Parked(epoch=FIRST, scheduler=scheduler, reason=reason), now=after(30 * number))
        alerts += sum(each.kind is AnnouncementKind.ALERT for each in announcements(record, parked))
        record = parked
    assert alerts == 2, "one for each reason"
