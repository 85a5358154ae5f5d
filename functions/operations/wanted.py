"""Which tasks a list is of: what an operator asks for, judged by index entries alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from functions.operations.cursor import Cursor, Sorting
from functions.pattern.identity import TaskId
from functions.pattern.states import ProcessState
from functions.pattern.store_ports import Index, IndexEntry

#: No entry is older.
_BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)

#: How far ahead tasks can be due: the longest limits of the settings are a day each.
_AHEAD = timedelta(days=3)

#: How far ahead of ours another host's clock can be: the most that settings allow.
_SKEW = timedelta(minutes=5)

#: Times in keys are no finer.
_MOMENT = timedelta(microseconds=1)

_INDEX = {
    ProcessState.PENDING: Index.DUE,
    ProcessState.PROCESSING: Index.DUE,
    ProcessState.ERROR: Index.ERROR,
    ProcessState.PROCESSED: Index.DONE,
    ProcessState.COMPENSATED: Index.DONE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which entries a list is of. Ages are counted since the time in the index.

    That is when a task ended; of a task under way, of which the index has the time when it is due, it is
    when it was submitted.
    """

    state: ProcessState
    sorting: Sorting
    workflow: str | None = None
    min_age: timedelta | None = None
    max_age: timedelta | None = None

    @property
    def index(self) -> Index:
        """Name the index that has them."""
        return _INDEX[self.state]

    def takes(self, entry: IndexEntry, now: datetime) -> bool:
        """Tell whether an entry belongs into the list; one of `!due` may be older than its task's state."""
        if self.index is not Index.DUE and entry.state is not self.state:
            return False
        return self.workflow in {None, entry.workflow} and self._is_of_age(entry, now)

    def bounds(self, now: datetime) -> tuple[datetime, datetime]:
        """Give the times between which entries can be, the second excluded."""
        if self.index is Index.DUE:
            return _BEGINNING, now + _AHEAD
        first = _BEGINNING if self.max_age is None else now - self.max_age
        return first, now + _SKEW if self.min_age is None else now - self.min_age + _MOMENT

    def place(self, at: datetime, task: TaskId | None = None) -> Cursor:
        """Name a place in the list."""
        return Cursor(state=self.state, sorting=self.sorting, at=at, task=task)

    def _is_of_age(self, entry: IndexEntry, now: datetime) -> bool:
        age = now - (began_at(entry) if self.index is Index.DUE else entry.at)
        young_enough = self.max_age is None or age <= self.max_age
        return young_enough and (self.min_age is None or age >= self.min_age)


def began_at(entry: IndexEntry) -> datetime:
    """Tell when a task under way was submitted; of one in an older row, when it is due."""
    return entry.submitted_at or entry.at
