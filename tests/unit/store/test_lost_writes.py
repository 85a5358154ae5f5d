"""Answers that are lost: a write that holds is always found to be our own, and never made twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from random import Random

import pytest

from functions.pattern.events import Event, StepStarted
from functions.pattern.folding import Answer
from functions.pattern.identity import StartId
from functions.pattern.records import TaskRecord
from functions.pattern.states import ProcessState, StepState
from tests.fakes.tasks import claimed, completed, pending, started
from tests.fakes.workflows import LINE, TASK, step, workflow
from tests.unit.store.rows import Fault, MemoryRows
from tests.unit.store.writers import Writer, wide


class Starts:
    """Plans the start of every step that was never started, each time with a new start id."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._plans = 0

    def follow(self, record: TaskRecord, _: datetime) -> Sequence[Event]:
        """Start what can start."""
        self._plans += 1
        names = [each.name for each in record.steps if each.state is StepState.NOT_STARTED]
        return [started(name, start_id=f"{self._name}.{self._plans}.{name}") for name in names]


def _starts(answer: Answer) -> list[StartId]:
    return [event.start_id for event in answer.events if isinstance(event, StepStarted)]


@pytest.mark.parametrize("fault", list(Fault))
async def test_start_is_known_as_our_own(fault: Fault) -> None:
    """The start ids in the answer are those on the record: only then is the Agent called."""
    rows = MemoryRows(pending(LINE))
    rows.faults.append(fault)
    answer = await Writer(rows).tell(claimed(), follow=Starts("a").follow)
    assert isinstance(answer, Answer)
    assert len(_starts(answer)) == 2
    assert _starts(answer) == [each.start_id for each in rows.record(TASK).steps]


async def test_write_that_others_wrote_over_is_known_as_our_own() -> None:
    """The latest eight writes are named on the task's row."""
    rows = MemoryRows(wide(8))
    writer, other = Writer(rows), Writer(rows)
    rows.faults.append(Fault.LOST)
    rows.loss_gate.clear()
    telling = asyncio.create_task(writer.tell(completed("s07")))
    while not rows.record(TASK).steps[7].settled:
        await asyncio.sleep(0)
    await other.knows(*(completed(f"s{number:02d}") for number in range(7)))
    rows.loss_gate.set()
    answer = await telling
    assert isinstance(answer, Answer)
    assert answer.events == (completed("s07"),)
    assert len(rows.sent) == 8


async def test_write_that_arrives_late_counts_when_it_came_first() -> None:
    """The second attempt conflicts, and the first one's start ids are those that count."""
    rows = MemoryRows(pending(LINE))
    rows.faults.append(Fault.LATE)
    telling = asyncio.create_task(Writer(rows).tell(claimed(), follow=Starts("a").follow))
    async with asyncio.timeout(10):
        while len(rows.sent) < 2:
            await asyncio.sleep(0)
    rows.arrive()  # before the second, which is on its way
    answer = await telling
    assert isinstance(answer, Answer)
    assert _starts(answer) == [each.start_id for each in rows.record(TASK).steps]
    assert _starts(answer)[0].startswith("a.1.")


async def test_write_that_arrives_too_late_changes_nothing() -> None:
    """Its condition holds no more."""
    rows = MemoryRows(pending(LINE))
    rows.faults.append(Fault.LATE)
    answer = await Writer(rows).tell(claimed(), follow=Starts("a").follow)
    before = rows.stored(TASK)
    rows.arrive()
    assert rows.stored(TASK) == before
    assert isinstance(answer, Answer)
    assert _starts(answer) == [each.start_id for each in rows.record(TASK).steps]


@pytest.mark.parametrize("seed", range(30))
async def test_every_start_belongs_to_one_runner_whatever_goes_wrong(seed: int) -> None:
    """Several processes start and end the same steps, while writes fail, vanish, repeat and come late."""
    random = Random(seed)  # noqa: S311 - no secret
    names = [f"s{number}" for number in range(6)]
    rows = MemoryRows(pending(workflow(*map(step, names))))
    rows.faults.extend(random.choices([None, *Fault], weights=[4, 1, 1, 1, 1], k=200))
    told = Counter[StartId]()
    ended = Counter[str]()

    async def run(name: str) -> None:
        writer = Writer(rows)
        answer = await writer.tell(claimed(), follow=Starts(name).follow)
        assert isinstance(answer, Answer)
        told.update(_starts(answer))
        for each in random.sample(names, k=len(names)):
            for _ in range(random.randrange(5)):
                await asyncio.sleep(0)
            if random.random() < 0.3:
                rows.arrive()
            outcome = await writer.tell(completed(each))
            ended.update(event.step for event in getattr(outcome, "events", ()))

    await asyncio.gather(*(run(f"process-{number}") for number in range(3)))
    record = rows.record(TASK)
    assert record.task.process_state is ProcessState.PROCESSED
    assert told == Counter(each.start_id for each in record.steps)
    assert ended == Counter(names)
