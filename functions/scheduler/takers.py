"""Takes the Scheduler's messages off their queues: requests for Schedulers, and replies of Agents."""

from __future__ import annotations

import logging

from functions.messages.reading import MessageReader
from functions.pattern.definition import Registry
from functions.pattern.messages import (
    AGENT_REPLIES_QUEUE,
    SCHEDULER_REQUESTS_QUEUE,
    AgentReply,
    SchedulerRequest,
)
from functions.pattern.ports import Ports, Schedulers
from functions.pattern.states import Outcome
from functions.scheduler.outcomes import Outcomes, StepAttempt, StepReport

_log = logging.getLogger(__name__)


class RequestTaker:
    """Starts the Scheduler that a message requests; its claim decides whether it may run."""

    def __init__(self, ports: Ports) -> None:
        queue = SCHEDULER_REQUESTS_QUEUE
        self._reader = MessageReader(SchedulerRequest, queue, ports.rejected, reason="not a request")

    async def take(self, message_id: str, body: bytes, schedulers: Schedulers) -> None:
        """Start the Scheduler; a message that can't be understood is recorded as rejected."""
        request = await self._reader.read(message_id, body)
        if request is not None:
            await schedulers.start(request.task_id, request.epoch)


class ReplyTaker:
    """Accepts a reply when it carries the token and the epoch of the request, in time; once.

    It is recorded before the Scheduler is woken: after a crash between the two, it is redelivered.
    """

    def __init__(self, ports: Ports, outcomes: Outcomes, registry: Registry) -> None:
        self._ports = ports
        self._outcomes = outcomes
        self._registry = registry
        self._reader = MessageReader(AgentReply, AGENT_REPLIES_QUEUE, ports.rejected, reason="not a reply")

    async def take(self, message_id: str, body: bytes, schedulers: Schedulers) -> None:
        """Take one message; one that can't be understood is recorded as rejected. Raises `TransientError`."""
        reply = await self._reader.read(message_id, body)
        if reply is None:
            return
        report = await self._record(reply)
        if report.outcome is Outcome.STALE:
            _log.info("task %s step %s: the reply counts for nothing", reply.task_id, reply.step)
            return
        await schedulers.wake(reply.task_id, reply.epoch, reply.step, report.progress(reply.step))

    async def _record(self, reply: AgentReply) -> StepReport:
        stored = await self._ports.store.recall(reply.task_id, reply.epoch)
        if stored is None or reply.epoch > stored.record.task.epoch:
            return StepReport(Outcome.STALE)
        if reply.step not in {step.name for step in stored.record.steps}:
            return StepReport(Outcome.STALE)
        attempt = StepAttempt.at(stored.record, reply.epoch, reply.step, self._registry)
        if reply.outcome is Outcome.FAILED:
            reason = reply.error or "refused without a reason"
            return await self._outcomes.failed(attempt, stored, reason, reply.token)
        return await self._outcomes.completed(attempt, stored, reply.result, reply.token)
