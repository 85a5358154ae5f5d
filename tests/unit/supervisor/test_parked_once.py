"""A parked task is alerted once, whatever its payload's model says of it each time."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from pydantic import BaseModel, model_validator

from functions.pattern.announcements import announcements
from functions.pattern.events import Parked, Released
from functions.pattern.identity import scheduler_id
from functions.pattern.readiness import NotDeployedError, lack_of
from functions.pattern.states import AlertCause
from tests.fakes.tasks import FIRST, after, claimed, pending, told
from tests.fakes.workflows import LINE, TASK
from tests.unit.supervisor.bench import Bench

_MINUTES = count(1)


class Dated(BaseModel):
    """It tells how late it is."""

    weight: int

    @model_validator(mode="after")
    def _is_in_time(self) -> Dated:
        raise ValueError(f"the pick-up was {next(_MINUTES)} minutes ago")


async def test_payload_that_fits_no_more_is_told_once() -> None:
    """A validator names the time, or how late it is: that is no other reason, no write, no alert."""
    bench = Bench(deployed=(replace(LINE, payload=Dated),))
    record = told(pending(LINE), claimed())
    parked = Parked(epoch=FIRST, scheduler=scheduler_id(TASK, FIRST), reason="not here")
    bench.store.put(told(record, parked))
    alerts = []
    for _ in range(6):
        before = bench.store.record(TASK)
        await bench.sweep()
        alerts += [
            each
            for each in announcements(before, bench.store.record(TASK))
            if each.cause is AlertCause.PARKED
        ]
        bench.clock.advance(60)
    assert len(alerts) == 1, [each.reason for each in alerts]


async def test_task_that_is_released_in_vain_is_told_once_whatever_the_exception_says() -> None:
    """The Supervisor's host can go on with it; the one that takes it up can't, in other words each time."""
    record = told(pending(LINE), claimed())
    alerts = []
    for number in range(1, 13):
        epoch = record.task.epoch
        lack = NotDeployedError(f"the payload does not fit: KeyError: {number}", KeyError(number))
        reason, lasting = str(lack), lack_of(lack).lasting
        scheduler = scheduler_id(TASK, epoch)
        parked = told(record, Parked(epoch=epoch, scheduler=scheduler, reason=reason, lasting=lasting))
        alerts += [each for each in announcements(record, parked) if each.cause is AlertCause.PARKED]
        released = told(parked, Released(epoch=epoch, start_by=after(30)), now=after(number))
        record = told(released, claimed(released.task.epoch), now=after(number))
    assert len(alerts) == 1
