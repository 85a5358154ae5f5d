"""Announcements of written changes: messages of the outbox, the next run, and the end of the next wait.

Each is sent once. The outbox, the due index and the Supervisor are the backup, so no error is raised.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from functions.core.derive import derive, needs_run
from functions.core.error_texts import error_text
from functions.core.record import CHILD_MESSAGES, Message, TaskRecord
from functions.messaging.received_messages import within
from functions.messaging.task_messages import ReleaseRequest, RunRequest, SchedulerMessage, WakeRequest
from functions.storage.task_inbox import Transition
from functions.telemetry.task_counts import TaskCounts

_log = logging.getLogger(__name__)

#: Seconds for one message: the caller may be a run whose calls have not begun.
_SEND_SECONDS = 10

#: Starts the Durable instance of a run. Returns False if there is no Durable client.
type StartRun = Callable[[RunRequest], Awaitable[bool]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcer:
    """Announces changes, and counts them; `announce` is the `Announce` of a `TaskStorage`.

    If `start_run` starts no run, a message requests it.
    """

    send: Callable[[SchedulerMessage], Awaitable[None]]
    start_run: StartRun
    counts: TaskCounts | None = None

    async def announce(self, transition: Transition) -> Sequence[Message]:
        """Send the messages of a change, and request the next run and the next wake.

        Return the messages whose rows can be deleted.
        """
        try:
            if self.counts is not None:
                self.counts.count(transition.before, transition.after)
            return await self._announce(transition.before, transition.after)
        except Exception:  # noqa: BLE001 - the change is written
            _log.exception("task %s: a change is not announced", transition.after.order.task)
            return ()

    async def _announce(self, before: TaskRecord | None, after: TaskRecord) -> Sequence[Message]:
        messages = after.messages
        work = [self.send_once(message) for message in messages]
        is_new_run = before is None or (after.epoch, after.run) > (before.epoch, before.run)
        if is_new_run and (needs_run(after) or after.run > 1):  # a further run of an epoch has work
            work.append(self.request_run(after))
        wake_at = derive(after).wake_at
        if wake_at is not None and (before is None or wake_at != derive(before).wake_at):
            wake = WakeRequest(task=after.order.task, at=wake_at, not_before=wake_at)
            work.append(self.send_once(wake))
        sent = zip(messages, await asyncio.gather(*work), strict=False)
        return [message for message, is_sent in sent if is_sent and message.kind not in CHILD_MESSAGES]

    async def request_run(self, record: TaskRecord) -> bool:
        """Request the newest run of a task. Return False if the request may be lost."""
        request = RunRequest(task=record.order.task, epoch=record.epoch, run=record.run)
        return await _succeeds(self.start_run(request), request.id) or await self.send_once(request)

    async def request_release(self, gate: str, link: int, at: datetime) -> None:
        """Send message `link` of a gate's release chain, to be received at a time (UTC)."""
        await self.send_once(ReleaseRequest(gate=gate, link=link, at=at))

    async def send_once(self, message: SchedulerMessage) -> bool:
        """Send a message. Return False if it may be lost."""
        return await _succeeds(self.send(message), message.id)


async def _succeeds(work: Awaitable[bool | None], name: str) -> bool:
    try:
        return await within(_SEND_SECONDS, work) is not False
    except Exception as fault:  # noqa: BLE001 - a client may raise anything
        _log.warning("%s is not sent: %s", name, error_text(fault))
        return False
