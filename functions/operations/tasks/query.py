"""What a list of tasks is asked for by, and the cursor by which its pages follow each other."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from http import HTTPStatus
from typing import Annotated, Any

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
)

from functions.pattern.definition import NAME_PATTERN, STEP_PATTERN
from functions.pattern.error_class import MAX_CLASS_BYTES, class_of_task, error_class, stands_at
from functions.pattern.identity import TASK_ID_PATTERN, StepName, step_of
from functions.pattern.numbers import PLAIN_NUMBER
from functions.pattern.records import TaskRecord
from functions.pattern.search_keys import MAX_TEXT_CHARACTERS, search_key
from functions.pattern.states import ProcessState
from functions.pattern.store_ports import Index, IndexEntry
from functions.web.problems import FieldFault, ProblemError

_Age = Annotated[float, PLAIN_NUMBER, Field(ge=0, le=315_360_000)]  # ten years

WorkflowName = Annotated[str, Field(pattern=f"^{NAME_PATTERN}$")]
Version = Annotated[int, PLAIN_NUMBER, Field(ge=1, description="The workflow's")]


def _not_of_one_item(given: object) -> object:
    """Refuse a step's name with an item's number, which stands on the task's page: no index tells items."""
    if isinstance(given, str) and re.fullmatch(STEP_PATTERN, given) and "." in given:
        raise ValueError(f"name the step without the item's number: {step_of(StepName(given))}")
    return given


_Step = Annotated[StepName, BeforeValidator(_not_of_one_item), Field(pattern=f"^{NAME_PATTERN}$")]


# Together they have room in an address of 8 KiB, whatever they hold.
def _text(most: int, description: str) -> Any:
    return Field(min_length=1, max_length=most, description=description)


class Sorting(StrEnum):
    """Which way a list goes through time."""

    NEWEST = "newest"
    OLDEST = "oldest"


class Source(StrEnum):
    """Where a list comes from, and by which time it goes."""

    #: The indexes of tasks by their states: when they ended or, under way, were submitted.
    TIME = "time"
    #: The tasks whose ids have a prefix: when they were submitted.
    NAME = "name"
    #: The tasks that are found by one text: when they were submitted.
    TEXT = "text"


class Cursor(BaseModel):
    """The place of the last entry that was looked at, in one list; callers get it as a text."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    state: ProcessState | None
    sorting: Sorting
    source: Source = Source.TIME
    at: AwareDatetime
    task: Annotated[str, Field(pattern=TASK_ID_PATTERN)]

    def text(self) -> str:
        """Write the cursor so that it fits into a URL."""
        return urlsafe_b64encode(self.model_dump_json().encode()).decode().rstrip("=")


class Filter(BaseModel):
    """Tasks of one state, `Error` unless another is named, or those that are `parked`, or `under_way`.

    Those that are sought by id, text, submitter or correlation id may be in any state unless one is named.
    Ages are in seconds: since the task ended or, under way, since it was submitted.
    """

    model_config = ConfigDict(extra="forbid")

    state: ProcessState | None = None
    parked: bool = False
    under_way: Annotated[bool, Field(description="`Pending` or `Processing`, and not parked")] = False
    workflow: WorkflowName | None = None
    version: Version | None = None
    step: Annotated[
        _Step | None,
        Field(description="The step at which it failed, or is: in `Error`, that of its last error"),
    ] = None
    error: Annotated[
        str | None, _text(MAX_CLASS_BYTES, "Another error of the same class as its last error")
    ] = None
    submitter: Annotated[str | None, _text(100, "Who submitted it")] = None
    correlation_id: Annotated[str | None, _text(128, "As its caller gave it")] = None
    find: Annotated[
        str | None, _text(MAX_TEXT_CHARACTERS, "One of the texts that its workflow's `find_by` gives of it")
    ] = None
    min_age: _Age | None = None
    max_age: _Age | None = None
    prefix: Annotated[str | None, Field(pattern="^[A-Za-z0-9_-]{1,64}$")] = None

    # Of two that no task is at once, one would be passed over, and an action done to tasks not meant.
    @field_validator("parked")
    @classmethod
    def _is_pending(cls, parked: bool, others: ValidationInfo) -> bool:  # noqa: FBT001 - pydantic's signature
        if parked and others.data.get("state") not in {None, ProcessState.PENDING}:
            raise ValueError(f"a parked task is Pending, and not {others.data['state']}")
        return parked

    @field_validator("under_way")
    @classmethod
    def _is_neither_parked_nor_over(cls, under_way: bool, others: ValidationInfo) -> bool:  # noqa: FBT001
        over = {ProcessState.ERROR, ProcessState.PROCESSED, ProcessState.COMPENSATED}
        if under_way and (others.data.get("parked") or others.data.get("state") in over):
            raise ValueError("what is parked, in Error or has ended is not under way")
        return under_way

    @property
    def listed_state(self) -> ProcessState | None:
        """Give the state whose tasks are listed; None for any."""
        if self.parked:
            return ProcessState.PENDING
        return self.state or (None if self._is_sought or self.under_way else ProcessState.ERROR)

    @property
    def looks_into_tasks(self) -> bool:
        """Tell whether only the tasks may tell which of them are meant."""
        return self._is_sought or self.step is not None or self.error is not None

    @property
    def _is_sought(self) -> bool:
        asked = (self.prefix, self.find, self.submitter, self.correlation_id)
        return any(each is not None for each in asked)

    @property
    def sources(self) -> tuple[Source, ...]:
        """Give where the tasks may be looked for, the best first."""
        if self.find is not None:
            return (Source.TEXT,)
        return (Source.TIME,) if self.prefix is None else (Source.NAME, Source.TIME)


class ListQuery(Filter):
    """Tasks in the order of time."""

    order: Sorting = Sorting.NEWEST
    cursor: Annotated[
        str | None, Field(pattern="^[A-Za-z0-9_-]{1,512}={0,2}$", description="From the page before")
    ] = None

    def place(self) -> Cursor | None:
        """Tell after which entry the page begins. Raises `ProblemError` 422 for another list's cursor."""
        if self.cursor is None:
            return None
        with suppress(ValueError):
            json = urlsafe_b64decode(self.cursor + "=" * (-len(self.cursor) % 4))
            cursor = Cursor.model_validate_json(json)
            of_this_list = (cursor.state, cursor.sorting) == (self.listed_state, self.order)
            if of_this_list and cursor.source in self.sources and cursor.at.utcoffset() == timedelta(0):
                return cursor
        raise wrong_field("cursor", "not a cursor of this list")


def wrong_field(field: str, reason: str) -> ProblemError:
    """Make the refusal of what is asked for: 422."""
    fault = FieldFault(field=field, reason=reason)
    return ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, "Some fields are wrong.", errors=[fault])


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
