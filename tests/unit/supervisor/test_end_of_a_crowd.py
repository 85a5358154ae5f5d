"""The last ones of a crowd: each sweep has turns for them, and still they don't go round for ever."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from functions.pattern.crowds import CrowdCause
from functions.pattern.identity import TaskId
from functions.pattern.known_crowds import Crowd
from functions.pattern.records import Extension
from functions.pattern.shared_rows import Chore, Occasion
from functions.pattern.states import ProcessState, Way
from functions.supervisor.crowds import read_crowds, written_crowds
from tests.fakes.clock import START
from tests.fakes.supervision import POLICY
from tests.fakes.tasks import after, claimed, pending, started, told
from tests.fakes.workflows import LINE, step, workflow
from tests.unit.supervisor.bench import Bench

PAYING = workflow(step("pay", via=Way.QUEUE, complete_within=60), name="paying")
PAY = PAYING.steps[0].agent
BY_AGENT = f"Agent {PAY}"
WITHIN = PAYING.steps[0].complete_within
FEW = [TaskId(f"task-{number}") for number in range(3)]


async def test_turns_of_a_crowd_end_as_extensions_do() -> None:
    """Its Agent never replies, and they keep the crowd alive themselves."""
    bench = await _with_last_ones()
    spent = POLICY.crowd.longest.total_seconds() - 600
    for name in FEW:
        record = bench.store.record(name)
        extension = Extension(
            until=START, seconds=spent, times=9, behind=BY_AGENT, cause="no reply", at=START
        )
        bench.store.put(replace(record, task=replace(record.task, extended=extension)))
    assert await _sweeps_until_all_count(bench) <= 12


async def test_few_tasks_that_nothing_explains_do_not_keep_a_crowd_alive() -> None:
    """Their Agent replies to others, and its queue is short: in minutes, they count as any."""
    bench = await _with_last_ones()
    assert await _sweeps_until_all_count(bench, replies=True) <= 6


async def test_task_that_no_scheduler_can_take_is_recovered_and_hides_no_other_crowd() -> None:
    """One of many was lost for good: it was asked for in its epoch for a day, and nobody heard of others."""
    bench, others = Bench(), [TaskId(f"other-{number}") for number in range(2 * POLICY.crowd.tasks)]
    stuck = TaskId("stuck")
    await _come_and_go(bench, [stuck, *others], but=stuck)
    assert len(bench.crowds.alerts) == 1
    hours = await _hours_until_it_counts(bench, stuck)
    assert 1 <= hours < 3
    await _come_and_go(bench, others)
    assert len(bench.crowds.alerts) == 2


async def test_row_with_times_without_a_zone_is_forgotten() -> None:
    """They can't be compared: no sweep would tell of a crowd any more."""
    bench = await _with_last_ones()
    row = bench.heartbeat.latest_of(Chore.CROWDS)["crowds"]
    assert len(read_crowds({"crowds": row})) == 1
    assert read_crowds({"crowds": row.replace(b'Z"', b'"')}) == ()


async def _come_and_go(bench: Bench, tasks: list[TaskId], but: TaskId | None = None) -> None:
    """Have tasks be late for their Schedulers in one sweep, and be done then."""
    for name in tasks:
        bench.store.put(told(pending(LINE, name), now=bench.clock.now()))
    bench.clock.advance(36)
    await bench.sweep()
    for name in set(tasks) - {but}:
        bench.store.remove(name)


async def _hours_until_it_counts(bench: Bench, task: TaskId) -> float:
    begun = bench.clock.now()
    while not bench.store.record(task).task.failure_count:
        bench.clock.advance(60)
        await bench.sweep()
        assert bench.clock.now() < begun + POLICY.crowd.longest
    return (bench.clock.now() - begun) / timedelta(hours=1)


async def _with_last_ones() -> Bench:
    bench = Bench(deployed=(PAYING,))
    for name in FEW:
        bench.store.put(pending(PAYING, name))
    crowd = Crowd(
        behind=BY_AGENT, cause=CrowdCause.NO_REPLY, since=START, tasks=60, found_at=START, until=after(120)
    )
    await bench.heartbeat.beat(Chore.CROWDS, written_crowds((crowd,)))
    return bench


async def _sweeps_until_all_count(bench: Bench, *, replies: bool = False) -> int:
    """Count the sweeps, a hundred at most, in each of which all are late."""
    for sweeps in range(100):
        if all(each.task.failure_count for each in bench.store.records()):
            return sweeps
        _run_schedulers(bench)
        bench.clock.advance(WITHIN + 6)
        if replies:
            await bench.times.note(Occasion.REPLIED, PAY, bench.clock.now(), timedelta())
        await bench.sweep()
    return 100


def _run_schedulers(bench: Bench) -> None:
    """Let the Schedulers that were asked for begin the step, which nobody answers."""
    for record in bench.store.records():
        task, epoch = record.order.task, record.task.epoch
        if record.task.process_state is ProcessState.PENDING:
            until = (bench.clock.now() - START).total_seconds() + WITHIN
            begun = claimed(epoch, task=task), started("pay", epoch, task=task, complete_by=until)
            bench.store.put(told(record, *begun, now=bench.clock.now()))
