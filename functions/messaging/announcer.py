"""Announcements of written changes: messages of the outbox, the next run, and the end of the next wait.

Each is sent once. The outbox, the due index and the Supervisor are the backup, so no error is raised.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextvars import Context
from dataclasses import dataclass, field

from functions.core.derive import derive, needs_run
from functions.core.error_texts import error_text
from functions.core.record import Message, TaskRecord
from functions.messaging.received_messages import within
from functions.messaging.scheduler_messages import RunRequest, SchedulerMessage, WakeRequest
from functions.storage.record_rows import KEPT_UNTIL_HANDLED
from functions.storage.task_inbox import Transition

_log = logging.getLogger(__name__)

#: Seconds in which one message must be sent: the caller may be a run whose calls have not begun.
_SEND_SECONDS = 10

#: Starts the Durable instance of a run; returns False without a Durable client.
StartRun = Callable[[RunRequest], Awaitable[bool]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcer:
    """Announces changes; `announce` is the `Announce` of a `TaskStorage`.

    `forget` deletes the rows of messages. If `start_run` starts no run, a message requests it.
    """

    send: Callable[[SchedulerMessage], Awaitable[None]]
    forget: Callable[[Sequence[Message]], Coroutine[None, None, None]]
    start_run: StartRun
    _forgetting: set[asyncio.Task[None]] = field(default_factory=set, init=False)

    async def announce(self, transition: Transition) -> None:
        """Send the messages of a change, and request the run and the wake that follow."""
        try:
            await self._announce(transition.before, transition.after)
        except Exception:  # noqa: BLE001 - the change is written
            _log.exception("task %s: a change is not announced", transition.after.order.task)

    async def _announce(self, before: TaskRecord | None, after: TaskRecord) -> None:
        messages = list({message.id: message for message in after.outbox}.values())
        work = [self.send_once(message) for message in messages]
        is_new_run = before is None or (after.epoch, after.run) > (before.epoch, before.run)
        if is_new_run and (needs_run(after) or after.run > 1):  # a further run of an epoch has work
            work.append(self.request_run(after))
        wake_at = derive(after).wake_at
        if wake_at is not None and (before is None or wake_at != derive(before).wake_at):
            wake = WakeRequest(task=after.order.task, at=wake_at, not_before=wake_at)
            work.append(self.send_once(wake))
        if work:
            results = await asyncio.gather(*work)
            sent = [message for message, is_sent in zip(messages, results, strict=False) if is_sent]
            self.forget_soon([message for message in sent if message.kind not in KEPT_UNTIL_HANDLED])

    def forget_soon(self, messages: Sequence[Message]) -> None:
        """Delete the rows of messages of one task in the background."""
        if messages:
            forgetting = asyncio.create_task(self.forget(messages), context=Context())
            self._forgetting.add(forgetting)
            forgetting.add_done_callback(self._forgetting.discard)

    async def request_run(self, record: TaskRecord) -> bool:
        """Request the newest run of a task; return whether it is certain that it was requested."""
        request = RunRequest(task=record.order.task, epoch=record.epoch, run=record.run)
        return await _succeeds(self.start_run(request), request.id) or await self.send_once(request)

    async def send_once(self, message: SchedulerMessage) -> bool:
        """Send a message; return whether it is certain that it was sent."""
        return await _succeeds(self.send(message), message.id)


async def _succeeds(work: Awaitable[bool | None], name: str) -> bool:
    try:
        return await within(_SEND_SECONDS, work) is not False
    except Exception as fault:  # noqa: BLE001 - a client may raise anything
        _log.warning("%s is not sent: %s", name, error_text(fault))
        return False
