"""What the full sweep needs of the state store: the rows as they lie there, and their repair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from functions.pattern.errors import UnreadableError
from functions.pattern.identity import TaskId
from functions.pattern.store_ports import Stored


@dataclass(frozen=True, slots=True)
class IndexRow:
    """An index row as it was seen: its key, and the version that guards its removal (an ETag).

    One that is `damaged` has the right key or not, but can't be read.
    """

    task: TaskId
    key: str
    version: str
    damaged: bool = False


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task as it was seen, and the key of the one index row that it must have."""

    task: TaskId
    index_key: str


@dataclass(frozen=True, slots=True)
class RowPage[RowT]:
    """Some rows of one shard, and where the next page begins (None: there is none)."""

    rows: tuple[RowT, ...]
    continuation: str | None
    unreadable: tuple[UnreadableError, ...] = ()


def row_order(task: TaskId) -> str:
    """Give what sorts tasks as their rows lie: an id comes after those that only begin with it."""
    return f"{task}|"


@dataclass(frozen=True, slots=True)
class IndexFix:
    """How many index rows were created and deleted."""

    created: int = 0
    deleted: int = 0


class IndexRows(Protocol):
    """The rows of all tasks and of the indexes over them. Its methods raise `TransientError`."""

    async def indexed(self, shard: int, *, after: str | None, most: int) -> RowPage[IndexRow]:
        """Read a page of a shard's index rows."""

    async def tasks(
        self, shard: int, *, beyond: TaskId | None, after: str | None, most: int
    ) -> RowPage[TaskRow]:
        """Read a page of a shard's tasks, in the order of their rows; of those beyond one, or of all."""

    async def fix(self, stored: Stored, seen: Sequence[IndexRow]) -> IndexFix | None:
        """Delete the wrong ones of some index rows of a task, and create the right one if it is not there.

        Nothing is done, and None given, unless the task is still as it was read. Raises `UnwritableError`.
        """

    async def remove(self, orphan: IndexRow) -> IndexFix:
        """Delete an index row without a task, if it is still as it was seen."""
