"""The operators' requests for rejected and dead-lettered messages: list, body, resend, discard."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from http import HTTPStatus
from itertools import batched
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from functions.messages.queues import dead_letter_queue, living_queue, queue_of_another_try
from functions.operations.action_requests import ACTION, Reason
from functions.operations.rejected.bodies import Bodies
from functions.pattern.definition import Registry
from functions.pattern.identity import TaskId
from functions.pattern.ports import Ports
from functions.pattern.rejected import Place, SentByAnotherError
from functions.pattern.sent_again import resent
from functions.pattern.times import UtcTime
from functions.telemetry.fields import record_action
from functions.web.access import caller_of
from functions.web.problems import ProblemError, documented_problems
from functions.web.views import read_from

_MessagePath = Annotated[
    str,
    Path(
        alias="id",
        pattern=r"^([A-Za-z0-9_-]{1,64}\.)?[0-9a-f]{64}$",
        description="From the list of rejected messages",
        examples=["9f86" * 16],
    ),
]
_ONE = "/rejected/{id}"
_QueueQuery = Annotated[str | None, Query(max_length=300)]
_CursorQuery = Annotated[str | None, Query(max_length=200, description="From the page before")]


class RejectedLine(BaseModel):
    """A message that was not processed: where it was, what it was called, its bytes, why, and for whom.

    It can be sent again if it is kept `whole`. `resends` counts how often it was, last by `resent_by`.
    Of one that `discarded_by` has discarded, this is all that is kept.
    """

    model_config = ConfigDict(from_attributes=True, validate_by_name=True)

    id: str
    queue: str
    message_id: str
    size: int
    whole: bool
    reason: str
    rejected_at: datetime
    task: str | None = read_from("about", "task")
    step: str | None = read_from("about", "step")
    agent: str | None = read_from("about", "agent")
    resends: int
    resent_by: str | None
    resent_why: str | None
    resent_at: datetime | None
    discarded_by: str | None
    discarded_why: str | None
    discarded_at: datetime | None


class RejectedDetails(RejectedLine):
    """A message with its body as text, without what could be a request's token, and without secret fields.

    `more` says that only the beginning is shown; null, with the reason in `why`, that nothing is.
    """

    body: str | None
    more: bool
    why: str | None


class RejectedList(BaseModel):
    """Some of `count` rejected messages, the latest first; `cursor` asks for the next page, if there is one.

    `more` says that there are others, to which no cursor leads: those of a single queue may be fewer.
    """

    messages: list[RejectedLine]
    count: int
    cursor: str | None
    more: bool


class DiscardedCount(BaseModel):
    """How many messages a request has discarded, and whether some are `left`: the next one goes on."""

    discarded: int
    left: bool


class ReasonForAll(Reason):
    """Why an operator discards messages: those of a `queue` that were rejected `until` a time."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "a test", "queue": "notices-demo"}]})

    queue: Annotated[str | None, Field(max_length=300)] = None
    until: UtcTime | None = None


async def rejected_of_task(ports: Ports, task: TaskId) -> list[RejectedLine]:
    """List the latest messages that name a task. Raises `TransientError`."""
    page = await ports.rejected.of_task(task, most=20)
    return [RejectedLine.model_validate(each) for each in page.messages]


