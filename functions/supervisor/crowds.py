"""What operators know of tasks that are late together, which all instances share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from pydantic import TypeAdapter, ValidationError

from functions.pattern.crowds import agent_named
from functions.pattern.known_crowds import Crowd, after_sweep
from functions.pattern.ports import Ports
from functions.pattern.shared_rows import Chore
from functions.pattern.supervision import SupervisionPolicy
from functions.supervisor.sweeping import SweepReport
from functions.supervisor.swept_crowds import SweptCrowds

_CROWDS = "crowds"
_KNOWN: TypeAdapter[tuple[Crowd, ...]] = TypeAdapter(tuple[Crowd, ...])

#: The time since the last sweep that counts for the rate: not all of a pause is made up for at once.
_LONGEST_PAUSE = timedelta(minutes=2)
#: What is taken for that time when no sweep is known.
_USUAL_PAUSE = timedelta(seconds=30)

#: Alerts operators of a crowd: what is late, and how many of it have their turn a minute.
type AlertCrowd = Callable[[Crowd, int], Awaitable[None]]


class CrowdControl:
    """What operators know of crowds; all instances share it."""

    def __init__(self, ports: Ports, policy: SupervisionPolicy, alert: AlertCrowd) -> None:
        self._ports = ports
        self._policy = policy
        self._alert = alert

    async def begin(self, latest: Mapping[str, Any] | None, report: SweepReport) -> SweptCrowds:
        """Begin a sweep that follows on the one whose heartbeat is the `latest`."""
        return SweptCrowds(self._ports, self._policy, await self._known(report), self._turns(latest))

    async def _known(self, report: SweepReport) -> tuple[Crowd, ...]:
        with report.surviving("crowds"):
            return read_crowds(await self._ports.heartbeats.latest(Chore.CROWDS))
        return ()

    async def report(self, swept: SweptCrowds, silent: frozenset[str], report: SweepReport) -> None:
        """Tell what is new, unless it is an Agent's silence, of which operators hear anyway."""
        with report.surviving("crowds"):
            found, now = self._crowds_of(swept), self._ports.clock.now()
            crowds = after_sweep(swept.known, found, now, self._policy.crowd.tasks)
            for each in crowds.begun:
                if each.behind not in {agent_named(agent) for agent in silent}:
                    await self._alert(each, self._policy.crowd.per_minute)
            if crowds.known != swept.known:
                await self._ports.heartbeats.beat(Chore.CROWDS, written_crowds(crowds.known))

    def _crowds_of(self, swept: SweptCrowds) -> list[Crowd]:
        """Return the lines of a sweep that are a crowd, or were one before."""
        before = [each for each in swept.known if each.is_many(self._policy.crowd.tasks)]
        crowds = {each.behind for each in (*before, *swept.found())}
        return [each for each in swept.counted() if each.behind in crowds]

    def _turns(self, latest: Mapping[str, Any] | None) -> int:
        """Give how many tasks may have their turn in this sweep; one at least, or none ever would."""
        before, now = (latest or {}).get("started_at"), self._ports.clock.now()
        pause = now - before if isinstance(before, datetime) else _USUAL_PAUSE
        pause = min(max(pause, timedelta()), _LONGEST_PAUSE)
        return max(1, int(self._policy.crowd.per_minute * pause / timedelta(minutes=1)))


def read_crowds(row: Mapping[str, Any] | None) -> tuple[Crowd, ...]:
    """Read what was kept; what can't be read is forgotten, and would be told again."""
    try:
        return _KNOWN.validate_json((row or {}).get(_CROWDS, b"[]"))
    except ValidationError:
        return ()


def written_crowds(known: tuple[Crowd, ...]) -> Mapping[str, Any]:
    """Write what is known as figures of a sweep."""
    return {_CROWDS: _KNOWN.dump_json(known)}
