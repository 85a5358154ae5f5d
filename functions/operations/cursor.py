"""Where a list goes on: an opaque text for the caller, a shard and a place in it for us."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from functions.pattern.states import ProcessState


class CursorError(Exception):
    """The text is not a cursor of this list."""


class Cursor(BaseModel):
    """The shard whose entries come next, and which of its pages (None: the first)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    state: ProcessState
    shard: Annotated[int, Field(ge=0)] = 0
    after: str | None = None

    def text(self) -> str:
        """Write the cursor so that it fits into a URL."""
        return urlsafe_b64encode(self.model_dump_json(exclude_none=True).encode()).decode().rstrip("=")


def read_cursor(text: str | None, state: ProcessState, shards: int) -> Cursor:
    """Read a caller's cursor; without one, begin. Raises `CursorError` for one that we did not write."""
    if text is None:
        return Cursor(state=state)
    try:
        cursor = Cursor.model_validate_json(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValidationError, binascii.Error, ValueError):
        raise CursorError from None
    if cursor.state is not state or cursor.shard >= shards:
        raise CursorError
    return cursor
