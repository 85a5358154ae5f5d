"""Housekeeping: what finished long ago goes, with its instances; what waits for an operator stays."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from functions.operations.housekeeping import Housekeeping
from functions.pattern.identity import SchedulerId
from functions.pattern.states import ProcessState
from functions.pattern.store_ports import Index, IndexEntry, Stored
from tests.fakes.agent_requests import MemoryAgentRequests
from tests.fakes.clock import START, FakeClock
from tests.fakes.interventions import recovered
from tests.fakes.ports import fake_ports
from tests.fakes.store import MemoryStateStore
from tests.fakes.task_index import MemoryTaskIndex
from tests.fakes.tasks import SECOND, after, claimed, completed, pending, started, told
from tests.fakes.workflows import LINE, TASK
from tests.unit.operations.conftest import in_error, processed

_DAY = 24 * 3600


class _AgentRequests(MemoryAgentRequests):
    """Stands in for the Agents' table."""

    deleted_before: tuple[datetime, int] | None = None

    async def delete_before(self, before: datetime, most: int) -> int:
        """Keep what was asked."""
        self.deleted_before = (before, most)
        return 5


class Bench:
    """Housekeeping with all that it works on; it stands in for what deletes."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = MemoryStateStore(self.clock)
        self.index = MemoryTaskIndex(self.store)
        self.purged: list[SchedulerId] = []
        self.stuck: set[str] = set()
        self.broken: set[str] = set()
        self.deleted: list[str] = []
        self.rejected_before: tuple[datetime, int] | None = None
        self.requests = _AgentRequests()
        ports = fake_ports(
            clock=self.clock,
            store=self.store,
            index=self.index,
            retention=self,
            rejected=self,
            agent_requests=self.requests,
        )
        self.housekeeping = Housekeeping(ports, retention_days=30)

    async def purge(self, scheduler: SchedulerId) -> bool:
        """Stand in for the Durable instances."""
        if scheduler in self.broken:
            raise RuntimeError("the service answered 500")
        self.purged.append(scheduler)
        return scheduler not in self.stuck

    async def delete(self, stored: Stored) -> bool:
        """Stand in for the table of the tasks."""
        self.deleted.append(stored.record.order.task)
        return True

    async def reject(self, queue: str, message_id: str, body: bytes, reason: str) -> None:
        """Keep nothing: housekeeping rejects no message."""
        raise NotImplementedError(queue, message_id, body, reason)

    async def delete_before(self, before: datetime, most: int) -> int:
        """Stand in for the table of rejected messages."""
        self.rejected_before = (before, most)
        return 3

    async def run(self, *, days: float, most: int = 5_000) -> tuple[int, int]:
        """Keep house after so many days; give how many tasks were purged, and left."""
        self.clock.advance(days * _DAY)
        purge = await self.housekeeping.run(self.purge, most=most)
        assert (purge.rejected, purge.requests) == (3, 5)
        return purge.tasks, purge.left


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


async def test_task_in_error_is_never_purged(bench: Bench) -> None:
    """It waits for an operator; so does one that the index has wrong."""
    bench.store.put(in_error())
    bench.index.wrong[Index.DONE] = [IndexEntry(TASK, START, "line", ProcessState.PROCESSED, START)]
    assert await bench.run(days=365) == (0, 1)
    assert (bench.deleted, bench.purged) == ([], [])


async def test_one_failure_stops_no_other(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """The task is logged, and left for the next run."""
    for name in ("d-1", "d-2", "d-3"):
        bench.store.put(processed(name))
    bench.broken = {"d-2.1"}
    assert await bench.run(days=31) == (2, 1)
    assert sorted(bench.deleted) == ["d-1", "d-3"]
    assert "task d-2: not purged" in caplog.text


async def test_run_is_bounded(bench: Bench) -> None:
    """Each shard gets its part of it, so that none waits for ever behind another."""
    for number in range(200):
        bench.store.put(processed(f"d-{number}"))
    purged, _ = await bench.run(days=31, most=70)
    assert purged == 70
    assert bench.index.requests <= 8 * bench.index.shards


async def test_oldest_tasks_never_wait_behind_younger_ones(bench: Bench) -> None:
    """A run that can't purge all of them begins with those that are longest past their retention."""
    for number in range(20):
        bench.store.put(processed(f"old-{number}"))
    for number in range(200):
        record = processed(f"young-{number}")
        finished = replace(record.task, finished_at=after(90 * _DAY))
        bench.store.put(replace(record, task=finished))
    assert await bench.run(days=121, most=40) == (40, 0)
    assert sum(name.startswith("old") for name in bench.deleted) == 20


async def test_requests_to_agents_go_after_the_same_time(bench: Bench) -> None:
    """Long after their complete-by; many at a time, as there is one for each step that is sent once."""
    await bench.run(days=31)
    assert bench.requests.deleted_before == (datetime.fromisoformat("2026-11-22T10:00:00.123456Z"), 50_000)


async def test_rejected_messages_go_after_the_same_time(bench: Bench) -> None:
    """A bounded number of them."""
    await bench.run(days=31)
    assert bench.rejected_before == (datetime.fromisoformat("2026-11-22T10:00:00.123456Z"), 1_000)
