"""Tells every five minutes how far the event hub is taken: Azure measures that on dearer tiers only."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic import AwareDatetime, TypeAdapter, ValidationError

from functions.pattern.errors import TransientError
from functions.pattern.hub_positions import Gap, HubPositions, Lag, Sample, lag_of, waits_since
from functions.pattern.ports import Clock
from functions.pattern.shared_rows import Chore, Heartbeats, Occasion, Times
from functions.pattern.waiting import within

#: For how long the hub keeps events, as `infra/hubs.json` defines it.
HUB_RETENTION = timedelta(hours=168)
#: Seconds that a look may take: it asks each partition by itself.
_LONGEST = 120
#: Samples that are kept, over all of the hub's retention.
_MOST_SAMPLES = 24
#: The figure of the heartbeat that holds them.
_SAMPLES = "samples"
#: How often operators are told of the same partition's gap.
_TOLD_EVERY = timedelta(hours=1)

#: Its form.
_WRITTEN = TypeAdapter(list[tuple[AwareDatetime, dict[str, int]]])

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LagReport:
    """Logs a line for each partition, which alert rules read, and leaves figures for the overview."""

    hub: str
    positions: HubPositions
    clock: Clock
    heartbeats: Heartbeats
    times: Times
    alert: Callable[[Gap], Awaitable[None]]

    async def run(self) -> None:
        """Look at all partitions. Raises `TransientError`: then no line is logged, or no figures are left."""
        now = self.clock.now()
        partitions, checkpoints = await within(_LONGEST, self._look())
        lags = [lag_of(each, checkpoints.get(each.id)) for each in partitions]
        samples = await self._samples()
        used = [self._log(each, samples, now) for each in lags]
        await self._tell_gaps(lags, now)
        latest = Sample(now, {each.partition: each.last for each in lags})
        figures = {
            "hub": self.hub,
            "at": now,
            "waiting": sum(each.waiting for each in lags),
            "partitions": len(lags),
            "behind": sum(each.waiting > 0 for each in lags),
            "retention_used": max(used, default=0.0),
            _SAMPLES: _written(self._thinned([*samples, latest])),
        }
        await self.heartbeats.beat(Chore.INGESTION, figures)

    async def _look(self) -> tuple[Sequence[Any], Mapping[str, int]]:
        """Read the checkpoints first: what is taken meanwhile must not look like more than there is."""
        checkpoints = await self.positions.checkpoints()
        return await self.positions.partitions(), checkpoints

    async def _samples(self) -> list[Sample]:
        """Read what was sampled; without the state store, which may be why all stands still, nothing is."""
        try:
            return _read(await self.heartbeats.latest(Chore.INGESTION))
        except TransientError as fault:
            _log.warning("since when events wait is not known: %s", fault)
            return []

    def _log(self, lag: Lag, samples: Sequence[Sample], now: datetime) -> float:
        """Log a partition's line; give the part of the retention for which its oldest event waits."""
        since = waits_since(lag, samples)
        used = 0.0 if since is None else (now - since) / HUB_RETENTION
        facts = {
            "hub": self.hub,
            "partition": lag.partition,
            "checkpoint": lag.checkpoint,
            "waiting": lag.waiting,
            "retention_used": round(used, 3),
        }
        _log.info("hub lag %s", json.dumps(facts))
        return used

    async def _tell_gaps(self, lags: Sequence[Lag], now: datetime) -> None:
        for gap in (each.gap for each in lags if each.gap is not None):
            try:
                tell = await self.times.note(Occasion.DROPPED, gap.partition, now, _TOLD_EVERY)
            except TransientError as fault:
                _log.warning("partition %s: operators may be told again: %s", gap.partition, fault)
                tell = True
            if tell:
                await self.alert(gap)

    def _thinned(self, samples: Sequence[Sample]) -> list[Sample]:
        """Keep the latest, and of those before no more than fit, evenly over the retention."""
        apart, kept = HUB_RETENTION / (_MOST_SAMPLES - 2), list[Sample]()
        for each in samples[:-1]:
            if samples[-1].at - each.at <= HUB_RETENTION and (not kept or each.at - kept[-1].at >= apart):
                kept.append(each)
        return [*kept, samples[-1]]


def _written(samples: Sequence[Sample]) -> str:
    return json.dumps([[each.at.isoformat(), each.last] for each in samples])


def _read(figures: Mapping[str, Any] | None) -> list[Sample]:
    """Read what was sampled; what is damaged is as good as none."""
    try:
        return [Sample(at, last) for at, last in _WRITTEN.validate_json((figures or {}).get(_SAMPLES, "[]"))]
    except (ValidationError, TypeError):
        return []
