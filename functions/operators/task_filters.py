"""The filters of lists, counts and bulk actions of tasks, and the cursor of a list. Ages are in seconds."""

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
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
)

from functions.core.derive import ProcessState, derive
from functions.core.record import NAME_PATTERN, OperationState, Order, TaskRecord
from functions.messaging.message_format import TASK_ID_PATTERN, UtcTime
from functions.messaging.order_search import MOST_SEARCH_CHARACTERS
from functions.storage.index_pages import ListedTask
from functions.storage.row_keys import TaskIndex
from functions.telemetry.error_causes import MOST_CLASS_BYTES, error_class, failed_step
from functions.web.plain_numbers import PLAIN_NUMBER
from functions.web.problems import FieldFault, ProblemError

#: The name of a step, or of an item of a for-each step.
STEP_PATTERN = rf"^{NAME_PATTERN}(\.\d{{1,2}})?$"
#: The largest difference between the clocks of two instances that lists allow for.
CLOCK_SKEW = timedelta(minutes=5)


def wrong_field(field: str, reason: str) -> ProblemError:
    """Return the problem of a request with a wrong field: 422."""
    fault = FieldFault(field=field, reason=reason)
    return ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, "Some fields are wrong.", errors=[fault])


WorkflowName = Annotated[str, Field(pattern=f"^{NAME_PATTERN}$")]
Version = Annotated[int, PLAIN_NUMBER, Field(ge=1, description="The version of the workflow")]
_Age = Annotated[float, PLAIN_NUMBER, Field(ge=0, le=315_360_000, allow_inf_nan=False)]  # ten years


def _without_item(given: object) -> object:
    """Reject the name of an item, which no index contains."""
    if isinstance(given, str) and "." in given and re.fullmatch(STEP_PATTERN, given):
        raise ValueError(f"name the step without the number of the item: {given.partition('.')[0]}")
    return given


_Step = Annotated[str, BeforeValidator(_without_item), Field(pattern=f"^{NAME_PATTERN}$")]


def _text(most: int, description: str) -> Any:
    return Field(min_length=1, max_length=most, description=description)


class Sorting(StrEnum):
    """The direction of a list in time."""

    NEWEST = "newest"
    OLDEST = "oldest"


class Source(StrEnum):
    """The rows that a list reads, and the time by which it is sorted."""

    #: The indexes by state: the end of a task, or the submission of a task under way.
    TIME = "time"
    #: The orders whose ids have a prefix: the submission.
    NAME = "name"
    #: The index of a search text: the submission.
    TEXT = "text"


