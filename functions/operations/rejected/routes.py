"""The operators' requests for rejected and dead-lettered messages: list, body, resend, discard."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass
from http import HTTPStatus
from itertools import batched
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from functions.messages.queues import dead_letter_queue, living_queue, queue_of_another_try
from functions.operations.action_requests import ACTION, Reason
from functions.operations.rejected.bodies import show_body
from functions.pattern.definition import Registry
from functions.pattern.ports import Ports
from functions.pattern.rejected import RejectedList, RejectedMessage, SentByAnotherError
from functions.pattern.sent_again import resent
from functions.pattern.times import UtcTime
from functions.telemetry.fields import record_action
from functions.web.access import caller_of
from functions.web.problems import ProblemError, documented_problems

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


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedDetails(RejectedMessage):
    """A rejected message with its body as text, without the token of a request and without secret fields.

    `more` says that only the beginning is shown; if `body` is null, `why` has the reason.
    """

    body: str | None
    more: bool
    why: str | None


class DiscardedCount(BaseModel):
    """How many messages a request has discarded, and whether some are `left`: the next one goes on."""

    discarded: int
    left: bool


class ReasonForAll(Reason):
    """Why an operator discards messages: those of a `queue` that were rejected `until` a time."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "a test", "queue": "notices-demo"}]})

    queue: Annotated[str | None, Field(max_length=300)] = None
    until: UtcTime | None = None


def add_rejected(router: APIRouter, ports: Ports, registry: Registry) -> None:
    """Add the routes to the operators' router."""
    _add_actions(router, ports)

    @router.get("/rejected", responses=documented_problems(422, 503))
    async def list_rejected(
        queue: Annotated[str | None, Query(max_length=300)] = None,
        until: Annotated[UtcTime | None, Query(description="From the last message of a page")] = None,
        discarded: bool = False,  # noqa: FBT001, FBT002 - a query's
    ) -> RejectedList:
        """List the latest 50 messages that were rejected or dead-lettered, or that were `discarded`.

        If there are `more`, `until` selects earlier ones, beginning with the messages of that time.
        """
        return await ports.rejected.listed(_with_dead_letters(queue), 50, until=until, discarded=discarded)

    @router.get(_ONE, responses=documented_problems(404, 422, 503))
    async def show_rejected(rejected_id: _MessagePath) -> RejectedDetails:
        """Show a rejected message with its body, without its token and secret fields."""
        found = await ports.rejected.body(rejected_id)
        if found is None:
            raise _not_kept()
        kept, body = found
        shown = await show_body(ports, registry, kept, body)
        more = shown.text is not None and (shown.more or not kept.whole)
        return RejectedDetails(**asdict(kept), body=shown.text, more=more, why=shown.why)


def _add_actions(router: APIRouter, ports: Ports) -> None:
    @router.post(f"{_ONE}/resend", **ACTION)
    async def resend(rejected_id: _MessagePath, body: Reason, request: Request) -> RejectedMessage:
        """Send a rejected message to its queue again, an event of a hub to the queue of orders.

        The message gets a new id: its own may be known to duplicate detection. A repetition after 503 does no
        harm, since each receiver accepts a message twice.
        """
        who = caller_of(request).name
        try:
            found = await ports.rejected.resending(rejected_id, who, body.reason)
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
        return kept

    @router.post(f"{_ONE}/discard", **ACTION)
    async def discard(rejected_id: _MessagePath, body: Reason, request: Request) -> RejectedMessage:
        """Delete a rejected message; its description, the operator and the reason are kept."""
        who = caller_of(request).name
        discarded = await ports.rejected.discard(rejected_id, who, body.reason)
        if discarded is None:
            raise _not_kept()
        record_action(who, "discard", f"rejected/{rejected_id}")
        return discarded

    @router.post("/rejected/discard", **ACTION)
    async def discard_all(body: ReasonForAll, request: Request) -> DiscardedCount:
        """Delete up to 100 rejected messages as above; ask again while some are `left`."""
        who, queues = caller_of(request).name, _with_dead_letters(body.queue)
        page = await ports.rejected.listed(queues, 100, until=body.until or ports.clock.now())
        count = 0
        for some in batched(page.messages, 10, strict=False):
            gone = await asyncio.gather(*(ports.rejected.discard(each.id, who, body.reason) for each in some))
            for each in filter(None, gone):
                record_action(who, "discard", f"rejected/{each.id}")
                count += 1
        return DiscardedCount(discarded=count, left=page.more)


def _with_dead_letters(queue: str | None) -> tuple[str, ...]:
    living = None if queue is None else living_queue(queue)
    return () if living is None else (living, dead_letter_queue(living))


def _not_kept() -> ProblemError:
    return ProblemError(HTTPStatus.NOT_FOUND, "No message is kept under this id.")
