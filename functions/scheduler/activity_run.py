"""One run of a task's steps: claim, call the Agents of ready steps side by side, go on with what follows.

Claim and first starts are one change of the task; so are an outcome and the starts that follow from it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import assert_never

from functions.agents.steps import carry_out
from functions.messages.patience import again_until
from functions.pattern.definition import Workflow
from functions.pattern.errors import PermanentError, TransientError, UnusableAnswerError, UnwritableError
from functions.pattern.events import (
    Claimed,
    Event,
    RefusalReason,
    Refused,
    StepCompleted,
    StepFailed,
    StepStarted,
)
from functions.pattern.folding import Follow
from functions.pattern.identity import StartId, StepName
from functions.pattern.planning import Runner, StepPlan, plan, started_by, taken_up
from functions.pattern.ports import Agent, AgentCall, Ports
from functions.pattern.records import TaskRecord
from functions.pattern.states import Outcome, Way
from functions.pattern.store_ports import Changed
from functions.scheduler.outcomes import StepAttempt
from functions.scheduler.progress import Progress, ended, progress_of
from functions.telemetry.fields import Field
from functions.telemetry.tasks import step_span

_log = logging.getLogger(__name__)

#: Refusals that tell that the task is another's, or nobody's, from now on.
_NOT_OURS = frozenset(
    {
        RefusalReason.STALE_EPOCH,
        RefusalReason.NOT_HOLDER,
        RefusalReason.FINISHED,
        RefusalReason.NO_SUCH_TASK,
    }
)


class ActivityRun:
    """One run of `run_steps`, and the newest record of the task that it has seen."""

    def __init__(
        self,
        ports: Ports,
        agents: Mapping[str, Agent],
        workflow: Workflow,
        runner: Runner,
        record: TaskRecord,
        *,
        share: bool,
    ) -> None:
        self._ports = ports
        self._agents = agents
        self._workflow = workflow
        self._runner = runner
        self._task = record.order.task
        self._newest = record
        self._share = share
        self._lost_by: RefusalReason | None = None
        #: Ids of starts that this run planned. One that stands on the record is this run's to call, whatever
        #: became of the answer to the write.
        self._planned = set[StartId]()
        self._begun = set[StepName]()
        self._steps = asyncio.TaskGroup()

    async def to_its_end(self, start_by: datetime) -> Progress:
        """Claim the task, run what is ready, and what follows, and tell how the task stands then."""
        claim = Claimed(epoch=self._runner.epoch, scheduler=self._runner.scheduler, start_by=start_by)
        follow = self._follow(is_first=True, may_share=not self._share)
        claimed = await self._tell(claim, start_by, follow)
        if isinstance(claimed, Refused):
            return ended(claimed.reason)
        async with self._steps:
            self._begin(claimed.record)
            behind = taken_up(claimed.record, self._runner)
            self._begin_steps(claimed.record, [each.name for each in behind if each.name not in self._begun])
        return self._progress()

    def _begin(self, record: TaskRecord) -> None:
        """Begin the steps whose starts are recorded, and were planned by this run."""
        started = started_by(record, self._runner, self._planned)
        self._planned -= {record.step(name).start_id for name in started}
        self._begin_steps(record, started)

    def _begin_steps(self, record: TaskRecord, names: Sequence[StepName]) -> None:
        for name in names:
            self._begun.add(name)
            self._steps.create_task(self._run_step(record, self._attempt(name)))

    async def _run_step(self, record: TaskRecord, attempt: StepAttempt) -> None:
        """Run one step, and begin what follows at once; whatever goes wrong is this step's only."""
        recorded: TaskRecord | None = None
        with step_span(record, attempt.step, attempt.epoch) as span:
            outcome = Outcome.EXPIRED
            try:
                match record.step(attempt.step.name).via:
                    case Way.ACTIVITY:
                        outcome, recorded = await self._call(attempt, record)
                    case Way.QUEUE:
                        outcome, recorded = await self._request(attempt, record)
                    case other:
                        assert_never(other)
            except TransientError as fault:
                text = "task %s step %s: no known outcome, left to the Supervisor (%s)"
                _log.warning(text, attempt.task, attempt.step.name, fault)
            except Exception:  # noqa: BLE001 - it ends in the step's recovery
                text = "task %s step %s: a defect ended it, left to the Supervisor"
                _log.exception(text, attempt.task, attempt.step.name)
            span.set_attribute(Field.OUTCOME, outcome.value)
        if recorded is not None:
            self._begin(recorded)

    async def _call(self, attempt: StepAttempt, record: TaskRecord) -> tuple[Outcome, TaskRecord | None]:
        call = attempt.call(record)
        if self._ports.clock.now() >= call.complete_by:  # Durable runs a lost activity again after minutes
            raise TransientError("its complete-by time passed before it was called")
        agent = self._agents[attempt.step.agent]
        try:
            result = await carry_out(agent, record.task.direction, call)
        except UnusableAnswerError as unusable:
            event: StepCompleted | StepFailed = attempt.failed(str(unusable), self._start_by())
            self._keep_if_done_once(call, unusable)
        except PermanentError as refusal:
            event = attempt.failed(str(refusal), self._start_by())
        else:
            event = attempt.completed(result, self._start_by())
            if isinstance(event, StepFailed):
                self._keep_if_done_once(call, event.error)
        try:
            return await self._record(event, call.complete_by)
        except UnwritableError as error:
            self._keep_if_done_once(call, error)
            return await self._record(attempt.unwritable(error, self._start_by()), call.complete_by)

    @staticmethod
    def _keep_if_done_once(call: AgentCall, fault: object) -> None:
        """Leave a step that was done, and must not be repeated, as it is: to call it refused would repeat it.

        Raises `TransientError`: its outcome can't be recorded, so the Supervisor holds the task.
        """
        if not call.idempotent:
            raise TransientError(f"it was done, but {fault}")

    async def _request(self, attempt: StepAttempt, record: TaskRecord) -> tuple[Outcome, TaskRecord | None]:
        request = attempt.agent_request(record)
        ask = partial(self._ports.agent_messages.ask, attempt.step.agent, request)
        try:
            await again_until(min(request.complete_by, self._runner.ends_at), ask, self._ports.clock)
        except PermanentError as refusal:
            event = attempt.failed(str(refusal), self._start_by(), request.token)
            return await self._record(event, request.complete_by)
        return Outcome.REQUESTED, None

    async def _record(
        self, event: StepCompleted | StepFailed, until: datetime
    ) -> tuple[Outcome, TaskRecord | None]:
        """Record an outcome, and the starts that follow from it; from a refusal, none: it ends the epoch."""
        try:
            told = await self._tell(event, until, self._follow(is_first=False, may_share=True))
        except TransientError:
            # It may be written all the same, with starts that are this run's to call.
            known = await self._ports.store.load(self._task)
            if known is None or not started_by(known.record, self._runner, self._planned):
                raise
            return Outcome.COMPLETED, known.record
        if isinstance(told, Refused):
            return Outcome.STALE, None
        return Outcome.COMPLETED if isinstance(event, StepCompleted) else Outcome.FAILED, told.record

    async def _tell(self, event: Event, until: datetime, follow: Follow) -> Changed | Refused:
        told = await self._ports.store.change(self._task, event, until=until, follow=follow)
        if isinstance(told, Changed):
            self._newest = told.record
        else:
            _log.info("task %s: %s not recorded (%s)", self._task, type(event).__name__, told.reason)
            if told.reason in _NOT_OURS:
                self._lost_by = told.reason
        return told

    def _progress(self) -> Progress:
        """Tell how the task stands; more runs are asked for only where this one has begun what it could."""
        if self._lost_by is not None:
            return ended(self._lost_by)
        may_ask = bool(self._begun) or not self._share
        left = self._plan(self._newest, self._ports.clock.now(), is_first=False, may_share=True).left
        ready = len(left) if may_ask else 0
        return progress_of(self._newest, self._runner.epoch, ready=ready, at_once=self._runner.at_once)

    def _follow(self, *, is_first: bool, may_share: bool) -> Follow:
        def follow(record: TaskRecord, now: datetime) -> Sequence[Event]:
            try:
                events = self._plan(record, now, is_first=is_first, may_share=may_share).events
            except Exception:  # noqa: BLE001 - a defect in what follows must not cost a known outcome
                _log.exception("task %s: what follows could not be planned", self._task)
                return ()
            self._planned |= {event.start_id for event in events if isinstance(event, StepStarted)}
            return events

        return follow

    def _plan(self, record: TaskRecord, now: datetime, *, is_first: bool, may_share: bool) -> StepPlan:
        return plan(
            self._workflow,
            record,
            self._runner,
            now,
            is_needed=partial(self._is_needed, record),
            is_first=is_first,
            may_share=may_share,
        )

    def _is_needed(self, record: TaskRecord, name: StepName) -> bool | None:
        try:
            return self._attempt(name).is_needed(record)
        except Exception:  # noqa: BLE001 - whatever a definition's function raises
            _log.exception("task %s step %s: its condition failed, so it is not started", self._task, name)
            return None

    def _attempt(self, name: StepName) -> StepAttempt:
        return StepAttempt(self._task, self._runner.epoch, self._workflow.step(name), self._workflow)

    def _start_by(self) -> datetime:
        return self._ports.clock.now() + self._runner.start_within
