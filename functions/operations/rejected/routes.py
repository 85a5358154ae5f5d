"""The operators' requests for rejected messages."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import ConfigDict, Field

from functions.operations.asking import Reason, action
from functions.operations.rejected.reading import (
    DiscardedCount,
    Rejected,
    RejectedDetails,
    RejectedLine,
    RejectedList,
)
from functions.pattern.times import UtcTime
from functions.web.access import caller_of
from functions.web.openapi import documented_answer
from functions.web.problems import documented_problems

_MOST_QUEUE_CHARACTERS = 300

_MESSAGE: dict[str, Any] = {
    "id": "order-1.9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "queue": "submissions/$DeadLetterQueue",
    "message_id": "order-1.4bf92f3577b34da6a3ce929d0e0e4736",
    "size": 412,
    "whole": True,
    "reason": "MaxDeliveryCountExceeded: Message could not be consumed after 10 delivery attempts.",
    "rejected_at": "2026-11-21T12:00:02Z",
    "task": "order-1",
    "step": None,
    "agent": None,
    "resends": 1,
    "resent_by": "operator",
    "resent_why": "the defect is fixed",
    "resent_at": "2026-11-21T12:00:11Z",
    "discarded_by": None,
    "discarded_why": None,
    "discarded_at": None,
}
_DISCARDED = _MESSAGE | {
    "discarded_by": "operator",
    "discarded_why": "the caller has sent another order",
    "discarded_at": "2026-11-21T12:01:00Z",
}
_LIST = {"messages": [_MESSAGE], "count": 1, "cursor": None, "more": False}
_DETAILS = _MESSAGE | {"body": '{"id": "order-1", "amount": "4.90"}', "more": False, "why": None}
_COUNT = {"discarded": 100, "left": True}

_ONE = "/rejected/{id}"

_MessagePath = Annotated[
    str,
    Path(
        alias="id",
        pattern=r"^([A-Za-z0-9_-]{1,64}\.)?[0-9a-f]{64}$",
        description="From the list of rejected messages",
        examples=["9f86" * 16],
    ),
]
_QueueQuery = Annotated[str | None, Query(max_length=_MOST_QUEUE_CHARACTERS)]
_CursorQuery = Annotated[str | None, Query(max_length=200, description="From the page before")]


class ReasonForAll(Reason):
    """Why an operator discards messages: those of a `queue` that were rejected `until` a time."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"reason": "a test", "queue": "notices-demo", "until": None}]}
    )

    queue: Annotated[str | None, Field(max_length=_MOST_QUEUE_CHARACTERS)] = None
    until: UtcTime | None = None


def add_rejected(router: APIRouter, rejected: Rejected) -> None:
    """Add them to the operators' router."""

    @router.get("/rejected", responses=documented_answer(_LIST) | documented_problems(422, 503))
    async def list_rejected(
        queue: _QueueQuery = None,
        cursor: _CursorQuery = None,
        discarded: bool = False,  # noqa: FBT001, FBT002 - a query's
    ) -> RejectedList:
        """List messages that were rejected or dead-lettered, or those that were `discarded`."""
        return await rejected.listed(queue, cursor, discarded=discarded)

    @router.get(_ONE, responses=documented_answer(_DETAILS) | documented_problems(404, 422, 503))
    async def show_rejected(rejected_id: _MessagePath) -> RejectedDetails:
        """Show a rejected message with its body, without tokens and secret fields."""
        return await rejected.show(rejected_id)

    @router.post(f"{_ONE}/resend", **action(_MESSAGE))
    async def resend(rejected_id: _MessagePath, body: Reason, request: Request) -> RejectedLine:
        """Send a rejected message to its queue again."""
        return await rejected.resend(rejected_id, who=caller_of(request).name, why=body.reason)

    @router.post(f"{_ONE}/discard", **action(_DISCARDED))
    async def discard(rejected_id: _MessagePath, body: Reason, request: Request) -> RejectedLine:
        """Delete a rejected message; what it was, who did it, and why are kept."""
        return await rejected.discard(rejected_id, who=caller_of(request).name, why=body.reason)

    @router.post("/rejected/discard", **action(_COUNT))
    async def discard_all(body: ReasonForAll, request: Request) -> DiscardedCount:
        """Delete up to 100 rejected messages as above; ask again while some are `left`."""
        who = caller_of(request).name
        return await rejected.discard_all(body.queue, body.until, who=who, why=body.reason)
