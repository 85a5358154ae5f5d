"""Where a list goes on: an opaque text for the caller, a place in an index for us."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from functions.pattern.identity import TASK_ID_PATTERN
from functions.pattern.states import ProcessState
from functions.pattern.store_ports import IndexEntry


class CursorError(Exception):
    """The text is not a cursor of this list."""


class Sorting(StrEnum):
    """Which way a list goes through time."""

    #: From the latest time back.
    NEWEST = "newest"
    #: From the earliest time on.
    OLDEST = "oldest"


class Cursor(BaseModel):
    """The place of the last entry that was looked at, in the list of one state.

    Entries of one moment come by their tasks' ids; without a task, all of the moment are still to come.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    state: ProcessState
    sorting: Sorting
    at: AwareDatetime
    task: Annotated[str, Field(pattern=TASK_ID_PATTERN)] | None = None

    def text(self) -> str:
        """Write the cursor so that it fits into a URL."""
        return urlsafe_b64encode(self.model_dump_json(exclude_none=True).encode()).decode().rstrip("=")

    def leads_to(self, entry: IndexEntry) -> bool:
        """Tell whether an entry comes after this place."""
        if self.task is None:
            return entry.at >= self.at if self.sorting is Sorting.OLDEST else entry.at < self.at
        here, there = (self.at, self.task), (entry.at, entry.task)
        return there > here if self.sorting is Sorting.OLDEST else there < here


def read_cursor(text: str | None, state: ProcessState, sorting: Sorting) -> Cursor | None:
    """Read a caller's cursor, if there is one. Raises `CursorError` for one that we did not write."""
    if text is None:
        return None
    try:
        cursor = Cursor.model_validate_json(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValidationError, binascii.Error, ValueError):
        raise CursorError from None
    if cursor.state is not state or cursor.sorting is not sorting or cursor.at.utcoffset() != timedelta(0):
        raise CursorError
    return cursor
