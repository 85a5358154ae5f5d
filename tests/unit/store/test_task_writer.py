"""The one writer of a task: what is told side by side is folded, and everybody gets their own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime

import pytest

from functions.pattern.errors import IllegalTransitionError, TransientError, UnwritableError
from functions.pattern.events import Event, MessageLost
from functions.pattern.folding import Answer
from functions.pattern.identity import TaskId
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.states import ProcessState, StepState
from functions.store import task_writer
from functions.store.transactions import Transaction
from tests.fakes.clock import START
from tests.fakes.interventions import recovery
from tests.fakes.tasks import FIRST, SECOND, claimed, completed, pending, started
from tests.fakes.workflows import LINE, TASK
from tests.unit.store.rows import Fault, MemoryRows
from tests.unit.store.writers import Writer, wide


def _outcomes(steps: int) -> list[Event]:
    return [completed(f"s{number:02d}") for number in range(steps)]


async def test_events_that_come_together_are_one_transaction() -> None:
    """Forty steps that end together write forty steps once, and each teller sees its own change."""
    rows = MemoryRows(wide(40))
    writer = Writer(rows)
    answers = await writer.tell_all(_outcomes(40))
    assert (len(rows.sent), rows.reads) == (1, 1)
    events = [answer.events for answer in answers if isinstance(answer, Answer)]
    assert events == [(event,) for event in _outcomes(40)]
    assert rows.record(TASK).task.process_state is ProcessState.PROCESSED
    assert writer.is_idle


async def test_what_comes_during_a_write_waits_for_the_next() -> None:
    """The writer needs no read in between: it has the record that it wrote."""
    rows = MemoryRows(wide(3))
    writer = Writer(rows)
    rows.gate.clear()
    first = asyncio.create_task(writer.tell(completed("s00")))
    await rows.until_waiting()
    rows.gate.set()
    await first
    rows.gate.clear()
    second = asyncio.create_task(writer.tell(completed("s01")))
    await rows.until_waiting()
    third = asyncio.create_task(writer.tell(completed("s02")))
    await asyncio.sleep(0)
    rows.gate.set()
    await asyncio.gather(second, third)
    assert (len(rows.sent), rows.reads) == (3, 1)
    assert rows.record(TASK).task.process_state is ProcessState.PROCESSED


async def test_each_event_gets_its_own_answer() -> None:
    """A refusal and an illegal transition beside a change harm it not."""
    rows = MemoryRows(wide(2))
    writer = Writer(rows)
    changed, stale, illegal = await asyncio.gather(
        writer.tell(completed("s00")),
        writer.tell(completed("s01", token="forged")),
        writer.tell(claimed(SECOND)),
        return_exceptions=True,
    )
    assert isinstance(changed, Answer)
    assert changed.events == (completed("s00"),)
    assert stale == Refused(RefusalReason.WRONG_TOKEN)
    assert isinstance(illegal, IllegalTransitionError)
    assert len(rows.sent) == 1


async def test_refusal_is_never_based_on_memory() -> None:
    """Another process has changed the task: what is remembered would give both events the wrong answer."""
    rows = MemoryRows(pending(LINE))
    writer, other = Writer(rows), Writer(rows)
    await writer.knows(claimed(), started("pick"))
    other.clock.advance(600)
    await other.knows(recovery(), claimed(SECOND))
    reads = rows.reads
    assert await writer.tell(completed("pick")) == Refused(RefusalReason.STALE_EPOCH)
    assert rows.reads == reads + 1
    await writer.knows(started("pick", SECOND))


async def test_repeat_is_not_taken_for_recorded_from_memory_alone() -> None:
    """It was recovered since: an answer without a change needs a read as well."""
    rows = MemoryRows(pending(LINE))
    writer, other = Writer(rows), Writer(rows)
    await writer.knows(claimed())
    other.clock.advance(600)
    await other.knows(recovery())
    assert await writer.tell(claimed()) == Refused(RefusalReason.STALE_EPOCH)


async def test_read_counts_only_for_events_that_came_before_it() -> None:
    """What another process writes between a read and a later event is seen."""
    rows = MemoryRows(pending(LINE))
    writer, other = Writer(rows), Writer(rows)
    await writer.knows(claimed())
    await other.knows(started("pick"))
    rows.read_gate.clear()
    early = asyncio.create_task(writer.tell(claimed()))
    await rows.until_waiting()  # it has read, and the answer is on its way
    other.clock.advance(600)
    await other.knows(recovery())
    late = asyncio.create_task(writer.tell(claimed()))
    await asyncio.sleep(0)
    rows.read_gate.set()
    assert isinstance(await early, Answer)
    assert await late == Refused(RefusalReason.STALE_EPOCH)


@pytest.mark.parametrize("processes", [1, 4])
@pytest.mark.parametrize("steps", [12, 24, 90])
async def test_every_outcome_is_recorded_however_many_processes_write(processes: int, steps: int) -> None:
    """Each process has its part of them; nobody gives up after some number of tries."""
    rows = MemoryRows(wide(steps))
    writers = [Writer(rows) for _ in range(processes)]
    told = (writers[number % processes].tell(event) for number, event in enumerate(_outcomes(steps)))
    answers = await asyncio.gather(*told)
    assert sum(len(answer.changes) for answer in answers if isinstance(answer, Answer)) == steps
    task = rows.record(TASK).task
    assert (task.process_state, task.epoch, task.failure_count) == (ProcessState.PROCESSED, FIRST, 0)


async def test_task_that_is_not_there_refuses() -> None:
    """It was purged, or never recorded."""
    writer = Writer(MemoryRows())
    assert await writer.tell(claimed()) == Refused(RefusalReason.NO_SUCH_TASK)
    assert writer.is_idle


async def test_event_past_its_time_fails_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store fails for a while."""
    monkeypatch.setattr(task_writer, "_GRACE", 0.05)
    rows = MemoryRows(wide(2))
    writer = Writer(rows)
    rows.error = TransientError("503")
    patient = asyncio.create_task(writer.tell(completed("s00")))
    with pytest.raises(TransientError, match="StepCompleted could not be recorded in time"):
        await writer.tell(completed("s01"), until=START)
    assert not patient.done()
    rows.error = None
    assert isinstance(await patient, Answer)
    assert [each.state for each in rows.record(TASK).steps] == [StepState.COMPLETED, StepState.RUNNING]


