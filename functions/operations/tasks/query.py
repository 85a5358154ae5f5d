"""What a list of tasks is asked for by, and the cursor by which its pages follow each other."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import suppress
from datetime import timedelta
from enum import StrEnum
from http import HTTPStatus
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from functions.pattern.definition import NAME_PATTERN
from functions.pattern.identity import TASK_ID_PATTERN
from functions.pattern.states import ProcessState
from functions.web.problems import FieldFault, ProblemError

#: Ten years.
_MOST_SECONDS = 315_360_000

_Age = Annotated[float, Field(ge=0, le=_MOST_SECONDS)]


class Sorting(StrEnum):
    """Which way a list goes through time."""

    #: From the latest time back.
    NEWEST = "newest"
    #: From the earliest time on.
    OLDEST = "oldest"


class Cursor(BaseModel):
    """The place of the last entry that was looked at, in the list of one state; callers get it as a text."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    state: ProcessState
    sorting: Sorting
    at: AwareDatetime
    task: Annotated[str, Field(pattern=TASK_ID_PATTERN)]

    def text(self) -> str:
        """Write the cursor so that it fits into a URL."""
        return urlsafe_b64encode(self.model_dump_json().encode()).decode().rstrip("=")


class ListQuery(BaseModel):
    """Tasks of one state, `Error` unless another is named, or those that are `parked`, in the order of time.

    Ages are in seconds: since the task ended or, under way, since it was submitted. With a `prefix`,
    tasks are found by their ids, in any state unless one is named; then ages and order have no effect.
    """

    model_config = ConfigDict(extra="forbid")

    state: ProcessState | None = None
    parked: bool = False
    workflow: Annotated[str | None, Field(pattern=f"^{NAME_PATTERN}$")] = None
    version: Annotated[int | None, Field(ge=1, description="The workflow's")] = None
    min_age: _Age | None = None
    max_age: _Age | None = None
    prefix: Annotated[str | None, Field(pattern="^[A-Za-z0-9_-]{1,64}$")] = None
    order: Sorting = Sorting.NEWEST
    cursor: Annotated[str | None, Field(max_length=512, description="From the page before")] = None

    @property
    def listed_state(self) -> ProcessState:
        """Give the state whose tasks are listed, unless they are found by their ids."""
        return ProcessState.PENDING if self.parked else self.state or ProcessState.ERROR

    def place(self) -> Cursor | None:
        """Tell after which entry the page begins. Raises `ProblemError` 422 for another list's cursor."""
        if self.cursor is None:
            return None
        with suppress(ValueError):
            json = urlsafe_b64decode(self.cursor + "=" * (-len(self.cursor) % 4))
            cursor = Cursor.model_validate_json(json)
            of_this_list = (cursor.state, cursor.sorting) == (self.listed_state, self.order)
            if of_this_list and cursor.at.utcoffset() == timedelta(0):
                return cursor
        fault = FieldFault(field="cursor", reason="not a cursor of this list")
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, "Some fields are wrong.", errors=[fault])
