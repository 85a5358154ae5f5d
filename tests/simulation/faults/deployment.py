"""Which versions of the workflows hosts have: others are rolled out host after host; none of them crashes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from functions.workflows.registration import Registration
from tests.simulation.faults.kinds import SimulatedFault
from tests.simulation.hosts.host import Host, HostClock
from tests.simulation.run.platform import Platform

#: Seconds after which a host that gets nothing more is stopped: its functions have ended by then.
_DRAINED_AFTER = 310.0


class Deployment:
    """Starts hosts; before anything is rolled, all have the `first` versions."""

    def __init__(
        self, platform: Platform, first: Sequence[Registration], following: Sequence[Registration]
    ) -> None:
        self._platform = platform
        self._chance: Random = platform.world.chance("deployments")
        self._both = following
        self._deployed = first
        self._others = (first, following, _without_older(following))
        self._started = 0

    def start(self, clock: HostClock, on_crash: Callable[[], None]) -> Host:
        """Start a host with what is deployed now."""
        self._started += 1
        host = self._platform.start_host(f"h{self._started}", self._deployed, clock)
        host.on_crash = on_crash
        return host

    def roll(self, start: Callable[[], None]) -> None:
        """Deploy something else, in the place of one host."""
        self._deployed = self._chance.choice(self._others)
        before = self._platform.running.any("hosts of deployments")
        if before is not None:
            self._platform.world.fault(SimulatedFault.VERSIONS, before.name)
            start()
            self._drain(before)

    def finish(self, start: Callable[[], None]) -> None:
        """Deploy all versions everywhere."""
        self._deployed = self._both
        for before in self._platform.running.hosts:
            start()
            self._drain(before)

    def _drain(self, host: Host) -> None:
        self._platform.running.drain(host)
        host.on_crash = _nothing
        self._platform.world.loop.call_later(_DRAINED_AFTER, host.crash)


def _without_older(registrations: Sequence[Registration]) -> tuple[Registration, ...]:
    return tuple(Registration(each.workflow) for each in registrations)


def _nothing() -> None:
    """Start no host again."""
