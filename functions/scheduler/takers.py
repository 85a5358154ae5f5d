"""Takes the Scheduler's messages off their queues: requests for Schedulers, and replies of Agents."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from functions.messages.ends import Parents
from functions.messages.reading import MessageReader, NotAMessageError
from functions.pattern.agent_messages import AgentReply
from functions.pattern.epochs import awaited, is_busy
from functions.pattern.errors import UnwritableError
from functions.pattern.events import StepNotTaken, StepReply
from functions.pattern.identity import Epoch, StepName, scheduler_id, start_of
from functions.pattern.late import replied_step
from functions.pattern.messages import SCHEDULER_REQUESTS_QUEUE, SchedulerRequest
from functions.pattern.ports import Ports, Schedulers
from functions.pattern.ready import ready_steps
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import Refused
from functions.pattern.states import Outcome, StepState
from functions.scheduler.ignored import NO_SUCH_EPOCH, NO_SUCH_STEP, NO_SUCH_TASK, Ignored, ignored
from functions.scheduler.outcomes import StepAttempt
from functions.scheduler.progress import Progress, progress_of
from functions.scheduler.refused_replies import AlertRefused, RefusedReplies, known_done, read_reply
from functions.scheduler.run_steps import RunLimits
from functions.scheduler.signs_of_life import SignsOfLife
from functions.telemetry.fields import Field
from functions.telemetry.instruments import FORGED_REPLIES

_log = logging.getLogger(__name__)


class RequestTaker:
    """Starts the Scheduler that a message requests; its claim decides whether it may run."""

    def __init__(self, ports: Ports, limits: RunLimits) -> None:
        queue = SCHEDULER_REQUESTS_QUEUE
        self._store = ports.store
        self._parents = Parents(ports.store, ports.clock, timedelta(seconds=limits.start_within))
        self._reader = MessageReader(SchedulerRequest, queue, ports.rejected)

    async def take(self, message_id: str, body: bytes, schedulers: Schedulers) -> None:
        """Start the Scheduler; a message that can't be understood is recorded as rejected."""
        request = await self._reader.read(message_id, body)
        if request is None:
            return
        if request.ended:
            await self._parents.tell(request.task_id)
            return
        if request.wake is not None:
            await self._wake(request, request.wake, schedulers)
            return
        await schedulers.start(request.task_id, request.epoch, request.queued, run=request.run)

    async def _wake(self, request: SchedulerRequest, step: StepName, schedulers: Schedulers) -> None:
        """Have the Scheduler that holds a task hear of a step's end: it runs what is ready by now."""
        stored = await self._store.load(request.task_id)
        if stored is None:
            return
        scheduler = scheduler_id(request.task_id, request.epoch, request.run)
        ready = min(1, _to_run(stored.record))
        progress = progress_of(stored.record, request.epoch, scheduler, ready=ready, at_once=1)
        of_epoch = (each for each in stored.record.steps if (each.name, each.epoch) == (step, request.epoch))
        dispatch = next((each.dispatch_of(None) for each in of_epoch), 1)
        woken = partial(schedulers.wake, request.task_id, request.epoch, step, progress)
        await woken(run=request.run, dispatch=dispatch)


@dataclass(frozen=True, slots=True)
class _Heard:
    """What a recorded reply brought: of which dispatch of its step, for which run of the Scheduler."""

    step: StepName
    progress: Progress
    run: int | None
    dispatch: int


