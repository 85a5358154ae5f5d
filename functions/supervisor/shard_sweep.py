"""Goes on with a sweep that was divided, in one shard, from where the message says.

It holds no more than a page in memory. A message that comes twice, or again after a crash, does no harm:
what was done is not due any more.
"""

from __future__ import annotations

from datetime import timedelta
from typing import assert_never

from functions.messages.reading import MessageReader
from functions.pattern.known_crowds import summed
from functions.pattern.messages import SWEEPS_QUEUE, SweepKind, SweepMessage
from functions.pattern.ports import Ports
from functions.pattern.shared_rows import Chore
from functions.supervisor.crowds import CrowdControl
from functions.supervisor.damage import Damage
from functions.supervisor.division import Division, ShardRound
from functions.supervisor.due_tasks import DueTasks
from functions.supervisor.full_sweep import FullSweep
from functions.supervisor.silence import Silence
from functions.supervisor.sweeping import Report, SweepReport
from functions.telemetry.tasks import sweep_span

#: Pages that one message is good for; then its row is written, and another message is sent.
_PAGES = 20
#: Seconds after which it ends at the next page, and in which what was held back has to be done.
_LONGEST, _LONGEST_REST = 60, 60
#: Shards of which one process works at a time; messages of others wait so long on the queue.
_SHARDS_AT_ONCE, _LATER = 4, timedelta(seconds=10)


class ShardSweeps:
    """Takes the messages of the queue `sweeps`."""

    def __init__(
        self,
        ports: Ports,
        due: DueTasks,
        full: FullSweep,
        damage: Damage,
        *,
        silence: Silence,
        crowds: CrowdControl,
    ) -> None:
        self._ports = ports
        self._due = due
        self._full = full
        self._damage = damage
        self._silence = silence
        self._crowds = crowds
        self._division = Division(ports)
        self._at_work = 0
        self._reader = MessageReader(SweepMessage, SWEEPS_QUEUE, ports.rejected)

    async def take(self, message_id: str, body: bytes) -> Report | None:
        """Go on with a shard; None when that was done already, or has to wait.

        Raises `TransientError`: the message comes again.
        """
        asked = await self._reader.read(message_id, body)
        if asked is None:
            return None
        if self._at_work >= _SHARDS_AT_ONCE:
            await self._division.send(asked, not_before=self._ports.clock.now() + _LATER)
            return None
        self._at_work += 1
        try:
            with sweep_span():
                return await self._go_on(asked)
        finally:
            self._at_work -= 1

    async def _go_on(self, asked: SweepMessage) -> Report | None:
        match asked.kind:
            case SweepKind.DUE:
                return await self._sweep(asked)
            case SweepKind.FULL:
                return await self._full.go_on(asked)
            case _:
                assert_never(asked.kind)

    async def _sweep(self, asked: SweepMessage) -> SweepReport | None:
        there = await self._division.round_of(asked.shard)
        is_same = there is not None and there.round == asked.round
        if there is not None and (there.round > asked.round or (is_same and there.done)):
            return None
        report = SweepReport()
        crowds = await self._crowds.begin_shard(asked, report)
        place, now = asked.place, self._ports.clock.now()
        async with report.bounded(_LONGEST):
            for _ in range(_PAGES):
                place = await self._due.page(asked.shard, place, now, report, crowds)
                if place is None:
                    break
        is_done = place is None and not report.unfinished
        async with report.bounded(_LONGEST_REST):
            await self._due.rest(report, crowds)
        await self._damage.report(report)
        await self._silence.report(report)
        found = summed([*(there.found if there and is_same else ()), *crowds.counted()])
        state = ShardRound(asked.round, self._ports.clock.now(), is_done, found)
        await self._ports.heartbeats.beat(Chore.SHARD_SWEEP, state.figures(), asked.shard)
        if not is_done:
            late = {each.behind: each.tasks for each in summed([*crowds.counted()])}
            late = {name: asked.late.get(name, 0) + late.get(name, 0) for name in asked.late | late}
            await self._division.send(asked.model_copy(update={"place": place, "late": late}))
        return report
