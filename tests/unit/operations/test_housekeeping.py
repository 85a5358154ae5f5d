"""Retention deletes ended tasks with their instances, and old rows of other tables."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from functions.operations import housekeeping
from functions.operations.housekeeping import Housekeeping, OldRows, check_retention
from functions.pattern.errors import DefinitionError, TransientError
from functions.pattern.identity import Birth, Parent, SchedulerId, StepName, TaskId
from functions.pattern.occurrences import TaskCounter
from functions.pattern.records import TaskRecord
from functions.pattern.shared_rows import Chore
from functions.pattern.states import ProcessState
from functions.pattern.store_ports import Index, IndexEntry, IndexPage, Stored
from functions.supervisor.damage import Damage
from tests.fakes.clock import START, FakeClock
from tests.fakes.interventions import recovered
from tests.fakes.minute_counts import MemoryMinuteCounts
from tests.fakes.ports import fake_ports
from tests.fakes.store import MemoryStateStore
from tests.fakes.supervision import RecordedDamage, RecordedHeartbeats
from tests.fakes.task_index import MemoryTaskIndex
from tests.fakes.tasks import SECOND, after, claimed, completed, pending, started, told
from tests.fakes.workflows import LINE, TASK
from tests.unit.operations.conftest import in_error, processed

_DAY = 24 * 3600


class Bench:
    """Housekeeping with all that it works on; it stands in for what deletes tasks."""

    def __init__(self, *, shards: int = 2) -> None:
        self.clock = FakeClock()
        self.store = MemoryStateStore(self.clock)
        self.index = MemoryTaskIndex(self.store, shards=shards)
        self.purged: list[SchedulerId] = []
        self.together: asyncio.Barrier | None = None
        self.stuck: set[str] = set()
        self.broken: set[str] = set()
        self.stuck_for_ever: str | None = None
        self.deleted: list[str] = []
        self.behind = 0.0
        self.heartbeats, self.damage = RecordedHeartbeats(), RecordedDamage()
        ports = fake_ports(
            clock=self.clock,
            store=self.store,
            index=self.index,
            retention=self,
            heartbeats=self.heartbeats,
        )
        self.housekeeping = Housekeeping(ports, 30, Damage(ports, self.damage.alert))

    async def purge(self, scheduler: SchedulerId) -> bool:
        """Stand in for the Durable instances."""
        if self.together is not None:
            await self.together.wait()
        if self.stuck_for_ever is not None and scheduler.startswith(self.stuck_for_ever):
            await asyncio.sleep(60)
        if scheduler in self.broken:
            raise RuntimeError("the service answered 500")
        self.purged.append(scheduler)
        return scheduler not in self.stuck

    async def delete(self, stored: Stored) -> bool:
        """Stand in for the table of the tasks, whose index follows."""
        self.deleted.append(stored.record.order.task)
        self.store.remove(stored.record.order.task)
        return True

    async def run(self, *, days: float) -> tuple[int, int]:
        """Keep house after so many days; give how many tasks were purged, and left."""
        self.clock.advance(days * _DAY)
        purge = await self.housekeeping.run(self.purge)
        self.behind = max(self.behind, purge.behind_seconds)
        return purge.tasks, purge.left

    async def run_for_a_day(self) -> tuple[int, int]:
        """Keep house every five minutes; give how many tasks were purged, and left, in all of the runs."""
        runs = [await self.run(days=1 / 288) for _ in range(288)]
        return sum(tasks for tasks, _ in runs), sum(left for _, left in runs)


@pytest.fixture
def bench() -> Bench:
    """Make a house without tasks."""
    return Bench()


async def test_finished_task_goes_after_its_retention(bench: Bench) -> None:
    """Not a day before it."""
    bench.store.put(processed())
    assert await bench.run(days=29) == (0, 0)
    assert await bench.run(days=2) == (1, 0)
    assert (bench.deleted, bench.purged) == ([TASK], ["task-1.1"])


async def test_instances_of_all_epochs_go(bench: Bench) -> None:
    """Before the rows, without which they could not be named."""
    again = told(
        recovered(pending(LINE)),
        claimed(SECOND),
        *(event for step in ("pick", "send") for event in (started(step, SECOND), completed(step, SECOND))),
    )
    bench.store.put(again)
    bench.stuck = {"task-1.1"}
    assert await bench.run(days=31) == (0, 1)
    assert (bench.purged, bench.deleted) == (["task-1.1", "task-1.2"], [])
    bench.stuck = set()
    assert await bench.run(days=1) == (1, 0)


async def test_instances_of_all_runs_go(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each epoch, and side by side: what was put off for days had thousands, and one task has a minute."""
    monkeypatch.setattr(housekeeping, "_PURGE_SECONDS", 5)
    once, bench.together = processed(), asyncio.Barrier(10)
    bench.store.put(replace(once, task=replace(once.task, run=9)))
    assert await bench.run(days=31) == (1, 0)
    assert sorted(bench.purged) == ["task-1.1", *(f"task-1.1.{run}" for run in range(1, 10))]