class ListCursor(BaseModel):
    """The place of the last entry of a page in one list."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    state: ProcessState | None
    sorting: Sorting
    source: Source = Source.TIME
    at: UtcTime
    task: Annotated[str, Field(pattern=TASK_ID_PATTERN)]


_ENDED = frozenset({ProcessState.ERROR, ProcessState.PROCESSED, ProcessState.COMPENSATED})


class TaskFilter(BaseModel):
    """Tasks of one state (by default `Error`), or those that are `suspended` or `under_way`.

    With a prefix, search text, submitter or correlation id, the default is any state. Ages are in seconds
    since the end of a task, or since the submission of a task under way.
    """

    model_config = ConfigDict(extra="forbid")

    state: ProcessState | None = None
    suspended: bool = False
    under_way: Annotated[bool, Field(description="`Pending` or `Processing`, and not suspended")] = False
    workflow: WorkflowName | None = None
    version: Version | None = None
    step: Annotated[_Step | None, Field(description="The failed step, or a step that is under way")] = None
    error: Annotated[
        str | None, _text(MOST_CLASS_BYTES, "An error text of the same class as the task's error")
    ] = None
    submitter: Annotated[str | None, _text(100, "The caller who submitted the order")] = None
    correlation_id: Annotated[str | None, _text(128, "The correlation id of the caller")] = None
    find: Annotated[str | None, _text(MOST_SEARCH_CHARACTERS, "A search text of the order")] = None
    min_age: _Age | None = None
    max_age: _Age | None = None
    prefix: Annotated[str | None, Field(pattern=TASK_ID_PATTERN)] = None

    # A contradiction is rejected: if one part were ignored, an action would reach other tasks.
    @field_validator("suspended")
    @classmethod
    def _check_suspended(cls, suspended: bool, others: ValidationInfo) -> bool:  # noqa: FBT001 - of pydantic
        if suspended and others.data.get("state") in _ENDED:
            raise ValueError(f"a suspended task is Pending or Processing, and not {others.data['state']}")
        return suspended

    @field_validator("under_way")
    @classmethod
    def _check_under_way(cls, under_way: bool, others: ValidationInfo) -> bool:  # noqa: FBT001 - of pydantic
        if under_way and (others.data.get("suspended") or others.data.get("state") in _ENDED):
            raise ValueError("a task that is suspended, in Error or has ended is not under way")
        return under_way

    @property
    def listed_state(self) -> ProcessState | None:
        """Return the state whose tasks are listed, None for any."""
        is_any = self._is_search or self.suspended or self.under_way
        return self.state or (None if is_any else ProcessState.ERROR)

    @property
    def needs_records(self) -> bool:
        """Return whether the index rows alone may not decide which tasks match."""
        return self._is_search or self.step is not None or self.error is not None

    @property
    def _is_search(self) -> bool:
        return any(each is not None for each in (self.prefix, self.find, self.submitter, self.correlation_id))

    @property
    def sources(self) -> tuple[Source, ...]:
        """Return the possible sources of the list, the best first."""
        if self.find is not None:
            return (Source.TEXT,)
        return (Source.TIME,) if self.prefix is None else (Source.NAME, Source.TIME)


class ListQuery(TaskFilter):
    """A filter, and the order and place of a page. Tasks of one moment are ordered by id."""

    order: Sorting = Sorting.NEWEST
    cursor: Annotated[str | None, Field(max_length=512, description="From the previous page")] = None

    def place(self) -> ListCursor | None:
        """Return the decoded cursor. Raises `ProblemError` 422 for a cursor of another list."""
        if self.cursor is None:
            return None
        with suppress(ValueError):
            place = ListCursor.model_validate_json(decoded_cursor(self.cursor))
            is_same = place.state is self.listed_state and place.sorting is self.order
            if is_same and place.source in self.sources:
                return place
        raise wrong_field("cursor", "not a cursor of this list")


def encoded_cursor(place: BaseModel) -> str:
    """Return a cursor as text for a URL."""
    return urlsafe_b64encode(place.model_dump_json().encode()).decode().rstrip("=")


def decoded_cursor(text: str) -> bytes:
    """Return the JSON of a cursor. Raises `ValueError`."""
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


_INDEXES = {
    None: (TaskIndex.DUE, TaskIndex.SUSPENDED, TaskIndex.ERROR, TaskIndex.DONE),
    ProcessState.PENDING: (TaskIndex.DUE,),
    ProcessState.PROCESSING: (TaskIndex.DUE,),
    ProcessState.ERROR: (TaskIndex.ERROR,),
    ProcessState.PROCESSED: (TaskIndex.DONE,),
    ProcessState.COMPENSATED: (TaskIndex.DONE,),
}

#: Index rows of these states may be outdated; orders and rows of search texts have no state.
_INEXACT = frozenset({None, ProcessState.PENDING, ProcessState.PROCESSING})


def time_of(entry: ListedTask) -> datetime:
    """Return the time by which an entry is listed: its end, or its submission."""
    return entry.submitted_at if entry.state in _INEXACT or entry.at is None else entry.at


@dataclass(frozen=True, slots=True)
class ListScope:
    """The entries of a list at the time `now`: those of a query in one source, after `place`."""

    query: ListQuery
    now: datetime
    place: ListCursor | None
    source: Source

    @property
    def indexes(self) -> tuple[TaskIndex, ...]:
        """Return the indexes by state that contain the tasks."""
        if self.query.suspended:
            return (TaskIndex.SUSPENDED,)
        return (TaskIndex.DUE,) if self.query.under_way else _INDEXES[self.query.listed_state]

    def bounds(self) -> tuple[datetime | None, datetime]:
        """Return the times between which the entries of the source are; the second is excluded."""
        until, by_time = self.now + CLOCK_SKEW, self.source is Source.TIME
        if by_time and self.query.min_age is not None:
            until = self.now - timedelta(seconds=self.query.min_age)
        is_bounded = by_time and self.query.max_age is not None
        since = self.now - timedelta(seconds=self.query.max_age or 0) if is_bounded else None
        return since, until + timedelta.resolution

    def select(self, entries: Iterable[ListedTask]) -> list[ListedTask]:
        """Return the entries that may match, in the order of the list."""
        return sorted(filter(self.may_match, entries), key=self.rank)

    def rank(self, entry: ListedTask | ListCursor) -> tuple[timedelta, str]:
        """Return the sort key of an entry."""
        at = entry.at if isinstance(entry, ListCursor) else time_of(entry)
        since_epoch = at - datetime.fromtimestamp(0, UTC)
        return since_epoch if self.query.order is Sorting.OLDEST else -since_epoch, entry.task

    def cursor(self, entry: ListedTask) -> ListCursor:
        """Return the place of an entry."""
        state, order = self.query.listed_state, self.query.order
        return ListCursor(state=state, sorting=order, source=self.source, at=time_of(entry), task=entry.task)

    def may_match(self, entry: ListedTask) -> bool:
        """Return whether the task of an entry may match; `matches` decides."""
        query = self.query
        return (
            _has_order(query, entry)
            and (entry.state in _INEXACT or query.listed_state in {None, entry.state})
            and (entry.error_class is None or self._has_cause(entry))
            and (self.source is not Source.TIME or _has_age(query, time_of(entry), self.now))
            and (self.place is None or self.rank(entry) > self.rank(self.place))
        )

    def _has_cause(self, entry: ListedTask) -> bool:
        query = self.query
        is_of_class = query.error is None or error_class(query.error) == entry.error_class
        return is_of_class and query.step in {None, entry.failed_step}


def matches(query: TaskFilter, record: TaskRecord, now: datetime) -> bool:
    """Return whether a task matches a filter. Its search texts are in the index only."""
    is_suspended = record.suspension is not None
    return (
        _has_order(query, record.order)
        and query.listed_state in {None, derive(record).state}
        and (is_suspended or not query.suspended)
        and (not query.under_way or (record.finished_at is None and not is_suspended))
        and (query.step is None or _is_at(record, query.step))
        and (query.error is None or _has_error(record, query.error))
        and _has_age(query, record.finished_at or record.order.submitted_at, now)
    )


def _has_order(query: TaskFilter, order: ListedTask | Order) -> bool:
    return (
        query.workflow in {None, order.workflow}
        and query.version in {None, order.version}
        and order.task.startswith(query.prefix or "")
        and query.submitter in {None, order.submitter}
        and query.correlation_id in {None, order.correlation_id}
    )


def _has_age(query: TaskFilter, time: datetime, now: datetime) -> bool:
    age = (now - time).total_seconds()
    return (query.min_age or 0) <= max(age, 0) and (query.max_age is None or age <= query.max_age)


def _has_error(record: TaskRecord, error: str) -> bool:
    text = record.error or record.reason
    return text is not None and error_class(text, record.order.task) == error_class(error)


def _is_at(record: TaskRecord, step: str) -> bool:
    """Return whether a task failed at a step, or whether the step or an item of it is under way."""
    if record.error is not None:
        return failed_step(record) == step
    state = OperationState.RUNNING if record.finished_at is None else OperationState.REFUSED
    steps = (each for each in record.steps.values() if record.order.by_name[each.name].step == step)
    return any(state in {each.do.state, each.undo.state} for each in steps)
