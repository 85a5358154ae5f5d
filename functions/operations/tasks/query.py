"""What a list of tasks is asked for by, and the cursor by which its pages follow each other."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import suppress
from datetime import timedelta
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
from functions.pattern.error_class import MAX_CLASS_BYTES
from functions.pattern.identity import TASK_ID_PATTERN, StepName, step_of
from functions.pattern.numbers import PLAIN_NUMBER
from functions.pattern.search_keys import MAX_TEXT_CHARACTERS
from functions.pattern.states import ProcessState
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

    #: From the latest time back.
    NEWEST = "newest"
    #: From the earliest time on.
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