async def test_store_that_hangs_holds_no_caller_beyond_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The write may still come about; its caller does not know."""
    monkeypatch.setattr(task_writer, "_GRACE", 0.05)
    rows = MemoryRows(wide(2))
    writer = Writer(rows)
    rows.gate.clear()
    with pytest.raises(TransientError):
        await writer.tell(completed("s00"), until=START)
    rows.gate.set()
    await writer.knows(completed("s01"))
    assert writer.is_idle


async def test_caller_that_goes_away_harms_nobody() -> None:
    """Its event may be written or not; nothing is left of it."""
    rows = MemoryRows(wide(2))
    writer = Writer(rows)
    rows.gate.clear()
    gone = asyncio.create_task(writer.tell(completed("s00")))
    stays = asyncio.create_task(writer.tell(completed("s01")))
    await rows.until_waiting()
    gone.cancel()
    rows.gate.set()
    assert isinstance(await stays, Answer)
    await writer.writer.settle()
    assert writer.is_idle


async def test_row_that_cannot_be_written_fails_its_own_event_only() -> None:
    """The others of the fold are recorded, and the one gets the cause."""
    rows = MemoryRows(wide(5))
    rows.refuses = lambda transaction: "s03" in _written_steps(transaction)
    answers = await asyncio.gather(*map(Writer(rows).tell, _outcomes(5)), return_exceptions=True)
    assert [type(each) for each in answers] == [Answer, Answer, Answer, UnwritableError, Answer]
    assert [each.state for each in rows.record(TASK).steps].count(StepState.COMPLETED) == 4


def _written_steps(transaction: Transaction) -> list[str]:
    return [operation.entity.get("Name", "") for operation in transaction.operations]


async def test_defect_in_a_plan_fails_its_own_event_only() -> None:
    """What follows is a caller's code."""

    def broken(_: TaskRecord, __: datetime) -> Sequence[Event]:
        raise ZeroDivisionError

    rows = MemoryRows(wide(2))
    writer = Writer(rows)
    good, bad = await asyncio.gather(
        writer.tell(completed("s00")), writer.tell(completed("s01"), follow=broken), return_exceptions=True
    )
    assert isinstance(good, Answer)
    assert isinstance(bad, ZeroDivisionError)
    assert writer.is_idle


@pytest.mark.parametrize("error", [ValueError("damaged row"), KeyError("Epoch"), RuntimeError("a defect")])
async def test_nobody_waits_for_ever_whatever_fails(error: Exception) -> None:
    """Not in the read, and not in the write."""
    rows = MemoryRows(wide(3))
    writer = Writer(rows)
    rows.error = error
    answers = await asyncio.gather(*map(writer.tell, _outcomes(2)), return_exceptions=True)
    assert answers == [error, error]
    rows.error = None
    await writer.knows(completed("s00"))
    rows.error = error
    answers = await asyncio.gather(*map(writer.tell, _outcomes(3)[1:]), return_exceptions=True)
    assert answers == [error, error]
    assert writer.is_idle


async def test_worker_that_ends_answers_everybody() -> None:
    """The loop is being closed, say."""
    rows = MemoryRows(wide(1))
    writer = Writer(rows)
    rows.gate.clear()
    told = asyncio.create_task(writer.tell(completed("s00")))
    await rows.until_waiting()
    writer.writer._workers[TASK].cancel()
    with pytest.raises(TransientError, match="its writer has ended"):
        await told
    assert writer.is_idle


async def test_more_than_a_transaction_holds_is_split() -> None:
    """100 operations at most, and about a megabyte."""
    rows = MemoryRows(wide(90))
    lost: list[Event] = [MessageLost(queue="q", message_id=str(number), reason="TTL") for number in range(15)]
    await Writer(rows).tell_all([*_outcomes(89), *lost])
    assert len(rows.sent) == 2
    assert (len(rows.record(TASK).lost), rows.record(TASK).step(wide(90).steps[88].name).settled) == (
        15,
        True,
    )
    heavy = MemoryRows(wide(90))
    await Writer(heavy).tell_all([completed(f"s{number:02d}", result=b"r" * 24_576) for number in range(90)])
    assert all(each.share <= 1 for each in heavy.sent)
    assert heavy.record(TASK).task.process_state is ProcessState.PROCESSED


async def test_tasks_do_not_wait_for_each_other() -> None:
    """One whose store answers slowly holds up no other."""
    other = TaskId("task-2")
    rows = MemoryRows(pending(LINE), pending(LINE, other))
    writer = Writer(rows)
    rows.faults.extend([Fault.BUSY] * 3)
    answers = await asyncio.gather(writer.tell(claimed()), writer.tell(claimed(task=other), task=other))
    assert all(isinstance(answer, Answer) for answer in answers)
