"""Takes the Scheduler's messages off their queues: requests for Schedulers, and replies of Agents."""

from __future__ import annotations

import logging
from datetime import timedelta
from functools import partial

from functions.messages.reading import MessageReader
from functions.pattern.errors import UnwritableError
from functions.pattern.events import Refused
from functions.pattern.messages import (
    AGENT_REPLIES_QUEUE,
    SCHEDULER_REQUESTS_QUEUE,
    AgentReply,
    SchedulerRequest,
)
from functions.pattern.planning import ready_steps
from functions.pattern.ports import Ports, Schedulers
from functions.pattern.records import TaskRecord
from functions.pattern.states import Outcome
from functions.scheduler.outcomes import StepAttempt
from functions.scheduler.progress import Progress, progress_of
from functions.scheduler.run_steps import RunLimits

_log = logging.getLogger(__name__)


class RequestTaker:
    """Starts the Scheduler that a message requests; its claim decides whether it may run."""

    def __init__(self, ports: Ports) -> None:
        queue = SCHEDULER_REQUESTS_QUEUE
        self._store = ports.store
        self._reader = MessageReader(SchedulerRequest, queue, ports.rejected, reason="not a request")

    async def take(self, message_id: str, body: bytes, schedulers: Schedulers) -> None:
        """Start the Scheduler; a message that can't be understood is recorded as rejected."""
        request = await self._reader.read(message_id, body)
        if request is None:
            return
        queued = request.queued
        if queued is None:
            record = await self._store.known(request.task_id)
            queued = () if record is None else record.queued
        await schedulers.start(request.task_id, request.epoch, queued)


class ReplyTaker:
    """Accepts a reply when it carries the token and the epoch of the request, in time; once.

    It is recorded before the Scheduler is woken: after a crash between the two, it is redelivered.
    """

    def __init__(self, ports: Ports, limits: RunLimits) -> None:
        self._ports = ports
        self._limits = limits
        self._reader = MessageReader(AgentReply, AGENT_REPLIES_QUEUE, ports.rejected, reason="not a reply")

    async def take(self, message_id: str, body: bytes, schedulers: Schedulers) -> None:
        """Take one message; one that can't be understood is recorded as rejected. Raises `TransientError`."""
        reply = await self._reader.read(message_id, body)
        if reply is None:
            return
        progress = await self._record(reply)
        if progress is None:
            text = "task %s step %s: a reply is ignored: it is late, or answers no request that is open"
            _log.info(text, reply.task_id, reply.step)
            return
        await schedulers.wake(reply.task_id, reply.epoch, reply.step, progress)

    async def _record(self, reply: AgentReply) -> Progress | None:
        """Record what the reply says, and give how the task stands then; None when it counts for nothing."""
        record = await self._record_of(reply)
        if record is None or reply.step not in {step.name for step in record.steps}:
            return None
        recorded = await self._change(reply, record)
        if recorded is None:
            return None
        # Nothing follows within the change: what is ready is run where its Scheduler says.
        ready = len(ready_steps(recorded))
        return progress_of(recorded, reply.epoch, ready=ready, at_once=self._limits.at_once)

    async def _record_of(self, reply: AgentReply) -> TaskRecord | None:
        """Give the task's record, unless there is none, or none of the reply's epoch yet."""
        record = await self._ports.store.known(reply.task_id)
        if record is not None and record.task.epoch < reply.epoch:
            stored = await self._ports.store.load(reply.task_id)
            record = None if stored is None else stored.record
        return None if record is None or record.task.epoch < reply.epoch else record

    async def _change(self, reply: AgentReply, record: TaskRecord) -> TaskRecord | None:
        attempt = StepAttempt(reply.task_id, reply.epoch, reply.step)
        start_by = self._ports.clock.now() + timedelta(seconds=self._limits.start_within)
        if reply.outcome is Outcome.COMPLETED:
            event = attempt.completed(reply.result, start_by, reply.token)
        else:
            event = attempt.failed(reply.error or "refused without a reason", start_by, reply.token)
        step = record.step(reply.step)
        until = step.complete_by if step.epoch == reply.epoch else None
        change = partial(self._ports.store.change, reply.task_id, until=until)
        try:
            changed = await change(event)
        except UnwritableError as error:
            changed = await change(attempt.unwritable(error, start_by, reply.token))
        return None if isinstance(changed, Refused) else changed.record
