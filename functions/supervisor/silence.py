"""Agents that answer nothing: operators are told once, however many tasks wait, and when it is over."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from functions.pattern.ports import Ports
from functions.pattern.shared_rows import Chore, Occasion
from functions.pattern.silent_agents import SilentAgent, heard, read_silences, written_silences
from functions.supervisor.sweeping import SweepReport

#: Alerts operators of an Agent that is silent, or is no longer.
type AlertSilence = Callable[[SilentAgent, bool], Awaitable[None]]


class Silence:
    """What operators know of silent Agents; all instances share it."""

    def __init__(self, ports: Ports, alert: AlertSilence) -> None:
        self._heartbeats = ports.heartbeats
        self._times = ports.times
        self._clock = ports.clock
        self._alert = alert

    async def report(self, report: SweepReport) -> frozenset[str]:
        """Tell what of a sweep's report is new, and give who is silent. Two sweeps at once may both do it."""
        with report.surviving("silent Agents"):
            known = read_silences(await self._heartbeats.latest(Chore.SILENCE))
            if not known and not report.asked:
                return frozenset()
            replied = await self._times.latest(Occasion.REPLIED)
            silences = heard(known, report.asked, replied, self._clock.now())
            for each in silences.begun:
                await self._alert(each, False)
            for each in silences.ended:
                await self._alert(each, True)
            if silences.known != known:
                await self._heartbeats.beat(Chore.SILENCE, written_silences(silences.known))
            return frozenset(each.agent for each in silences.known)
        return frozenset()
