"""How long things took, in few numbers that can be added up: counts by length, each a fifth longer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Self

#: The longest of one bucket is so many times its shortest.
_GROWTH = 1.2
_LOG_GROWTH = math.log(_GROWTH)

#: Seconds: what took less is as if it took so much.
_SHORTEST = 0.001
#: What took longer than a year is as if it took a year.
_LAST = math.ceil(math.log(366 * 86_400 / _SHORTEST) / _LOG_GROWTH)

#: By how much what is read of it may be wrong, above the shortest: a bucket stands for its middle.
RELATIVE_ERROR = math.sqrt(_GROWTH) - 1


class Histogram:
    """Durations in seconds. What is added up of several is as if all had been recorded in one."""

    def __init__(self, buckets: Mapping[int, int] | None = None) -> None:
        self._buckets = Counter(buckets or {})

    def record(self, seconds: float) -> None:
        """Count a duration."""
        if seconds <= _SHORTEST:
            self._buckets[0] += 1
        else:
            self._buckets[min(_LAST, int(math.log(seconds / _SHORTEST) / _LOG_GROWTH))] += 1

    def add(self, other: Histogram) -> None:
        """Add what another has counted."""
        self._buckets.update(other._buckets)

    def quantile(self, part: float) -> float | None:
        """Give the duration that `part` of all did not exceed, within 10 %; None when there is none."""
        rank = math.ceil(part * self._buckets.total())
        for bucket, count in sorted(self._buckets.items()):
            rank -= count
            if rank <= 0:
                return float(_SHORTEST * _GROWTH ** (bucket + 0.5))
        return None

    @property
    def written(self) -> list[int]:
        """Write it: each bucket's number and count, one after another."""
        return [number for pair in sorted(self._buckets.items()) for number in pair]

    @classmethod
    def read(cls, written: list[int]) -> Self:
        """Read what `written` gave. Raises `ValueError` for anything else."""
        return cls(dict(_pairs(written)))

    def __len__(self) -> int:
        return self._buckets.total()


def _pairs(written: list[int]) -> Iterator[tuple[int, int]]:
    for bucket, count in zip(written[::2], written[1::2], strict=True):
        if not (0 <= bucket <= _LAST and count > 0):
            raise ValueError(f"no bucket {bucket} has {count}")
        yield bucket, count
