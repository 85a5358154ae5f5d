"""Which tasks a list has: judged first by what an index tells of them, then by their records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from functions.operations.tasks.query import Cursor, Filter, ListQuery, Sorting, Source
from functions.pattern.error_class import class_of_task, error_class, stands_at
from functions.pattern.records import TaskRecord
from functions.pattern.search_keys import search_key
from functions.pattern.states import ProcessState
from functions.pattern.store_ports import Index, IndexEntry

#: How far another host's clock can be ahead of ours: the most that settings allow.
CLOCK_SKEW = timedelta(minutes=5)

_INDEX = {
    ProcessState.PENDING: Index.DUE,
    ProcessState.PROCESSING: Index.DUE,
    ProcessState.ERROR: Index.ERROR,
    ProcessState.PROCESSED: Index.DONE,
    ProcessState.COMPENSATED: Index.DONE,
}

#: Nothing in them has ended: their tasks are listed by when they were submitted.
UNDER_WAY = frozenset({Index.DUE, Index.PARKED})


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which tasks a list has, as of `now`: those that the query asks for, after `place`."""

    query: ListQuery
    now: datetime
    place: Cursor | None
    source: Source

    @property
    def indexes(self) -> tuple[Index, ...]:
        """Name the indexes that have them."""
        state = self.query.listed_state
        if self.query.parked:
            return (Index.PARKED,)
        if self.query.under_way:
            return (Index.DUE,)
        return tuple(Index) if state is None else (_INDEX[state],)

    def bounds(self) -> tuple[datetime | None, datetime]:
        """Give the times between which they lie in the source, the second excluded."""
        since, until = None, self.now + CLOCK_SKEW
        if self.source is Source.TIME:
            if self.query.min_age is not None:
                until = self.now - _seconds(self.query.min_age)
            if self.query.max_age is not None:
                since = self.now - _seconds(self.query.max_age)
        if self.place is not None and self.query.order is Sorting.NEWEST:
            until = min(until, self.place.at)
        return since, until + timedelta.resolution

    def of(self, entries: Iterable[IndexEntry]) -> list[IndexEntry]:
        """Choose the entries that may be wanted, in the list's order."""
        return sorted(filter(self.may_take, entries), key=self.rank)

    def rank(self, at: IndexEntry | Cursor) -> tuple[timedelta, str]:
        """Tell where something stands in the list; what ended at the same moment is ordered by its id."""
        since_epoch = at.at - datetime.fromtimestamp(0, UTC)
        return since_epoch if self.query.order is Sorting.OLDEST else -since_epoch, at.task

    def cursor(self, entry: IndexEntry) -> Cursor:
        """Name the place of an entry."""
        state, order = self.query.listed_state, self.query.order
        return Cursor(state=state, sorting=order, source=self.source, at=entry.at, task=entry.task)

    def may_take(self, entry: IndexEntry) -> bool:
        """Judge by what the entry tells; its task may be in another state than an entry of `!due`."""
        query, by_time = self.query, self.source is Source.TIME
        age = self.now - entry.at
        return (
            (entry.state in _LOOSE or query.listed_state in {None, entry.state})
            and query.workflow in {None, entry.workflow}
            and query.version in {None, entry.version}
            and entry.task.startswith(query.prefix or "")
            and query.submitter in {None, entry.submitter}
            and query.correlation_id in {None, entry.correlation_id}
            and (entry.error is None or self._has_cause(entry))
            and (not by_time or query.max_age is None or age <= _seconds(query.max_age))
            and (not by_time or query.min_age is None or age >= _seconds(query.min_age))
            and (self.place is None or self.rank(entry) > self.rank(self.place))
        )

    def _has_cause(self, entry: IndexEntry) -> bool:
        query = self.query
        is_of_class = query.error is None or error_class(query.error) == entry.error
        return is_of_class and query.step in {None, entry.step}


#: What an index tells of a task under way may be older than its state; other rows tell no state.
_LOOSE = frozenset({None, ProcessState.PENDING, ProcessState.PROCESSING})


def accepts(query: Filter, record: TaskRecord, now: datetime) -> bool:
    """Tell whether a task is what the query asks for."""
    task, order = record.task, record.order
    age = now - (task.finished_at or order.submitted_at)
    return (
        query.listed_state in {None, task.process_state}
        and (task.is_parked or not query.parked)
        and (not query.under_way or (task.finished_at is None and not task.is_parked))
        and query.workflow in {None, order.workflow}
        and query.version in {None, order.workflow_version}
        and query.submitter in {None, order.submitter}
        and query.correlation_id in {None, order.correlation_id}
        and (query.find is None or search_key(query.find) in order.search_keys)
        and (query.step is None or stands_at(record, query.step))
        and (query.error is None or error_class(query.error) == class_of_task(record))
        and (query.max_age is None or age <= _seconds(query.max_age))
        and (query.min_age is None or age >= _seconds(query.min_age))
    )


def _seconds(number: float) -> timedelta:
    return timedelta(seconds=number)
