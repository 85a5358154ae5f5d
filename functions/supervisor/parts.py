"""The Supervisor's parts, joined: the sweeps of its timers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from functions.pattern.definition import Registry
from functions.pattern.ports import Ports
from functions.pattern.supervision import SupervisionPolicy
from functions.supervisor.crowds import CrowdControl
from functions.supervisor.damage import Damage
from functions.supervisor.due_tasks import DueTasks
from functions.supervisor.full_sweep import FullSweep
from functions.supervisor.releases import Releases
from functions.supervisor.silence import Silence
from functions.supervisor.sweep import Sweep


@dataclass(frozen=True, slots=True)
class SupervisorParts:
    """One instance's Supervisor."""

    sweep: Sweep
    full_sweep: FullSweep

    @classmethod
    def of(
        cls,
        ports: Ports,
        policy: SupervisionPolicy,
        registry: Registry,
        instance: str,
        damage: Damage,
        *,
        silence: Silence,
        crowds: CrowdControl,
    ) -> Self:
        """Join them; `instance` names it in the heartbeat."""
        due, full = DueTasks(ports, policy, registry), FullSweep(ports, damage)
        releases = Releases(ports, registry, policy.start_within)
        sweep = Sweep(ports, due, releases, instance, damage, silence=silence, crowds=crowds)
        return cls(sweep, full)
