"""Takes the replies of Agents off their queue, records them, and wakes their Schedulers."""

from __future__ import annotations

import logging
from typing import Protocol

from functions.messages.reading import MessageReader
from functions.pattern.agent_messages import AGENT_REPLIES_QUEUE, AgentReply
from functions.pattern.identity import Epoch, StepName, TaskId
from functions.pattern.records import TaskRecord
from functions.pattern.registry import Registry
from functions.pattern.states import Outcome
from functions.pattern.store_ports import RejectedMessages, StateStore
from functions.scheduler.orchestrator import Progress
from functions.scheduler.outcomes import Outcomes, StepReport
from functions.scheduler.progress import progress_of
from functions.scheduler.turn import Turn


class WaitingSchedulers(Protocol):
    """Schedulers that wait for replies."""

    async def wake(self, task: TaskId, epoch: Epoch, step: StepName, progress: Progress) -> None:
        """Tell the Scheduler of this attempt what a reply brought. Raises `TransientError`."""


_log = logging.getLogger(__name__)


class ReplyTaker:
    """Lets a reply count when it carries the token and the epoch of the request, in time; once.

    It is recorded before the Scheduler is told: a crash between the two brings the message again, and
    what is recorded is told again.
    """

    def __init__(
        self, *, store: StateStore, outcomes: Outcomes, registry: Registry, rejected: RejectedMessages
    ) -> None:
        self._store = store
        self._outcomes = outcomes
        self._registry = registry
        self._reader = MessageReader(AgentReply, AGENT_REPLIES_QUEUE, rejected, reason="not a reply")

    async def take(self, message_id: str, body: bytes, waiting: WaitingSchedulers) -> None:
        """Take one message; one that can't be understood is kept aside. Raises `TransientError`."""
        reply = await self._reader.read(message_id, body)
        if reply is None:
            return
        report = await self._record(reply)
        if report.outcome is Outcome.STALE:
            _log.info("task %s step %s: the reply counts for nothing", reply.task_id, reply.step)
            return
        await waiting.wake(reply.task_id, reply.epoch, reply.step, progress_of(reply.step, report))

    async def _record(self, reply: AgentReply) -> StepReport:
        stored = await self._store.recall(reply.task_id, reply.epoch)
        if stored is None or not _has_step(stored.record, reply):
            return StepReport(Outcome.STALE)
        workflow = self._registry.find(stored.record.order.workflow)
        if workflow is None:
            raise LookupError(f"workflow '{stored.record.order.workflow}' is not registered")
        turn = Turn(reply.task_id, reply.epoch, workflow.step(reply.step), workflow)
        if reply.outcome is Outcome.FAILED:
            reason = reply.error or "refused without a reason"
            return await self._outcomes.failed(turn, stored, reason, reply.token)
        return await self._outcomes.completed(turn, stored, reply.result, reply.token)


def _has_step(record: TaskRecord, reply: AgentReply) -> bool:
    """Tell whether the reply names a step and an epoch that this task can have had."""
    names = {step.name for step in record.steps}
    return reply.step in names and reply.epoch <= record.task.epoch
