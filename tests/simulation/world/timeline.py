"""What happened, in order: by it a run is told, and two runs are compared."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Moment:
    """One thing that happened, `at` a virtual time in seconds, to or by a host (or a service)."""

    at: float
    who: str
    what: str

    def __str__(self) -> str:
        return f"{self.at:12.3f}  {self.who:<10} {self.what}"


class Timeline:
    """Keeps every moment, and counts the kinds of faults."""

    def __init__(self) -> None:
        self.moments: list[Moment] = []
        self.faults: Counter[str] = Counter()
        #: Kinds of faults that were drawn, and had an effect.
        self.kinds: set[str] = set()

    def add(self, at: float, who: str, what: str) -> None:
        """Add a moment."""
        self.moments.append(Moment(at, who, what))

    def about(self, *texts: str) -> Iterator[Moment]:
        """Give the moments whose text names any of these, and what befell whole hosts."""
        for moment in self.moments:
            if moment.what.startswith("**") or any(text in moment.what for text in texts):
                yield moment

    @property
    def digest(self) -> str:
        """Give a short text that differs when anything did."""
        told = "\n".join(map(str, self.moments))
        return hashlib.sha256(told.encode()).hexdigest()[:16]
