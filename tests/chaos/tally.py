"""How often each kind of fault really happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tests.chaos.faults import FaultKind


class Tally:
    """Counts faults; one that was tried and met nobody does not count."""

    def __init__(self) -> None:
        self._counts: Counter[FaultKind] = Counter()

    def add(self, kind: FaultKind, times: int = 1) -> None:
        """Count a fault that happened so many times."""
        self._counts[kind] += times

    def has(self, kind: FaultKind) -> bool:
        """Tell whether a fault of this kind has happened."""
        return self._counts[kind] > 0

    @property
    def counts(self) -> Mapping[FaultKind, int]:
        """Give all kinds with their counts, 0 for those that never happened."""
        return {kind: self._counts[kind] for kind in FaultKind}