async def test_child_stays_as_long_as_its_parent(bench: Bench) -> None:
    """Which may have it undone; another task of the parent's id is another parent."""
    parent = in_error()
    bench.store.put(parent)
    bench.store.put(_child_of(parent))
    assert await bench.run(days=31) == (0, 0)
    assert await bench.run_for_a_day() == (0, 1)
    bench.store.put(replace(parent, order=replace(parent.order, birth=Birth("12345678"))))
    assert await bench.run_for_a_day() == (1, 0)
    assert bench.deleted == ["c-1"]
    assert bench.behind == 0


async def test_children_of_a_task_that_waits_for_long_cost_a_look_a_day(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not one in every run, which would not come to the others."""
    parent = in_error()
    bench.store.put(parent)
    for number in range(40):
        bench.store.put(_child_of(parent, f"c-{number}"))
    await bench.run(days=200)
    load, loads = bench.store.load, list[TaskId]()

    async def counted(task: TaskId) -> Stored | None:
        loads.extend({task} - {TASK})
        return await load(task)

    monkeypatch.setattr(bench.store, "load", counted)
    assert await bench.run_for_a_day() == (0, 40)
    assert len(loads) == len(set(loads)) == 40
    bench.store.remove(TASK)
    assert await bench.run_for_a_day() == (40, 0)


def _child_of(parent: TaskRecord, name: str = "c-1") -> TaskRecord:
    child, of = processed(), Parent(task=TASK, birth=parent.order.birth, step=StepName("car"))
    return replace(
        child,
        order=replace(child.order, task=TaskId(name), parent=of),
        task=replace(child.task, order_id=TaskId(name)),
    )


async def test_task_in_error_is_never_purged(bench: Bench) -> None:
    """It waits for an operator; so does one that the index has wrong."""
    bench.store.put(in_error())
    bench.index.wrong[Index.DONE] = [IndexEntry(TASK, START, "line", ProcessState.PROCESSED, START, 1, "ada")]
    assert await bench.run(days=365) == (0, 1)
    assert (bench.deleted, bench.purged) == ([], [])


async def test_one_failure_stops_no_other(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """The task is logged, and left for the next run."""
    for name in ("d-1", "d-2", "d-3"):
        bench.store.put(processed(name))
    bench.broken = {"d-2.1"}
    assert await bench.run(days=31) == (2, 1)
    assert sorted(bench.deleted) == ["d-1", "d-3"]
    assert "task d-2: not purged: a defect, left to the next run" in caplog.text


async def test_task_that_cannot_be_read_is_alerted_once_and_hides_no_other(bench: Bench) -> None:
    """Each run meets it again."""
    for name in ("d-1", "d-2", "d-3"):
        bench.store.put(processed(name))
    bench.store.damaged = {TaskId("d-2")}
    assert await bench.run(days=31) == (2, 1)
    assert await bench.run(days=1) == (0, 1)
    assert [rows for rows, _ in bench.damage.alerts] == [1]
    assert sorted(bench.deleted) == ["d-1", "d-3"]


async def test_run_deletes_all_that_there_is(bench: Bench) -> None:
    """However much came in: a fixed number for each run would be a bound on what may arrive."""
    for number in range(6_000):
        bench.store.put(processed(f"d-{number}"))
    assert await bench.run(days=31) == (6_000, 0)


async def test_run_without_anything_to_delete_costs_one_read_for_each_shard(bench: Bench) -> None:
    """It comes every five minutes."""
    bench.store.put(processed())
    await bench.run(days=29)
    assert bench.index.requests == bench.index.shards


async def test_run_says_how_far_behind_it_is(bench: Bench) -> None:
    """How long past its retention the oldest task was that it could delete only now."""
    bench.store.put(processed())
    await bench.run(days=34)
    figures = bench.heartbeats.latest_of(Chore.HOUSEKEEPING)
    assert (figures["tasks"], figures["behind_seconds"], figures["unfinished"]) == (1, 4 * _DAY, False)
    await bench.run(days=1)
    assert bench.heartbeats.latest_of(Chore.HOUSEKEEPING)["behind_seconds"] == 0


async def test_run_that_takes_too_long_goes_on_next_time(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With the oldest tasks done, and the others from another shard on."""
    for number in range(20):
        bench.store.put(processed(f"old-{number}"))
    for number in range(200):
        record = processed(f"young-{number}")
        bench.store.put(replace(record, task=replace(record.task, finished_at=after(90 * _DAY))))
    monkeypatch.setattr(housekeeping, "_RUN_SECONDS", 2)
    bench.stuck_for_ever = "young"
    assert await bench.run(days=121) == (20, 0)
    figures = bench.heartbeats.latest_of(Chore.HOUSEKEEPING)
    assert (figures["unfinished"], figures["behind_seconds"]) == (True, 91 * _DAY)
    assert 'housekeeping {"unfinished": true' in caplog.text
    bench.stuck_for_ever = None
    assert (await bench.run(days=0))[0] == 200


async def test_each_run_begins_with_other_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that a run which was cut short did not come to are not the last ones for ever."""
    bench = Bench(shards=16)
    read: list[int] = []
    page = bench.index.page

    async def noted(index: Index, shard: int, **options: Any) -> IndexPage:
        read.append(shard)
        return await page(index, shard, **options)

    monkeypatch.setattr(bench.index, "page", noted)
    begun = []
    for _ in range(3):
        read.clear()
        await bench.run(days=1)
        begun.append(read[0])
    assert begun == [0, 4, 8]


def test_time_to_cancel_beyond_retention_is_refused() -> None:
    """Both are named; as long as retention is possible."""
    day = replace(LINE, steps=(replace(LINE.steps[0], undo=True),), cancel_within=86_400)
    check_retention([LINE, day], 1)
    with pytest.raises(DefinitionError) as refusal:
        check_retention([LINE, day], 0.9)
    told = "cancel_within is 86400 seconds, but what has ended is deleted after 77760 (RETENTION_DAYS=0.9)"
    assert told in str(refusal.value)


class Rows:
    """Rows of a table: tells how many it deletes each time, until there are none."""

    def __init__(self, *deletes: int) -> None:
        self._deletes = list(deletes)
        self.before: datetime | None = None

    async def delete_before(self, before: datetime, most: int) -> int:
        """Delete some."""
        self.before = before
        deleted = self._deletes.pop(0) if self._deletes else 0
        if deleted < 0:
            raise TransientError("Table Storage: ServiceRequestError")
        assert deleted <= most
        return deleted


async def test_rows_of_other_tables_go_after_the_same_time(caplog: pytest.LogCaptureFixture) -> None:
    """Agents' requests long after their complete-by, and rejected messages: all of them. A line says so."""
    rejected, requests, clock = Rows(5_000, 3), Rows(5_000, 5_000, 5), FakeClock()
    clock.advance(31 * 24 * 3600)
    with caplog.at_level("INFO"):
        await OldRows(fake_ports(clock=clock, rejected=rejected, agent_requests=requests), 30).run()
    assert 'old rows {"rejected": 5003, "requests": 10005}' in caplog.text
    assert requests.before == rejected.before == START + timedelta(days=1)


async def test_failure_of_one_table_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """It is left to the next run."""
    rejected, requests = Rows(-1), Rows(7)
    deleted = await OldRows(fake_ports(rejected=rejected, agent_requests=requests), 30).run()
    assert (deleted.failures, deleted.requests) == (1, 7)
    assert "rejected messages: left to the next run" in caplog.text


async def test_counts_of_tasks_go_after_two_hours() -> None:
    """The retention of tasks does not matter."""
    counts, clock = MemoryMinuteCounts(), FakeClock()
    for minutes in (119, 121, 122):
        await counts.write(START - timedelta(minutes=minutes), "one", {TaskCounter.ACCEPTED: 1})
    others = {"rejected": Rows(), "agent_requests": Rows()}
    deleted = await OldRows(fake_ports(clock=clock, minute_counts=counts, **others), 30).run()
    assert deleted.counts == 2
    assert [minute for minute, _ in counts.rows] == [START - timedelta(minutes=119)]
