"""Divides a sweep: what the timer's has no time for goes on shard by shard, wherever there is an instance.

The queue `sweeps` has a message for each of these shards. While nothing is left, there is no message, and
nothing is read or written for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic import TypeAdapter, ValidationError

from functions.pattern.known_crowds import Crowd
from functions.pattern.messages import SWEEPS_QUEUE, SweepKind, SweepMessage
from functions.pattern.ports import Ports
from functions.pattern.rejected import Content, Labels
from functions.pattern.shared_rows import Chore
from functions.pattern.times import ZonedTime
from functions.supervisor.course import Course
from functions.supervisor.crowds import read_crowds, written_crowds
from functions.supervisor.sweeping import SweepReport

#: The figure of the heartbeat that holds the shards that were handed over, with their rounds, as JSON.
_HANDED = "handed"
#: Its form.
_ROUNDS = TypeAdapter(dict[int, ZonedTime])
#: Longer than a message is worked on, with the lock of one whose host was killed.
_LOST_AFTER = timedelta(minutes=6)


@dataclass(frozen=True, slots=True)
class ShardRound:
    """How far one shard's part of a divided sweep has come at that time (UTC); `found` may be crowds."""

    round: datetime
    at: datetime
    done: bool
    found: tuple[Crowd, ...]

    def figures(self) -> Mapping[str, Any]:
        """Write it as figures of a sweep."""
        return {"round": self.round, "at": self.at, "done": self.done, **written_crowds(self.found)}


@dataclass(frozen=True, slots=True)
class HandedOver:
    """The `rounds` by shard that go on elsewhere, and what was `found` in those that have ended."""

    rounds: Mapping[int, datetime]
    found: tuple[Crowd, ...] = ()

    def figures(self) -> dict[str, str]:
        """Give the rounds, for the heartbeat."""
        return {_HANDED: json.dumps({shard: at.isoformat() for shard, at in self.rounds.items()})}


class Division:
    """Gives shards to whoever takes their messages."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    async def look(self, latest: Mapping[str, Any] | None, report: SweepReport) -> HandedOver:
        """Tell what goes on elsewhere; of what has not been heard for long, nothing is expected any more."""
        rounds, found, now = dict[int, datetime](), list[Crowd](), self._ports.clock.now()
        for shard, began in _handed_by(latest).items():
            rounds[shard] = began
            with report.surviving(f"shard {shard}: its sweep elsewhere"):
                there = await self.round_of(shard)
                if there is None or there.round < began:
                    is_over = now >= began + _LOST_AFTER
                else:
                    is_over = there.done or now >= there.at + _LOST_AFTER
                    found += there.found if is_over else ()
                if is_over:
                    del rounds[shard]
        return HandedOver(rounds, tuple(found))

    async def give(
        self,
        course: Course,
        handed: HandedOver,
        counted: Sequence[Crowd],
        began: datetime,
        report: SweepReport,
    ) -> HandedOver:
        """Hand over what is left of a sweep, unless it is already; what can't be is left to the next one."""
        rounds, left = dict(handed.rounds), course.left
        late = {each.behind: each.tasks for each in counted}
        for shard, place in left.items():
            with report.surviving(f"shard {shard}: to be swept elsewhere"):
                if shard not in rounds:
                    message = SweepMessage(
                        kind=SweepKind.DUE,
                        shard=shard,
                        round=began,
                        place=place,
                        late=late,
                        abreast=len(left),
                    )
                    await self.send(message)
                    rounds[shard] = began
                course.hand_over(shard)
        return HandedOver(rounds)

    async def send(self, message: SweepMessage, not_before: datetime | None = None) -> None:
        """Put a message on the queue, to be taken not before that time (UTC). Raises `TransientError`."""
        body = message.model_dump_json().encode()
        message_id = f"{message.kind}.{message.shard}.{self._ports.new_id()}"
        content = Content(body=body, labels=Labels(subject=message.kind))
        await self._ports.postbox.put(SWEEPS_QUEUE, message_id, content, not_before=not_before)

    async def round_of(self, shard: int) -> ShardRound | None:
        """Read how far a shard's latest round has come, if that can be read. Raises `TransientError`."""
        row = await self._ports.heartbeats.latest(Chore.SHARD_SWEEP, shard) or {}
        began, at = row.get("round"), row.get("at")
        if not (isinstance(began, datetime) and isinstance(at, datetime)):
            return None
        return ShardRound(began, at, row.get("done") is True, read_crowds(row))


def _handed_by(latest: Mapping[str, Any] | None) -> dict[int, datetime]:
    """Read which shards a sweep has handed over; of one whose heartbeat can't be read, none."""
    try:
        return _ROUNDS.validate_json((latest or {}).get(_HANDED, "{}"))
    except (ValidationError, TypeError):
        return {}