def add_rejected(router: APIRouter, ports: Ports, registry: Registry) -> None:
    """Add the routes to the operators' router."""
    rejected, bodies = ports.rejected, Bodies(ports, registry)
    _add_actions(router, ports)

    @router.get("/rejected", responses=documented_problems(422, 503))
    async def list_rejected(
        queue: _QueueQuery = None,
        cursor: _CursorQuery = None,
        discarded: bool = False,  # noqa: FBT001, FBT002 - a query's
    ) -> RejectedList:
        """List messages that were rejected or dead-lettered, or those that were `discarded`."""
        after = None if cursor is None else _read(cursor)
        queues = _with_dead_letters(queue)
        page = await rejected.listed(queues=queues, most=50, after=after, discarded=discarded)
        following = None if page.next is None else f"{page.next.at.isoformat()}~{page.next.id}"
        lines = [RejectedLine.model_validate(each) for each in page.messages]
        return RejectedList(messages=lines, count=page.count, cursor=following, more=page.more)

    @router.get(_ONE, responses=documented_problems(404, 422, 503))
    async def show_rejected(rejected_id: _MessagePath) -> RejectedDetails:
        """Show a rejected message with its body, without tokens and secret fields."""
        found = await rejected.body(rejected_id)
        if found is None:
            raise _not_kept()
        kept, body = found
        shown = await bodies.show(kept, body)
        more = shown.text is not None and (shown.more or not kept.whole)
        return RejectedDetails(
            **dict(RejectedLine.model_validate(kept)), body=shown.text, more=more, why=shown.why
        )


def _add_actions(router: APIRouter, ports: Ports) -> None:
    rejected = ports.rejected

    @router.post(f"{_ONE}/resend", **ACTION)
    async def resend(rejected_id: _MessagePath, body: Reason, request: Request) -> RejectedLine:
        """Send a rejected message to its queue again, an event of a hub to the queue of orders.

        The message gets a new id: its own may be known to duplicate detection. A repetition after 503 does no
        harm, since each receiver accepts a message twice.
        """
        who = caller_of(request).name
        try:
            found = await rejected.resending(rejected_id, who, body.reason)
        except SentByAnotherError:
            text = "Another operator has sent it again or discarded it at this moment: see how it stands now."
            raise ProblemError(HTTPStatus.CONFLICT, text) from None
        if found is None:
            raise _not_kept()
        kept, content = found
        if content is None:
            text = f"Of its {kept.size} bytes only the beginning is kept: it can't be sent again."
            raise ProblemError(HTTPStatus.CONFLICT, text)
        message_id, again = resent(kept.message_id, content, kept.resends)
        await ports.postbox.put(queue_of_another_try(kept.queue), message_id, again)
        record_action(who, "resend", f"rejected/{rejected_id}")
        return RejectedLine.model_validate(kept)

    @router.post(f"{_ONE}/discard", **ACTION)
    async def discard(rejected_id: _MessagePath, body: Reason, request: Request) -> RejectedLine:
        """Delete a rejected message; its description, the operator and the reason are kept."""
        who = caller_of(request).name
        discarded = await rejected.discard(rejected_id, who, body.reason)
        if discarded is None:
            raise _not_kept()
        record_action(who, "discard", f"rejected/{rejected_id}")
        return RejectedLine.model_validate(discarded)

    @router.post("/rejected/discard", **ACTION)
    async def discard_all(body: ReasonForAll, request: Request) -> DiscardedCount:
        """Delete up to 100 rejected messages as above; ask again while some are `left`."""
        who, queues = caller_of(request).name, _with_dead_letters(body.queue)
        page = await rejected.listed(queues=queues, most=100, until=body.until or ports.clock.now())
        count = 0
        for some in batched(page.messages, 10, strict=False):
            gone = await asyncio.gather(*(rejected.discard(each.id, who, body.reason) for each in some))
            for each in filter(None, gone):
                record_action(who, "discard", f"rejected/{each.id}")
                count += 1
        return DiscardedCount(discarded=count, left=page.next is not None or page.more)


def _with_dead_letters(queue: str | None) -> tuple[str, ...]:
    living = None if queue is None else living_queue(queue)
    return () if living is None else (living, dead_letter_queue(living))


def _read(cursor: str) -> Place:
    at, _, message = cursor.partition("~")
    try:
        time = datetime.fromisoformat(at).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, "The cursor is none of this list's.") from None
    return Place(time, message)


def _not_kept() -> ProblemError:
    return ProblemError(HTTPStatus.NOT_FOUND, "No message is kept under this id.")
