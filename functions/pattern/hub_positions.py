"""How far an event hub's readers are: what it holds of each partition, and what is taken of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class HubPartition:
    """A partition keeps the events from sequence number `begin` to `last` (-1: there never was one)."""

    id: str
    begin: int
    last: int


class HubPositions(Protocol):
    """Tells the positions of one hub and consumer group. Its methods raise `TransientError`."""

    async def partitions(self) -> Sequence[HubPartition]:
        """Ask the hub what each partition keeps."""

    async def checkpoints(self) -> Mapping[str, int]:
        """Read the number of the last event that was taken, of each partition that has a checkpoint."""

    async def checkpoint(self, partition: str) -> int | None:
        """Read that of one partition; None when nothing was taken yet."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Events that the hub dropped before they were taken: from `first` to `last`, both included."""

    partition: str
    first: int
    last: int

    @property
    def count(self) -> int:
        """Tell how many they are."""
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Lag:
    """What is left to take of a partition: `waiting` events after its `checkpoint` (None: none was taken)."""

    partition: str
    checkpoint: int | None
    last: int
    waiting: int
    gap: Gap | None

    @property
    def is_of_another_hub(self) -> bool:
        """Tell whether the checkpoint lies beyond the end: the hub was made anew, and is not read at all."""
        return self.checkpoint is not None and self.checkpoint > self.last


def lag_of(partition: HubPartition, checkpoint: int | None) -> Lag:
    """Compare what a partition keeps with what was taken of it: of a hub that was made anew, nothing."""
    is_known = checkpoint is not None and checkpoint <= partition.last
    following = checkpoint + 1 if checkpoint is not None and is_known else partition.begin
    gap = Gap(partition.id, following, partition.begin - 1) if following < partition.begin else None
    waiting = max(0, partition.last - max(following, partition.begin) + 1)
    return Lag(partition.id, checkpoint, partition.last, waiting, gap)


@dataclass(frozen=True, slots=True)
class Sample:
    """The number of each partition's last event, by its id, as it was at a time (UTC)."""

    at: datetime
    last: Mapping[str, int]


def waits_since(lag: Lag, samples: Sequence[Sample]) -> datetime | None:
    """Tell since when the oldest event waits at the longest; `samples` are by time, the oldest first.

    The hub says when its last event came, not when any other did. So this is the time of the latest sample
    that does not have the event yet, or of the first there is. None when nothing waits.
    """
    lasts = [(each.at, each.last.get(lag.partition, -1)) for each in samples]
    of_this_hub = [(at, last) for at, last in lasts if last <= lag.last]
    if not lag.waiting or not of_this_hub:
        return None
    taken = -1 if lag.checkpoint is None or lag.is_of_another_hub else lag.checkpoint
    before = [at for at, last in of_this_hub if last <= taken]
    return before[-1] if before else of_this_hub[0][0]
