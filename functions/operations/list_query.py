"""What a list of tasks is asked for by: the query of the operators' list."""

from __future__ import annotations

from datetime import timedelta
from http import HTTPStatus
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from functions.operations.cursor import Cursor, CursorError, Sorting, read_cursor
from functions.operations.wanted import Wanted
from functions.pattern.definition import NAME_PATTERN
from functions.pattern.states import ProcessState
from functions.web.problems import FieldFault, ProblemError

#: Ten years.
_MOST_SECONDS = 315_360_000

_Age = Annotated[float, Field(ge=0, le=_MOST_SECONDS)]


class ListQuery(BaseModel):
    """Tasks of one state, `Error` unless another is named, in the order of time.

    Ages are in seconds: since the task ended or, under way, since it was submitted. With a `prefix`,
    tasks are found by their ids, in any state unless one is named; then ages and order say nothing.
    """

    model_config = ConfigDict(extra="forbid")

    state: ProcessState | None = None
    workflow: Annotated[str | None, Field(pattern=f"^{NAME_PATTERN}$")] = None
    min_age: _Age | None = None
    max_age: _Age | None = None
    prefix: Annotated[str | None, Field(pattern="^[A-Za-z0-9_-]{1,64}$")] = None
    order: Sorting = Sorting.NEWEST
    cursor: Annotated[str | None, Field(max_length=512, description="From the page before")] = None

    def wanted(self) -> Wanted:
        """Tell which tasks these are."""
        return Wanted(
            state=self._state,
            sorting=self.order,
            workflow=self.workflow,
            min_age=_duration(self.min_age),
            max_age=_duration(self.max_age),
        )

    def place(self) -> Cursor | None:
        """Tell where the page begins. Raises `ProblemError` 422 for a cursor that is not this list's."""
        try:
            return read_cursor(self.cursor, self._state, self.order)
        except CursorError:
            fault = FieldFault(field="cursor", reason="not a cursor of this list")
            raise ProblemError(
                HTTPStatus.UNPROCESSABLE_ENTITY, "Some fields are wrong.", errors=[fault]
            ) from None

    @property
    def _state(self) -> ProcessState:
        return self.state or ProcessState.ERROR


def _duration(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)
