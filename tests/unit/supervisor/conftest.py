"""A Supervisor with all that it works on, in memory."""

from __future__ import annotations

import pytest

from functions.pattern.definition import Registry, Workflow
from functions.supervisor.crowds import CrowdControl
from functions.supervisor.damage import Damage
from functions.supervisor.parts import SupervisorParts
from functions.supervisor.silence import Silence
from functions.supervisor.sweep import Sweep
from functions.supervisor.sweeping import SweepReport
from tests.fakes.breaker_rows import MemoryBreakerRows
from tests.fakes.clock import FakeClock
from tests.fakes.crowds import FixedDepths, RecordedCrowds
from tests.fakes.ports import fake_ports
from tests.fakes.store import MemoryStateStore
from tests.fakes.supervision import POLICY, MemoryOutbox, Queues, RecordedDamage, RecordedHeartbeats
from tests.fakes.task_index import MemoryTaskIndex
from tests.fakes.times import MemoryTimes, RecordedSilences
from tests.fakes.workflows import LINE


class Bench:
    """One Supervisor; `rival` makes another on the same things."""

    def __init__(self, *, shards: int = 2, deployed: tuple[Workflow, ...] = (LINE,)) -> None:
        self.clock = FakeClock()
        self.registry = Registry(deployed, {})
        self.store = MemoryStateStore(self.clock)
        self.index = MemoryTaskIndex(self.store, shards=shards)
        self.outbox = MemoryOutbox()
        self.queues = Queues()
        self.heartbeat = RecordedHeartbeats()
        self.damage = RecordedDamage()
        self.silences = RecordedSilences()
        self.crowds = RecordedCrowds()
        self.times = MemoryTimes()
        self.breakers = MemoryBreakerRows()
        self.depths = FixedDepths()
        self.ports = fake_ports(
            clock=self.clock,
            store=self.store,
            index=self.index,
            outbox=self.outbox,
            announcements=self.queues,
            heartbeats=self.heartbeat,
            times=self.times,
            breakers=self.breakers,
            queues=self.depths,
        )
        self.parts = self.all_of("one")
        self.supervisor = self.parts.sweep

    def rival(self, instance: str, *deployed: Workflow) -> Sweep:
        """Make another Supervisor, of another deployment if one is given."""
        return self.all_of(instance, *deployed).sweep

    def all_of(self, instance: str, *deployed: Workflow) -> SupervisorParts:
        """Make another one's parts."""
        damage = Damage(self.ports, self.damage.alert)
        silence = Silence(self.ports, self.silences.alert)
        crowds = CrowdControl(self.ports, POLICY, self.crowds.alert)
        registry = Registry(deployed, {}) if deployed else self.registry
        return SupervisorParts.of(
            self.ports, POLICY, registry, instance, damage, silence=silence, crowds=crowds
        )

    async def sweep(self) -> SweepReport:
        """Sweep once."""
        return await self.supervisor.run()


@pytest.fixture
def bench() -> Bench:
    """Make a Supervisor that has not swept yet."""
    return Bench()
