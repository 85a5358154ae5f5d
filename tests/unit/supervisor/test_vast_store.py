"""Sweeps over very many tasks: bounded memory, continued after a cut at any page, and nothing is missed.

The table is a stand-in that makes its pages as they are read; all above it is the application's own.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import resource
import sys
import time
import tracemalloc
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from functions.pattern.definition import Registry
from functions.pattern.request_figures import StoreFigures
from functions.pattern.shared_rows import Chore
from functions.store.announcing import Announcer
from functions.store.indexes import TableIndexRows, TableTaskIndex
from functions.store.outbox import TableOutbox
from functions.store.state_store import TableStateStore
from functions.store.task_table import TaskTable
from functions.store.task_writer import TaskWriter
from functions.supervisor.crowds import CrowdControl
from functions.supervisor.damage import Damage
from functions.supervisor.full_sweep import FullSweep
from functions.supervisor.parts import SupervisorParts
from functions.supervisor.silence import Silence
from functions.supervisor.sweeping import FullSweepReport, SweepReport
from tests.fakes.breaker_rows import MemoryBreakerRows
from tests.fakes.clock import FakeClock
from tests.fakes.crowds import FixedDepths, RecordedCrowds
from tests.fakes.ports import fake_ports
from tests.fakes.supervision import POLICY, Queues, RecordedDamage, RecordedHeartbeats, RecordedRequests
from tests.fakes.times import RecordedSilences
from tests.fakes.vast_table import VastTable
from tests.fakes.workflows import LINE

#: `make test-all` sweeps a million.
_TASKS = int(os.environ.get("VAST_TASKS", "50000"))
_SHARDS = 16
#: Bytes by which the process may grow, however many tasks there are: a window of the full sweep, and pages.
_MOST_BYTES = 64 * 1024 * 1024

pytestmark = pytest.mark.timeout(120 + _TASKS // 500)


class VastSupervisor:
    """A Supervisor over a vast table, whose sweeps begin as in a process that has just started."""

    def __init__(self, table: VastTable) -> None:
        self.table = table
        self.clock = FakeClock()
        self.requests = RecordedRequests()
        self.heartbeats = RecordedHeartbeats()
        figures, shards, queues = StoreFigures(), table.as_shards, Queues()
        rows = TaskTable(shards, figures)
        writer = TaskWriter(rows, clock=self.clock, new_id=_new_id)
        announcer = Announcer(writer, announcements=queues, requests=self.requests, clock=self.clock)
        self.ports = fake_ports(
            clock=self.clock,
            store=TableStateStore(rows, writer, announcer),
            index=TableTaskIndex(shards, figures),
            index_rows=TableIndexRows(shards, figures),
            outbox=TableOutbox(shards, figures),
            announcements=queues,
            heartbeats=self.heartbeats,
            breakers=MemoryBreakerRows(),
            queues=FixedDepths(),
        )
        self._damage = Damage(self.ports, RecordedDamage().alert)

    async def full_sweep(self, **options: int) -> FullSweepReport:
        """Sweep once, from the cursors of the sweep before."""
        return await FullSweep(self.ports, self._damage, **options).run()

    def left_by_full_sweep(self) -> dict[int, str | None]:
        """Return the cursor of each shard that the full sweep did not finish."""
        left = json.loads(self.heartbeats.latest_of(Chore.FULL_SWEEP)["left"])
        return {int(shard): place for shard, place in left.items()}

    async def sweep(self) -> SweepReport:
        """Sweep once, as a process that has just started."""
        return await self._parts().sweep.run()

    def _parts(self) -> SupervisorParts:
        silence = Silence(self.ports, RecordedSilences().alert)
        crowds = CrowdControl(self.ports, POLICY, RecordedCrowds().alert)
        registry = Registry((LINE,), {})
        damage = self._damage
        return SupervisorParts.of(self.ports, POLICY, registry, "one", damage, silence=silence, crowds=crowds)


async def test_full_sweep_fixes_all_damage_of_very_many_tasks() -> None:
    """Each missing row is made, and each wrong one, or without a task, is deleted; then nothing is left."""
    supervisor = VastSupervisor(VastTable(_TASKS, shards=_SHARDS))
    damaged = sum(shard.damaged for shard in supervisor.table.shards)
    with _measured("full sweep"):
        reports = [await supervisor.full_sweep()]
        while reports[-1].unfinished:
            reports.append(await supervisor.full_sweep())
    assert not any(each.failures for each in reports)
    assert sum(each.created for each in reports) == damaged
    assert sum(each.deleted for each in reports) == 2 * damaged


async def test_sweeps_find_every_overdue_one_of_very_many_tasks() -> None:
    """And no other: they have their turn, or more time. What lacks its index row is not found by them."""
    table = VastTable(_TASKS, shards=_SHARDS)
    supervisor = VastSupervisor(table)
    lacking = {shard.task(number) for shard in table.shards for number in shard.lacking}
    overdue = {task for shard in table.shards for task in shard.overdue}
    with _measured("sweeps"):
        while (report := await supervisor.sweep()).unfinished:
            assert not report.failures
    assert table.changed_tasks == overdue - lacking


async def test_memory_of_a_full_sweep_does_not_grow_with_the_tasks_of_a_shard() -> None:
    """Three times as many take as much."""
    peaks = []
    for tasks in (2_000, 6_000):
        supervisor = VastSupervisor(VastTable(tasks, shards=1))
        gc.collect()
        tracemalloc.start()
        await supervisor.full_sweep(window=1_000)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


@pytest.mark.parametrize("pages", range(0, 60, 3))
async def test_full_sweep_continues_after_a_cut_at_any_page(pages: int) -> None:
    """The next sweep begins at the cursors; only the last window is read again."""
    table = VastTable(240, shards=2, under_way_one_in=8, damaged_one_in=24)
    supervisor = VastSupervisor(table)
    table.pages = pages
    cut = await supervisor.full_sweep(window=30)
    table.pages = None
    left = supervisor.left_by_full_sweep()
    behind = sum(table.shards[shard].number_at(place) + 1 for shard, place in left.items() if place)
    done = sum(120 for number in range(2) if number not in left)
    rest = await supervisor.full_sweep(window=30)
    assert (cut.unfinished, rest.unfinished, rest.failures) == (True, False, 0)
    damaged = sum(shard.damaged for shard in table.shards)
    assert (cut.created + rest.created, cut.deleted + rest.deleted) == (damaged, 2 * damaged)
    assert cut.tasks in {behind + done, behind + done + 30}
    assert rest.tasks == table.tasks - behind
    again = await supervisor.full_sweep()
    assert (again.tasks, again.created, again.deleted) == (table.tasks, 0, 0)


@contextmanager
def _measured(what: str) -> Iterator[None]:
    """See how much larger the process has become, and for how long that took; print both."""
    logging.getLogger("functions").setLevel(logging.ERROR)
    gc.collect()
    before, begun = _most_memory(), time.perf_counter()
    yield
    grown, seconds = _most_memory() - before, time.perf_counter() - begun
    logging.getLogger("functions").setLevel(logging.NOTSET)
    sys.stdout.write(f"{what} of {_TASKS} tasks: {seconds:.0f} s, {grown / 2**20:.1f} MiB more\n")
    assert grown < _MOST_BYTES


def _most_memory() -> int:
    """Give the most bytes that the process has had at any moment."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _new_id() -> str:
    return uuid.uuid4().hex
