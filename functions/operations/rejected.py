"""Rejected and dead-lettered messages, as operators see them, and how one is sent again."""

from __future__ import annotations

from datetime import datetime
from http import HTTPStatus

from pydantic import BaseModel, ConfigDict

from functions.messages.queues import dead_letter_queue, living_queue
from functions.messages.tokens import without_tokens
from functions.pattern.identity import TaskId
from functions.pattern.ports import Ports
from functions.pattern.rejected import RejectedMessage
from functions.pattern.sent_again import resent
from functions.web.problems import ProblemError
from functions.web.views import read_from

_MOST_LISTED = 200
_MOST_OF_TASK = 20
#: Characters: a payload is shown whole.
_MOST_SHOWN = 64 * 1024
_BREAKS = "\n\r\t"


class RejectedLine(BaseModel):
    """A message that was not processed: where it was, what it was called, its bytes, why, and for whom.

    It can be sent again if it is kept `whole`. `resends` counts how often it was, last by `resent_by`.
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


class RejectedDetails(RejectedLine):
    """A message with its body as text, without what could be a request's token; null for what is no text.

    `more` says that only the beginning is shown.
    """

    body: str | None
    more: bool


class RejectedList(BaseModel):
    """Rejected messages, the latest first; `more` says that there are others, as of a single queue."""

    messages: list[RejectedLine]
    more: bool


class Rejected:
    """The messages that are kept."""

    def __init__(self, ports: Ports) -> None:
        self._rejected = ports.rejected
        self._postbox = ports.postbox

    async def listed(self, queue: str | None) -> RejectedList:
        """List the latest, of one queue with its dead letters, or of all. Raises `TransientError`."""
        living = None if queue is None else living_queue(queue)
        queues = () if living is None else (living, dead_letter_queue(living))
        page = await self._rejected.listed(queues=queues, most=_MOST_LISTED)
        return RejectedList(messages=[_line(each) for each in page.messages], more=page.more)

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
        text = _shown(body)
        more = not kept.whole or len(text or "") > _MOST_SHOWN
        return RejectedDetails(**dict(_line(kept)), body=text and text[:_MOST_SHOWN], more=more)

    async def resend(self, message: str, *, who: str, why: str) -> RejectedLine:
        """Send a message to its queue again, under a new id: its own may still be known as a duplicate's.

        That is recorded first. Raises `ProblemError` 404 and 409, and `TransientError`: to repeat it does no
        harm, as whoever takes a message has to expect it twice.
        """
        found = await self._rejected.resending(message, who, why)
        if found is None:
            raise _not_kept()
        kept, content = found
        if content is None:
            text = f"Of its {kept.size} bytes only the beginning is kept: it can't be sent again."
            raise ProblemError(HTTPStatus.CONFLICT, text)
        message_id, again = resent(kept.message_id, content, kept.resends)
        await self._postbox.put(living_queue(kept.queue), message_id, again)
        return _line(kept)


def _not_kept() -> ProblemError:
    return ProblemError(HTTPStatus.NOT_FOUND, "No message is kept under this id.")


def _shown(body: bytes) -> str | None:
    """Give a body as text, without what can't be printed; None if it is none, as in another encoding."""
    if b"\0" in body:
        return None
    text = without_tokens(body.decode(errors="replace"))
    return "".join(each if each.isprintable() or each in _BREAKS else "�" for each in text)


def _line(message: RejectedMessage) -> RejectedLine:
    return RejectedLine.model_validate(message)
