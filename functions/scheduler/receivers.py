"""The handlers of replies, events and messages. Each records one event, and none waits for a task.

If a step becomes ready, the announcement of the change requests the next run. After an error of a handler
its message must be delivered again. Times are UTC.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, assert_never

from functions.core import task_events as events
from functions.core.definition.workflow_definition import UnfitOrderError, WorkflowRegistry
from functions.core.derive import ProcessState, derive, needs_run
from functions.core.epoch_rules import add_child_ended
from functions.core.json_values import UnfitValueError
from functions.core.plan import checked_result
from functions.core.record import (
    Direction,
    Message,
    MessageKind,
    NotDeployedError,
    Order,
    RuleSettings,
    StepType,
    TaskRecord,
)
from functions.core.rules import Applied, admit
from functions.messaging.agent_messages import AgentReply
from functions.messaging.announcer import Announcer, StartRun
from functions.messaging.task_messages import ReleaseRequest, RunRequest, SchedulerMessage, WakeRequest
from functions.scheduler.run import record_outcome, with_valid_result
from functions.storage.gate_releases import GateReleases
from functions.storage.gates import Gates
from functions.storage.table_contract import NoSuchTaskError
from functions.storage.task_storage import TaskStorage

_log = logging.getLogger(__name__)

#: The longest delay after the end of a wait whose message arrived early.
_LONGEST_DELAY = timedelta(seconds=5)
#: The run id of child tasks, whose ids are never used again.
_CHILD_RUN_ID = "child"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receivers:
    """Receives replies, events and messages in this process.

    `start_run` starts a Durable instance. `finders` are the gates of the Agents that can look up effects. A
    handler raises `NoSuchTaskError` for a deleted task: its message has no effect any more.
    """

    storage: TaskStorage
    registry: WorkflowRegistry
    announcer: Announcer
    gates: Gates
    releases: GateReleases
    settings: RuleSettings
    now: Callable[[], datetime]
    start_run: StartRun
    finders: frozenset[str] = frozenset()

    async def reply(self, reply: AgentReply) -> Applied:
        """Record the reply of an Agent behind a queue, and count it at the gate. Raises `StorageError`."""
        event = reply.event
        record = await self._load(reply.task_id, may_be_outdated=True)
        if record.step(event.step).operation(event.direction).start_id != event.start_id:
            record = await self._load(reply.task_id)
        ended = with_valid_result(record, self.registry, event)
        applied = await record_outcome(partial(self.storage.change, reply.task_id), ended)
        if applied.rejection is not None:
            _log.info("task %s step %s: reply rejected: %s", reply.task_id, reply.step, applied.rejection)
        spec = applied.record.order.by_name.get(ended.step)
        if spec is not None and spec.type is StepType.QUEUE:
            operation = applied.record.step(ended.step).operation(ended.direction)
            is_current = operation.start_id == ended.start_id and not ended.is_look_up
            sent_at = operation.started_at if is_current else None
            is_outdated = applied.rejection is not None and not is_current
            is_not_taken = ended.kind is events.OutcomeKind.NOT_BEGUN and not ended.is_look_up
            await self.gates.reply(spec.gate, sent_at, is_taken=is_outdated or not is_not_taken)
        return applied

    async def receive(self, message: SchedulerMessage) -> None:
        """Handle a message of the application. Raises `StorageError` and `NotDeployedError`.

        A child task's payload may also raise `UnfitOrderError`, and `ValidationError` of its model.
        """
        match message:
            case RunRequest():
                await self.start_run(message)  # its function has a Durable client
            case WakeRequest():
                await self._wake(message)
            case ReleaseRequest():
                await self.releases.release(message.gate, message.link)
            case Message():
                with suppress(NoSuchTaskError):
                    match message.kind:
                        case MessageKind.START_CHILD:
                            await self._start_child(message)
                        case MessageKind.CANCEL_CHILD:
                            await self._cancel_child(message)
                        case MessageKind.CHILD_ENDED:
                            await self._end_child(await self.storage.load(message.task))
                        case _:
                            raise ValueError(f"message {message.id} is for another receiver")
                self.storage.forget_soon([message])
            case _:
                assert_never(message)

    async def _load(self, task: str, *, may_be_outdated: bool = False) -> TaskRecord:
        """Return the newest record of a task, or one that may be outdated. Raises `StorageError`."""
        record = await (self.storage.cached(task) if may_be_outdated else self.storage.load(task))
        if record is None:
            raise NoSuchTaskError(task)
        return record

    async def _wake(self, message: WakeRequest) -> None:
        """Examine a task whose wait has ended. A message that arrives early is sent again."""
        applied = await self.storage.change(message.task, await self.gates.due())
        lead = min(message.at - self.now(), _LONGEST_DELAY)
        if lead > timedelta() and derive(applied.record).wake_at == message.at:
            again = replace(message, not_before=message.at + lead, attempt=message.attempt + 1)
            await self.announcer.send_once(again)

    async def _start_child(self, message: Message) -> None:
        """Admit the task of a workflow step. A task on record stays as it is."""
        body: Any = message.body
        workflow = self.registry.accepting(body["workflow"], body["payload"])
        parent = await self._load(message.task)
        if not message.id.startswith(f"{message.task}.{parent.order.run_id}."):
            return  # of an earlier task of this id
        if workflow is None:
            raise NotDeployedError(f"workflow {body['workflow']} is not deployed")
        now = self.now()
        order = workflow.new_order(
            message.to,
            _CHILD_RUN_ID,
            body["payload"],
            now,
            finders=self.finders,
            submitter=parent.order.submitter,
            correlation_id=parent.order.correlation_id,
            traceparent=parent.order.traceparent,
            parent=message.task,
            parent_step=body["step"],
        )
        try:
            keys = workflow.search_keys(order.payload, len(order.specs))
        except UnfitOrderError as fault:  # the parent does not need the search texts
            _log.warning("task %s has no search texts: %s", message.to, fault)
            keys = ()
        child, is_new = await self.storage.admit(admit(order, now, self.settings), keys)
        if not is_new and needs_run(child):
            await self.announcer.request_run(child)
        if not is_new:
            await self._end_child(child)  # its parent may have started it again

    async def _cancel_child(self, message: Message) -> None:
        """Cancel a child task. One that is not on record is recorded as undone, so that it never starts."""
        cancelled = events.Cancelled(
            by=events.Canceller.PARENT, who=message.task, reason="its parent is undone"
        )
        try:
            await self.storage.change(message.to, cancelled)
        except NoSuchTaskError:
            _, is_new = await self.storage.admit(_tombstone(message, self.now()))
            if not is_new:
                await self.storage.change(message.to, cancelled)

    async def _end_child(self, child: TaskRecord | None) -> None:
        """Record the end of a child task, or of its undo, on its parent."""
        if child is None or child.order.parent is None or child.order.parent_step is None:
            return
        state = derive(child).state
        if state not in {ProcessState.PROCESSED, ProcessState.COMPENSATED}:
            return
        parent = await self._load(child.order.parent)
        step, name = child.order.parent_step, child.order.task
        is_done = state is ProcessState.PROCESSED
        ended = events.ChildEnded(step=step, run_id=parent.order.run_id, child=name, is_done=is_done)
        result, error = None, child.reason or (None if is_done else "its task was undone")
        try:
            if is_done and error is None:
                result = checked_result(parent, self.registry, step, child.output or "{}")
        except UnfitValueError as fault:  # an output that the step's model rejects is no result
            error = str(fault)
        await self.storage.change(parent.order.task, replace(ended, result=result, error=error))


def _tombstone(message: Message, now: datetime) -> TaskRecord:
    """Return the record of a child task that was undone before it began."""
    body: Any = message.body
    order = Order(
        task=message.to,
        run_id=_CHILD_RUN_ID,
        workflow=body["workflow"],
        version=0,
        digest="",
        specs=(),
        payload="{}",
        submitter="",
        submitted_at=now,
        parent=message.task,
        parent_step=body["step"],
    )
    undone = TaskRecord(order=order, start_by=now, direction=Direction.UNDO, finished_at=now)
    return add_child_ended(undone, now)