class ReplyTaker:
    """Accepts a reply when it carries the token and the epoch of the request, in time; once.

    It is recorded before the Scheduler is woken: after a crash between the two, it is redelivered. `alert`
    hears of replies that can't be read.
    """

    def __init__(self, ports: Ports, limits: RunLimits, alert: AlertRefused) -> None:
        self._ports = ports
        self._limits = limits
        self._signs = SignsOfLife(ports)
        self._refused = RefusedReplies(ports, alert, self._signs)

    async def take(self, message_id: str, body: bytes, schedulers: Schedulers) -> None:
        """Take one message; one that can't be understood is recorded as rejected. Raises `TransientError`."""
        try:
            reply: AgentReply | None = read_reply(body)
        except NotAMessageError as error:
            await self._refused.refuse(message_id, body, error)
            reply = known_done(error)
        if reply is None:
            return
        heard = await self._heard(reply)
        if isinstance(heard, Ignored):
            level = logging.WARNING if heard.may_be_forged else logging.INFO
            text = "task %s step %s: a reply counts for nothing: %s"
            _log.log(level, text, reply.task_id, reply.step, heard.why)
            return
        woken = partial(schedulers.wake, reply.task_id, reply.epoch, heard.step, heard.progress)
        await woken(run=heard.run, dispatch=heard.dispatch)

    async def _heard(self, reply: AgentReply) -> _Heard | Ignored:
        """Record what the reply says of a step, which may be an item; or give why it is ignored."""
        record = await self._record_of(reply)
        if isinstance(record, Ignored):
            return record
        step = replied_step(record, reply.step, reply.token, reply.epoch)
        if step is None:
            return NO_SUCH_STEP
        return await self._record(reply.model_copy(update={"step": step}), record)

    async def _record(self, reply: AgentReply, record: TaskRecord) -> _Heard | Ignored:
        """Record what the reply says; give how the task stands then, or why it is ignored."""
        agent = record.step(reply.step).shape.agent
        recorded = await self._change(reply, record)
        if isinstance(recorded, Ignored) and recorded.may_be_forged:
            FORGED_REPLIES.add(1, {Field.AGENT: agent})
            return recorded
        await self._signs.heard_of(agent)
        if isinstance(recorded, Ignored):
            return recorded
        # Nothing follows within the change: what is ready is run where its Scheduler says.
        ready = _to_run(recorded)
        run = _run_of(reply.epoch, recorded)
        scheduler = scheduler_id(reply.task_id, reply.epoch, run)
        at_once = self._limits.at_once
        progress = progress_of(recorded, reply.epoch, scheduler, ready=ready, at_once=at_once)
        dispatch = recorded.step(reply.step).dispatch_of(start_of(reply.token))
        return _Heard(reply.step, progress, run, dispatch)

    async def _record_of(self, reply: AgentReply) -> TaskRecord | Ignored:
        """Give the record of the task, which must have the reply's epoch.

        Whoever has sent the request that is replied to has recorded its token before.
        """
        record = await self._ports.store.known(reply.task_id)
        tokens = () if record is None else {step.token for step in record.steps_of(reply.step)}
        if record is not None and reply.token not in tokens:
            stored = await self._ports.store.load(reply.task_id)
            record = None if stored is None else stored.record
        if record is None:
            return NO_SUCH_TASK
        if record.task.epoch < reply.epoch:
            return NO_SUCH_EPOCH
        return record

    async def _change(self, reply: AgentReply, record: TaskRecord) -> TaskRecord | Ignored:
        attempt, step = _attempt(reply, record), record.step(reply.step)
        start_by = self._ports.clock.now() + timedelta(seconds=self._limits.start_within)
        event = _outcome(reply, attempt, start_by)
        until = step.complete_by if step.epoch == reply.epoch and attempt.is_repeatable else None
        change = partial(self._ports.store.change, reply.task_id, until=until)
        try:
            changed = await change(event)
        except UnwritableError as error:
            if isinstance(event, StepNotTaken):
                raise
            changed = await change(attempt.unwritable(event, error, start_by))
        if isinstance(changed, Refused):
            newest = await self._ports.store.known(reply.task_id)
            return ignored(reply, newest or record, changed.reason, self._ports.clock.now())
        return changed.record


def _to_run(record: TaskRecord) -> int:
    """Count what is ready; where nothing is left but to wait, one run lets go of the task."""
    only_waits = bool(awaited(record)) and not is_busy(record)
    return len(ready_steps(record)) or int(only_waits)


def _run_of(epoch: Epoch, record: TaskRecord) -> int | None:
    """Tell which run of its epoch has the task; of an older epoch, it makes no difference."""
    return record.task.run if record.task.epoch == epoch else None


def _attempt(reply: AgentReply, record: TaskRecord) -> StepAttempt:
    """Give the attempt that a reply claims to be of; its token shows whether that is so."""
    step = record.step(reply.step)
    is_undo = step.state is StepState.UNDOING and step.token == reply.token
    return StepAttempt(
        task=reply.task_id,
        epoch=reply.epoch,
        scheduler=scheduler_id(reply.task_id, reply.epoch, _run_of(reply.epoch, record)),
        step=reply.step,
        start_id=start_of(reply.token),
        is_repeatable=step.shape.idempotent or is_undo,
        is_undo=is_undo,
        token=reply.token,
    )


def _outcome(reply: AgentReply, attempt: StepAttempt, start_by: datetime) -> StepReply:
    if reply.outcome is Outcome.NOT_TAKEN:
        return attempt.not_taken(start_by)
    if reply.outcome is Outcome.FAILED:
        return attempt.failed(reply.error or "refused without a reason", start_by)
    if reply.no_result:
        return attempt.unusable(reply.no_result, start_by)
    return attempt.completed(reply.result, start_by)
