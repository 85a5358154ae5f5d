"""Reads what a query takes for granted of the log: how lines begin, and which facts their JSON holds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[3] / "infra/queries"

_HEAD = re.compile(r'Message startswith "([^"]+)"')
_CHANGE = re.compile(r'Change startswith "([^"]+)"')
_FACT = re.compile(r"\b(?:Facts|Figures)\.(\w+)")


@dataclass(frozen=True, slots=True)
class Query:
    """A query file. `head` begins each line that it reads, None when it reads no lines of ours.

    `changes` are the ways in which a breaker's line goes on; `facts` the names that it asks JSON for.
    """

    text: str
    head: str | None
    changes: tuple[str, ...]
    facts: frozenset[str]

    def gives(self, column: str) -> bool:
        """Tell whether the query's last operator names a column."""
        return re.search(rf"\b{column}\b", self.text.rpartition("\n| ")[2]) is not None


def read_query(name: str) -> Query:
    """Read one query file by its name."""
    text = (FOLDER / f"{name}.kql").read_text(encoding="utf-8")
    head = _HEAD.search(text)
    return Query(
        text=text,
        head=head[1] if head else None,
        changes=tuple(dict.fromkeys(_CHANGE.findall(text))),
        facts=frozenset(_FACT.findall(text)),
    )


def query_names() -> list[str]:
    """Name every query file."""
    return sorted(path.stem for path in FOLDER.glob("*.kql"))
