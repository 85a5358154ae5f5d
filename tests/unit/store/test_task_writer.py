"""The writer of a task: events are folded, lost answers are recognised, wrong rows harm no event."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from random import Random

import pytest

from functions.pattern.announcements import announcements
from functions.pattern.errors import IllegalTransitionError, TransientError, UnwritableError
from functions.pattern.events import AnnouncementSent, Event, MessageLost, StepStarted
from functions.pattern.folding import Answer
from functions.pattern.identity import StartId, TaskId
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.states import ProcessState, StepState
from functions.store import task_writer
from functions.store.event_line import EventLine
from functions.store.keys import task_row
from functions.store.transactions import Transaction
from tests.fakes.clock import START
from tests.fakes.interventions import recovery
from tests.fakes.tasks import FIRST, SECOND, after, claimed, completed, pending, started, told
from tests.fakes.workflows import LINE, TASK, step, workflow
from tests.unit.store.rows import Fault, MemoryRows, Writer, wide


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


async def test_start_is_known_as_our_own_after_nine_writes_of_another_process() -> None:
    """Only eight writes are named on the row, but the start id stands on the step's: it says whose it is."""
    names = [f"s{number:02d}" for number in range(10)]
    record = told(
        pending(workflow(*map(step, names), step("last", "s09"))),
        claimed(),
        *(started(name) for name in names),
    )
    rows = MemoryRows(record)
    writer, other = Writer(rows), Writer(rows)
    rows.faults.append(Fault.LOST)
    rows.loss_gate.clear()
    telling = asyncio.create_task(writer.tell(completed("s09"), follow=Starts("a").follow))
    while not rows.record(TASK).steps[9].settled:
        await asyncio.sleep(0)
    await other.knows(*(completed(name) for name in names[:9]))
    rows.loss_gate.set()
    answer = await telling
    assert isinstance(answer, Answer)
    ours = [event.start_id for event in answer.events if isinstance(event, StepStarted)]
    assert ours == [rows.record(TASK).steps[10].start_id]


async def test_index_row_that_is_wrong_is_mended() -> None:
    """The conflict leaves the task as it is, so it comes from another row; the outcome is recorded."""
    rows = MemoryRows(wide(1))
    rows.remove("!due")
    await Writer(rows).knows(completed("s00"))
    assert rows.record(TASK).task.process_state is ProcessState.PROCESSED
    assert [key[:5] for key in rows.entities if key.startswith("!")] == ["!done"]


async def test_only_the_row_that_was_not_as_expected_is_spared() -> None:
    """A notice's row that is gone leaves no old index row; when both are gone, each conflict names one."""
    waits = wide(1)
    waits = replace(waits, order=replace(waits.order, reply_to="notices-demo"))
    [received] = announcements(None, waits)
    for gone, conflicts in (("!send", 1), ("!", 2)):
        rows = MemoryRows(waits)
        rows.remove(gone)
        sent = AnnouncementSent(announcement=received, sent_at=after(1))
        await Writer(rows).tell_all([sent, completed("s00")])
        assert [key[:5] for key in rows.entities if key.startswith("!")] == ["!done", "!send"]
        assert len(rows.sent) == 1 + conflicts


async def test_conflict_that_blames_the_wrong_row_holds_up_nobody() -> None:
    """As when a service named always the first: what it names was spared, or can't be."""
    rows = MemoryRows(wide(1))
    rows.remove("!due")
    rows.blames = lambda _: task_row(TASK)
    await Writer(rows).knows(completed("s00"))
    assert [key[:5] for key in rows.entities if key.startswith("!")] == ["!done"]
    assert len(rows.sent) == 3


async def test_conflict_that_blames_a_row_of_a_new_name_each_time_holds_up_nobody() -> None:
    """A row whose key holds the time of the change: after as many conflicts as rows, all are spared."""
    rows = MemoryRows(wide(1))
    rows.remove("!due")
    writer = Writer(rows)

    def later(transaction: Transaction) -> str:
        writer.clock.advance(0.01)
        return next(key for key in transaction.rows if key.startswith("!done"))

    rows.blames = later
    await writer.knows(completed("s00"))
    assert [key[:5] for key in rows.entities if key.startswith("!")] == ["!done"]
    assert len(rows.sent) == len(rows.sent[0].rows) + 2


async def test_conflict_that_nothing_mends_is_waited_for_in_the_end() -> None:
    """Whatever the rows are called: each try in vain would read and write the task at once again."""
    line = EventLine(TASK, None)
    at_once = [
        line.conflicted("v", frozenset({f"!done|{n}"}), frozenset({"a", f"!done|{n}"})) for n in range(9)
    ]
    assert at_once == [False, True, True, *[False] * 6]
