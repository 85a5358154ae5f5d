"""What is kept of one seed's run: a line of JSON, so that a long run can be taken up again."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict

_VERDICTS = "verdicts.jsonl"


class Figures(BaseModel):
    """The figures of one run; `seconds` are virtual, and `kinds` are of faults that had an effect."""

    model_config = ConfigDict(frozen=True)

    seed: int
    violations: tuple[str, ...]
    digest: str
    outcomes: dict[str, int]
    faults: dict[str, int]
    kinds: frozenset[str]
    seconds: float
    cpu: float
    widest: int
    deepest: int
    #: What was run; empty when nobody knows.
    commit: str = ""


class KeptFigures:
    """A folder with the figures of seeds."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / _VERDICTS
        self._commit = _commit()

    def read(self) -> Iterator[Figures]:
        """Read what is kept; a line that was cut off by the end of its process is passed over."""
        if self._path.exists():
            for line in self._path.read_text(encoding="utf-8").splitlines():
                if line.endswith("}"):
                    yield Figures.model_validate_json(line)

    def keep(self, figures: Figures) -> None:
        """Add those of one seed."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(figures.model_copy(update={"commit": self._commit}).model_dump_json() + "\n")


def _commit() -> str:
    """Name the commit that is run; nothing outside of a repository."""
    git = ["git", "rev-parse", "--short=8", "HEAD"]
    run = subprocess.run(git, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return run.stdout.strip()
