"""The operators' requests for rejected messages."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import ConfigDict, Field

from functions.operations.asking import ACTION, Reason
from functions.operations.rejected.reading import (
    DiscardedCount,
    Rejected,
    RejectedDetails,
    RejectedLine,
    RejectedList,
)
from functions.pattern.times import UtcTime
from functions.web.access import caller_of
from functions.web.problems import documented_problems

_MOST_QUEUE_CHARACTERS = 300

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

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "a test", "queue": "notices-demo"}]})

    queue: Annotated[str | None, Field(max_length=_MOST_QUEUE_CHARACTERS)] = None
    until: UtcTime | None = None


def add_rejected(router: APIRouter, rejected: Rejected) -> None:
    """Add them to the operators' router."""

    @router.get("/rejected", responses=documented_problems(422, 503))
    async def list_rejected(
        queue: _QueueQuery = None,
        cursor: _CursorQuery = None,
        discarded: bool = False,  # noqa: FBT001, FBT002 - a query's
    ) -> RejectedList:
        """List messages that were rejected or dead-lettered, or those that were `discarded`."""
        return await rejected.listed(queue, cursor, discarded=discarded)

    @router.get(_ONE, responses=documented_problems(404, 422, 503))
    async def show_rejected(rejected_id: _MessagePath) -> RejectedDetails:
        """Show a rejected message with its body, without tokens and secret fields."""
        return await rejected.show(rejected_id)

    @router.post(f"{_ONE}/resend", **ACTION)
    async def resend(rejected_id: _MessagePath, body: Reason, request: Request) -> RejectedLine:
        """Send a rejected message to its queue again."""
        return await rejected.resend(rejected_id, who=caller_of(request).name, why=body.reason)

    @router.post(f"{_ONE}/discard", **ACTION)
    async def discard(rejected_id: _MessagePath, body: Reason, request: Request) -> RejectedLine:
        """Delete a rejected message; what it was, who did it, and why are kept."""
        return await rejected.discard(rejected_id, who=caller_of(request).name, why=body.reason)

    @router.post("/rejected/discard", **ACTION)
    async def discard_all(body: ReasonForAll, request: Request) -> DiscardedCount:
        """Delete up to 100 rejected messages as above; ask again while some are `left`."""
        who = caller_of(request).name
        return await rejected.discard_all(body.queue, body.until, who=who, why=body.reason)
