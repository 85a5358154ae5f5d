"""Several orders in one message: a line that tells how many, and each on a line of its own, as if sent alone.

So whoever takes the message takes each order by itself, and one that can't be read harms no other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from functions.pattern.messages import Message, SubmissionMessage

#: Orders in a message. `host.json` has an invocation take so many messages that it gets 1,000 orders at most.
MOST_IN_GROUP = 25
#: Bytes of a message: the Standard tier takes 256 KB of all that is sent at once.
_MOST_BYTES = 190_000

_DIGEST_CHARACTERS = 32
_LINE = b"\n"


class _Header(Message):
    """The first line: how many orders follow, and the trace of each, where there are traces."""

    schema_version: Literal[1] = 1
    orders: Annotated[int, Field(ge=1, le=MOST_IN_GROUP)]
    traces: tuple[str | None, ...] | None = None


@dataclass(frozen=True, slots=True)
class SubmissionGroup:
    """A message with so many orders of one workflow."""

    message_id: str
    body: bytes
    subject: str
    orders: int


@dataclass(frozen=True, slots=True)
class GroupedOrder:
    """An order out of a message with several: its own message's body, and its trace."""

    body: bytes
    traceparent: str | None


def groups_of(
    messages: Sequence[SubmissionMessage], traces: Sequence[str | None]
) -> Iterator[SubmissionGroup]:
    """Put orders of one workflow into as few messages as hold them; `traces` has one for each, or none."""
    start, size, written = 0, 0, [each.written for each in messages]
    for end, line in enumerate(written):
        if end > start and (end - start == MOST_IN_GROUP or size + len(line) > _MOST_BYTES):
            yield _group(messages[start:end], written[start:end], traces[start:end])
            start, size = end, 0
        size += len(line)
    if written:
        yield _group(messages[start:], written[start:], traces[start:])


def _group(
    messages: Sequence[SubmissionMessage], lines: Sequence[bytes], traces: Sequence[str | None]
) -> SubmissionGroup:
    header = _Header(orders=len(lines), traces=tuple(traces) if any(traces) else None)
    ids = " ".join(each.message_id for each in messages)
    return SubmissionGroup(
        message_id=hashlib.sha256(ids.encode()).hexdigest()[:_DIGEST_CHARACTERS],
        body=_LINE.join([header.model_dump_json(exclude_none=True).encode(), *lines]),
        subject=messages[0].workflow,
        orders=len(lines),
    )


def orders_in(body: bytes) -> list[GroupedOrder] | None:
    """Take the orders out of a message; None for one that is no group, or not all of it."""
    first, *lines = body.split(_LINE, MOST_IN_GROUP + 1)
    if not lines:
        return None
    try:
        header = _Header.model_validate_json(first)
    except ValidationError:
        return None
    traces = header.traces or (None,) * len(lines)
    if not header.orders == len(lines) == len(traces):
        return None
    return [GroupedOrder(line, trace) for line, trace in zip(lines, traces, strict=True)]
