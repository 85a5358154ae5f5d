"""The routes of operators for rejected messages and dead letters. Times are UTC."""

# ruff: noqa: I002 - FastAPI needs the classes of bodies, and not their names

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from http import HTTPStatus
from itertools import batched
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, Field

from functions.core.definition.workflow_definition import Workflow, WorkflowRegistry
from functions.http.access import caller_of
from functions.http.problems import ProblemError, documented_problems
from functions.http.redaction import REDACTED, NotShownError, printable_text, redacted, workflow_has_secrets
from functions.messaging.message_format import QueueMessage, SubmissionMessage, UtcTime
from functions.messaging.queue_names import SUBMISSIONS_QUEUE, dead_letter_queue, live_queue, resend_queue
from functions.messaging.rejected_messages import (
    ConcurrentActionError,
    RejectedList,
    RejectedMessage,
    RejectedMessages,
)
from functions.messaging.senders import SendError
from functions.operators.task_actions import ACTION, Reason
from functions.telemetry.instruments import record_action

#: Messages of a page, those that one request discards, and those that are discarded side by side.
_PAGE, _MOST_DISCARDED, _DISCARDED_AT_ONCE = 50, 100, 10
_QUEUE_CHARACTERS = 300

MessagePath = Annotated[
    str,
    Path(
        alias="id",
        pattern=r"^[0-9]{18}-[0-9a-f]{64}$",
        description="From the list of rejected messages",
        examples=[f"{0:018d}-{'9f86' * 16}"],
    ),
]
_ONE = "/rejected/{id}"


class DiscardAll(Reason):
    """The reason why messages are discarded: those of a `queue` that were rejected `until` a time."""

    queue: Annotated[str | None, Field(max_length=_QUEUE_CHARACTERS)] = None
    until: UtcTime | None = None


class DiscardedCount(BaseModel):
    """The number of discarded messages, and whether some are `left` for the next request."""

    discarded: int
    left: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedDetails(RejectedMessage):
    """A rejected message with its body as text, without start ids and secret fields.

    `more`: only the beginning is shown. `why` is the reason why no body is shown.
    """

    body: str | None
    more: bool
    why: str | None


def add_rejected_routes(
    router: APIRouter,
    registry: WorkflowRegistry,
    *,
    rejected: RejectedMessages,
    put: Callable[[str, QueueMessage], Awaitable[None]],
    now: Callable[[], datetime],
) -> None:
    """Add the routes. `put` sends a message to a queue and raises `SendError`."""
    _add_actions(router, rejected, put)

    @router.get("/rejected", responses=documented_problems(422, 503))
    async def list_rejected(
        queue: Annotated[str | None, Query(max_length=_QUEUE_CHARACTERS)] = None,
        until: Annotated[UtcTime | None, Query(description="Of the last message of a page")] = None,
        discarded: bool = False,  # noqa: FBT001, FBT002 - a parameter of a query
    ) -> RejectedList:
        """List the newest 50 rejected messages and dead letters, or the `discarded` ones.

        `until` continues a list with `more`, and repeats the messages of that time.
        """
        return await rejected.listed(_with_dead_letters(queue), _PAGE, until=until, discarded=discarded)

    @router.get(_ONE, responses=documented_problems(404, 422, 503))
    async def show_rejected(message: MessagePath) -> RejectedDetails:
        """Show a rejected message with its body, without start ids and secret fields."""
        found = await rejected.read(message)
        if found is None:
            raise _no_message()
        facts, body = found
        try:
            text = _printable_body(registry, facts.queue, body)
        except NotShownError as error:
            return RejectedDetails(**asdict(facts), body=None, more=False, why=f"Not shown: {error}.")
        shown, more = printable_text(text)
        return RejectedDetails(**asdict(facts), body=shown, more=more or not facts.whole, why=None)

    @router.post("/rejected/discard", **ACTION)
    async def discard_all(body: DiscardAll, request: Request) -> DiscardedCount:
        """Discard up to 100 messages. Repeat the request while some are `left`."""
        who, queues = caller_of(request).name, _with_dead_letters(body.queue)
        page = await rejected.listed(queues, _MOST_DISCARDED, until=body.until or now())
        count = 0
        for some in batched(page.messages, _DISCARDED_AT_ONCE, strict=False):
            gone = await asyncio.gather(*(rejected.discard(each.id, who, body.reason) for each in some))
            for each in filter(None, gone):
                record_action(who, "discard", f"rejected/{each.id}")
                count += 1
        return DiscardedCount(discarded=count, left=page.more)


