"""Which seed catches a planted bug first, and by which invariants: kept, so that a test need not search."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_KEPT = Path(__file__).parent / "caught.txt"
_HEAD = "# Bug, a seed that catches it, and the invariants that see it in that seed."
_SEED = re.compile(r"^seed (\d+) \(", re.MULTILINE)
_INVARIANT = re.compile(r"^  (I\d+) ", re.MULTILINE)


@dataclass(frozen=True, slots=True, order=True)
class Caught:
    """A bug, and what has caught it."""

    bug: str
    seed: int
    invariants: tuple[str, ...]

    @classmethod
    def told(cls, bug: str, output: str) -> Self | None:
        """Read what a run that stopped at the first violation has printed; None if nothing is violated."""
        seed = _SEED.search(output)
        found = sorted(set(_INVARIANT.findall(output)), key=lambda each: int(each[1:]))
        return cls(bug, int(seed[1]), tuple(found)) if seed and found else None

    def __str__(self) -> str:
        return f"{self.bug:<34} {self.seed:>5}  {' '.join(self.invariants)}"


def kept() -> dict[str, Caught]:
    """Read what is kept."""
    lines = _KEPT.read_text(encoding="utf-8").splitlines() if _KEPT.exists() else []
    words = [line.split() for line in lines if line and not line.startswith("#")]
    return {bug: Caught(bug, int(seed), tuple(found)) for bug, seed, *found in words}


def keep(every: Iterable[Caught]) -> None:
    """Keep these."""
    lines = [_HEAD, *map(str, sorted(every))]
    _KEPT.write_text("\n".join(lines) + "\n", encoding="utf-8")
