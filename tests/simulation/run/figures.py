"""What is kept of one seed's run: a line of JSON, so that a long run can be taken up again."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

_VERDICTS = "verdicts.jsonl"
_CHANGED = "+changed"


class What(StrEnum):
    """What a number stands for: runs of different kinds may be kept in one folder."""

    #: Drawn workflows and orders, with the faults that are drawn.
    SEEDS = "seeds"
    #: The same without faults.
    CALM = "calm seeds"
    #: Two faults on a path of a sample workflow.
    PAIRS = "pairs"


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
    what: What = What.SEEDS
    #: What was run; empty when nobody knows. A tree with changes says so.
    commit: str = ""


class KeptFigures:
    """A folder with the figures of runs; they are kept as such of `what` is run."""

    def __init__(self, folder: Path, what: What = What.SEEDS) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / _VERDICTS
        self._what = what
        self._commit = _commit()

    def read(self) -> Iterator[Figures]:
        """Read what is kept, of each run and commit once; a line that was cut off is passed over."""
        kept: dict[tuple[What, int, str], Figures] = {}
        if self._path.exists():
            for line in self._path.read_text(encoding="utf-8").splitlines():
                with suppress(ValidationError):  # its process was killed in the midst of it
                    figures = Figures.model_validate_json(line)
                    kept[figures.what, figures.seed, figures.commit] = figures
        yield from kept.values()

    def known(self) -> Mapping[int, Figures]:
        """Give those that need not be run again: what other code has violated is."""
        same = (each for each in self.read() if each.what is self._what)
        return {each.seed: each for each in same if not each.violations or self._is_ours(each.commit)}

    def _is_ours(self, commit: str) -> bool:
        """Tell whether a commit is what runs now; nobody knows of a tree with changes."""
        return commit == self._commit and not commit.endswith(_CHANGED)

    def keep(self, figures: Figures) -> None:
        """Add those of one seed, on a line of its own whatever was cut off before."""
        with self._path.open("a", encoding="utf-8") as file:
            line = figures.model_copy(update={"commit": self._commit, "what": self._what}).model_dump_json()
            file.write(f"\n{line}\n")


def _commit() -> str:
    """Name the commit that is run; nothing outside of a repository."""
    git = ["git", "describe", "--always", "--exclude=*", "--abbrev=8", f"--dirty={_CHANGED}"]
    run = subprocess.run(git, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return run.stdout.strip()