def _add_actions(
    router: APIRouter, rejected: RejectedMessages, put: Callable[[str, QueueMessage], Awaitable[None]]
) -> None:
    @router.post(f"{_ONE}/resend", **ACTION)
    async def resend(message: MessagePath, body: Reason, request: Request) -> RejectedMessage:
        """Send a message to its queue again, whole and under a new id. An event becomes a submission.

        The request may be repeated after 503: each receiver accepts a message twice.
        """
        who = caller_of(request).name
        try:
            found = await rejected.resend(message, who, body.reason)
        except ConcurrentActionError:
            text = "Another operator sent or discarded the message at this moment. Reload the list."
            raise ProblemError(HTTPStatus.CONFLICT, text) from None
        if found is None:
            raise _no_message()
        facts, copy = found
        if copy is None:
            text = f"Only the beginning of its {facts.size} bytes is recorded. It cannot be sent again."
            raise ProblemError(HTTPStatus.CONFLICT, text)
        try:
            await put(resend_queue(facts.queue), copy)
        except SendError:
            text = "Service Bus does not answer. Repeat the request."
            raise ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, text) from None
        record_action(who, "resend", f"rejected/{message}")
        return facts

    @router.post(f"{_ONE}/discard", **ACTION)
    async def discard(message: MessagePath, body: Reason, request: Request) -> RejectedMessage:
        """Delete a message. Its description, the operator and the reason are kept."""
        who = caller_of(request).name
        discarded = await rejected.discard(message, who, body.reason)
        if discarded is None:
            raise _no_message()
        record_action(who, "discard", f"rejected/{message}")
        return discarded


def _with_dead_letters(queue: str | None) -> tuple[str, ...]:
    live = None if queue is None else live_queue(queue)
    return () if live is None else (live, dead_letter_queue(live))


def _no_message() -> ProblemError:
    return ProblemError(HTTPStatus.NOT_FOUND, "No message is recorded under this id.")


def _printable_body(registry: WorkflowRegistry, queue: str, body: bytes) -> str:
    """Return a body as text, without its start id and without secret fields.

    An order is shown by the model of its version. Another message is not shown if a deployed workflow has
    secret fields: no model names those of the message. Raises `NotShownError`.
    """
    if b"\0" in body:
        raise NotShownError("the body is not text")
    content = _members(body)
    workflow = _workflow_of(registry, content) if resend_queue(queue) == SUBMISSIONS_QUEUE else None
    if any(map(workflow_has_secrets, registry)):
        if workflow is None or "payload" not in content:
            raise NotShownError("a deployed workflow has secret fields")
        names = SubmissionMessage.model_fields.keys() & content.keys()
        order = {name: content[name] for name in names if not isinstance(content[name], dict | list)}
        content = {**order, "payload": redacted(workflow.payload, json.dumps(content["payload"]))}
    elif "start_id" in content:
        content["start_id"] = REDACTED
    else:
        return body.decode(errors="replace")
    # The original text may contain an earlier value of the same name.
    return json.dumps(content, ensure_ascii=False)


def _workflow_of(registry: WorkflowRegistry, content: Mapping[str, Any]) -> Workflow[Any] | None:
    """Return the workflow of an order, None for another message. Raises `NotShownError`."""
    name, version = content.get("workflow"), content.get("version")
    if not isinstance(name, str) or not isinstance(version, int | None):
        return None
    workflow = registry.find(name, version)
    if workflow is None:
        raise NotShownError("the version of its workflow is not deployed")
    return workflow


def _members(body: bytes) -> dict[str, Any]:
    """Return the members of a JSON object, and none of any other body."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
