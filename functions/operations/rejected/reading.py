"""Rejected and dead-lettered messages, as operators see them; how one is sent again, or discarded."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from http import HTTPStatus
from itertools import batched

from pydantic import BaseModel, ConfigDict

from functions.messages.queues import dead_letter_queue, living_queue, queue_of_another_try
from functions.operations.rejected.bodies import Bodies
from functions.pattern.definition import Registry
from functions.pattern.identity import TaskId
from functions.pattern.ports import Ports
from functions.pattern.rejected import Place, RejectedMessage, SentByAnotherError
from functions.pattern.sent_again import resent
from functions.telemetry.operators import record_action
from functions.web.problems import ProblemError
from functions.web.views import read_from

_MOST_LISTED = 50
_MOST_OF_TASK = 20

#: Messages that one request discards, and how many of them side by side.
_MOST_DISCARDED = 100
_AT_ONCE = 10

_BETWEEN = "~"


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


class Rejected:
    """The messages that are kept."""

    def __init__(self, ports: Ports, registry: Registry) -> None:
        self._rejected = ports.rejected
        self._postbox = ports.postbox
        self._clock = ports.clock
        self._bodies = Bodies(ports, registry)

    async def listed(self, queue: str | None, cursor: str | None, *, discarded: bool) -> RejectedList:
        """List some, of one queue with its dead letters, or of all.

        Raises `TransientError`, and `ProblemError` 422 for a wrong cursor.
        """
        after = None if cursor is None else _read(cursor)
        page = await self._rejected.listed(
            queues=_with_dead_letters(queue), most=_MOST_LISTED, after=after, discarded=discarded
        )
        following = None if page.next is None else _written(page.next)
        lines = [_line(each) for each in page.messages]
        return RejectedList(messages=lines, count=page.count, cursor=following, more=page.more)

    async def of_task(self, task: TaskId) -> list[RejectedLine]:
        """List the latest that name a task. Raises `TransientError`."""
        page = await self._rejected.of_task(task, most=_MOST_OF_TASK)
        return [_line(each) for each in page.messages]

    async def show(self, message: str) -> RejectedDetails:
        """Show a message with its body. Raises `ProblemError` 404, and `TransientError`."""
        found = await self._rejected.body(message)
        if found is None:
            raise _not_kept()
        kept, body = found
        shown = await self._bodies.show(kept, body)
        more = shown.text is not None and (shown.more or not kept.whole)
        return RejectedDetails(**dict(_line(kept)), body=shown.text, more=more, why=shown.why)

    async def resend(self, message: str, *, who: str, why: str) -> RejectedLine:
        """Send a message to its queue again, under a new id: its own may still be known as a duplicate's.

        An event of a hub is sent to the orders' queue: in the hub it has a place already.
        That is recorded first. Raises `ProblemError` 404 and 409, and `TransientError`: to repeat it does no
        harm, as whoever takes a message has to expect it twice.
        """
        try:
            found = await self._rejected.resending(message, who, why)
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
        await self._postbox.put(queue_of_another_try(kept.queue), message_id, again)
        record_action(who, "resend", f"rejected/{message}")
        return _line(kept)

    async def discard(self, message: str, *, who: str, why: str) -> RejectedLine:
        """Delete a message, but for what is known of it. Raises `ProblemError` 404, and `TransientError`."""
        discarded = await self._rejected.discard(message, who, why)
        if discarded is None:
            raise _not_kept()
        record_action(who, "discard", f"rejected/{message}")
        return _line(discarded)

    async def discard_all(
        self, queue: str | None, until: datetime | None, *, who: str, why: str
    ) -> DiscardedCount:
        """Discard some of those that were rejected `until` a time (None: now), of one queue or of all.

        Raises `TransientError`; what was discarded by then stays so.
        """
        page = await self._rejected.listed(
            queues=_with_dead_letters(queue), most=_MOST_DISCARDED, until=until or self._clock.now()
        )
        count = 0
        for some in batched(page.messages, _AT_ONCE, strict=False):
            gone = await asyncio.gather(*(self._rejected.discard(each.id, who, why) for each in some))
            for each in filter(None, gone):
                record_action(who, "discard", f"rejected/{each.id}")
                count += 1
        return DiscardedCount(discarded=count, left=page.next is not None or page.more)


def _with_dead_letters(queue: str | None) -> tuple[str, ...]:
    """Name a queue and its dead-letter queue, by either name; none stands for all."""
    living = None if queue is None else living_queue(queue)
    return () if living is None else (living, dead_letter_queue(living))


def _written(place: Place) -> str:
    return f"{place.at.isoformat()}{_BETWEEN}{place.id}"


def _read(cursor: str) -> Place:
    at, _, message = cursor.partition(_BETWEEN)
    try:
        time = datetime.fromisoformat(at).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, "The cursor is none of this list's.") from None
    return Place(time, message)


def _not_kept() -> ProblemError:
    return ProblemError(HTTPStatus.NOT_FOUND, "No message is kept under this id.")


def _line(message: RejectedMessage) -> RejectedLine:
    return RejectedLine.model_validate(message)
