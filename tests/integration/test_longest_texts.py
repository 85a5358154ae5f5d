"""A task of 90 steps that all fail with the longest texts, recovered to the threshold: the table takes it."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from functions.pattern.events import Event, StepTried
from functions.pattern.identity import Epoch, StepName, scheduler_id
from functions.pattern.states import ProcessState, Way
from functions.pattern.store_ports import Changed
from functions.pattern.supervision import SupervisionPolicy, judge
from functions.pattern.texts import MAX_ERROR_BYTES, MAX_PAST_ERROR_BYTES
from tests.fakes.interventions import resubmission
from tests.fakes.tasks import claimed, pending, started
from tests.fakes.workflows import TASK, step, workflow
from tests.integration.processes import Process

pytestmark = pytest.mark.process

_NAMES = [StepName(f"{'n' * 29}-{number:02d}") for number in range(90)]
_WIDEST = workflow(*(step(name, via=Way.QUEUE, undo=True) for name in _NAMES), name="w" * 32)
_POLICY = SupervisionPolicy(
    threshold=3, extended_waits=(), skew=timedelta(0), start_within=timedelta(seconds=30)
)
_ROUND = 1000


def _tried(name: StepName, epoch: Epoch, fault: str) -> StepTried:
    return StepTried(
        epoch=epoch,
        scheduler=scheduler_id(TASK, epoch),
        step=name,
        start_id=started(name, epoch).start_id,
        attempts=1_000_000,
        fault=fault,
    )


async def _tell(process: Process, *events: Event) -> None:
    """Tell events at the same moment, which makes them one transaction."""
    before = process.figures.transactions
    told = await asyncio.gather(*(process.store.change(TASK, event) for event in events))
    assert all(isinstance(each, Changed) for each in told)
    assert process.figures.transactions - before <= 2


@pytest.mark.parametrize("character", ["\\", "\U0001f600", "\x00"], ids=["escaped", "wide", "control"])
async def test_every_write_is_taken(process: Process, character: str) -> None:
    """Held at last, it can be read whole, and resubmitted."""
    text = character * 100_000
    await process.store.admit(pending(_WIDEST))
    for number in range(_POLICY.threshold + 1):
        epoch, at = Epoch(number + 1), number * _ROUND
        await _tell(process, claimed(epoch, start_by=at + 300))
        complete_by = at + 500
        starts = [started(name, epoch, complete_by=complete_by, token="t" * 32) for name in _NAMES]
        await _tell(process, *starts)
        await _tell(process, *(_tried(name, epoch, text) for name in _NAMES))
        process.clock.advance(_ROUND)
        overdue = judge((await process.read(TASK)).record, process.clock.now(), _POLICY)
        assert overdue is not None
        await _tell(process, overdue)
    record = (await process.read(TASK)).record
    assert (record.task.process_state, record.task.failure_count) == (ProcessState.ERROR, _POLICY.threshold)
    assert all(0 < len((each.error or "").encode()) <= MAX_ERROR_BYTES for each in record.steps)
    await _tell(process, resubmission(record.task.epoch))
    history = (await process.read(TASK)).record.history
    assert [len(closed.steps) for closed in history] == [len(_NAMES)] * (_POLICY.threshold + 1)
    assert max(len((past.error or "").encode()) for past in history[-1].steps) <= MAX_PAST_ERROR_BYTES
