"""What happened, in order: by it a run is told, and two runs are compared."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterator
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

    def naming(self, tasks: Collection[str]) -> Iterator[Moment]:
        """Give the moments whose text names any of these tasks."""
        any_of_them = "|".join(map(re.escape, sorted(tasks)))
        named = re.compile(rf"(?<![\w-])(?:{any_of_them})(?![\w-])")
        return (moment for moment in self.moments if named.search(moment.what))

    def about(self, tasks: Collection[str]) -> Iterator[Moment]:
        """Give these, and what befell whole hosts."""
        named = {id(moment) for moment in self.naming(tasks)}
        return (each for each in self.moments if each.what.startswith("**") or id(each) in named)

    @property
    def digest(self) -> str:
        """Give a short text that differs when anything did."""
        told = "\n".join(map(str, self.moments))
        return hashlib.sha256(told.encode()).hexdigest()[:16]
