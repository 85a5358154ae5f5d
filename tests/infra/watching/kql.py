"""Reads what a query expects of the log: how lines begin, and which fields their JSON has."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[3] / "infra/queries"

_HEAD = re.compile(r'Message startswith "([^"]+)"')
_FACT = re.compile(r"\b(?:Facts|Figures)\.(\w+)")


@dataclass(frozen=True, slots=True)
class Query:
    """A query file. `head` is the start of each line that it reads, None when it reads none of our lines.

    `facts` are the JSON fields that it reads. `errors_only`: it reads only lines of Python's level ERROR.
    """

    text: str
    head: str | None
    facts: frozenset[str]
    errors_only: bool

    def gives(self, column: str) -> bool:
        """Return whether the query's last operator names a column."""
        return re.search(rf"\b{column}\b", self.text.rpartition("\n| ")[2]) is not None


def read_query(name: str) -> Query:
    """Read one query file by its name."""
    text = (FOLDER / f"{name}.kql").read_text(encoding="utf-8")
    head = _HEAD.search(text)
    return Query(
        text=text,
        head=head[1] if head else None,
        facts=frozenset(_FACT.findall(text)),
        errors_only="SeverityLevel == 3" in text,
    )


def query_names() -> list[str]:
    """Return the name of every query file."""
    return sorted(path.stem for path in FOLDER.glob("*.kql"))
