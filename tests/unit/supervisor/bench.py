"""A Supervisor with all that it works on, in memory."""

from __future__ import annotations

from functions.supervisor.figures import SweepFigures
from functions.supervisor.lease import Lease
from functions.supervisor.leftovers import Leftovers
from functions.supervisor.sweep import Sweep
from tests.fakes.clock import FakeClock
from tests.fakes.store import MemoryStateStore
from tests.fakes.supervision import POLICY, MemoryLeaseRow, MemoryOutbox, Queues, RecordedHeartbeat
from tests.fakes.task_index import MemoryTaskIndex


class Bench:
    """One Supervisor; `rival` makes another on the same things."""

    def __init__(self, *, shards: int = 2) -> None:
        self.clock = FakeClock()
        self.store = MemoryStateStore(self.clock)
        self.index = MemoryTaskIndex(self.store, shards=shards)
        self.lease_row = MemoryLeaseRow()
        self.outbox = MemoryOutbox()
        self.queues = Queues()
        self.heartbeat = RecordedHeartbeat()
        self.supervisor = self.rival("one")

    def rival(self, holder: str) -> Sweep:
        """Make a Supervisor."""
        return Sweep(
            index=self.index,
            store=self.store,
            policy=POLICY,
            lease=Lease(self.lease_row, holder=holder, clock=self.clock),
            leftovers=Leftovers(outbox=self.outbox, announcements=self.queues, clock=self.clock),
            heartbeat=self.heartbeat,
            clock=self.clock,
            instance=holder,
        )

    async def sweep(self) -> SweepFigures:
        """Sweep once, as the leader."""
        figures = await self.supervisor.run()
        assert figures is not None
        return figures
