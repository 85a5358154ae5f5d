"""Runs one step: check, record it running, call the Agent, record the outcome."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from functions.pattern.definition import Json, Step, Workflow
from functions.pattern.errors import PermanentError, TransientError
from functions.pattern.events import Refused, StepCompleted, StepFailed, StepStarted
from functions.pattern.identity import Epoch, SchedulerId, StepName, TaskId, effect_key, scheduler_id
from functions.pattern.planning import ready_steps
from functions.pattern.ports import Agent, AgentCall, Clock, StateStore, Stored
from functions.pattern.records import TaskRecord
from functions.pattern.registry import Registry
from functions.pattern.states import Direction, Outcome, ProcessState
from functions.pattern.steps import DONE

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StepReport:
    """What the Scheduler needs to know of a step: its outcome, and what follows in the task."""

    outcome: Outcome
    ready: tuple[StepName, ...] = ()
    state: ProcessState | None = None


@dataclass(frozen=True, slots=True)
class _Turn:
    """One step of one attempt at a task."""

    task: TaskId
    epoch: Epoch
    step: Step
    workflow: Workflow

    @property
    def scheduler(self) -> SchedulerId:
        return scheduler_id(self.task, self.epoch)


class AgentRunner:
    """Does for every Agent what the pattern asks of it.

    `start_within` is the time, in seconds, in which the Scheduler must start what follows a step.
    """

    def __init__(
        self,
        *,
        store: StateStore,
        agents: Mapping[str, Agent],
        registry: Registry,
        clock: Clock,
        start_within: float,
    ) -> None:
        self._store = store
        self._agents = agents
        self._registry = registry
        self._clock = clock
        self._start_within = timedelta(seconds=start_within)

    async def run(self, task: TaskId, epoch: Epoch, step: StepName) -> StepReport:
        """Run the step and report. Late or superseded, it reports and changes nothing."""
        stored = await self._store.recall(task)
        if stored is None:
            return StepReport(Outcome.STALE)
        workflow = self._registry.find(stored.record.order.workflow)
        if workflow is None:
            raise LookupError(
                f"task {task} is of workflow '{stored.record.order.workflow}', which is not registered"
            )
        turn = _Turn(task, epoch, workflow.step(step), workflow)
        complete_by = self._clock.now() + timedelta(seconds=turn.step.complete_within)
        started = await self._start(turn, stored, complete_by)
        if isinstance(started, Refused):
            _log.info("task %s step %s: refused (%s)", task, step, started.reason)
            return StepReport(Outcome.STALE)
        record = started.record.step(step)
        if record.state is DONE[started.record.task.direction]:
            return self._report(turn, started.record)
        if record.complete_by != complete_by and not record.idempotent:
            _log.warning("task %s step %s: begun before, and it must not run twice", task, step)
            return StepReport(Outcome.EXPIRED)
        return await self._call(turn, started)

    async def _start(self, turn: _Turn, stored: Stored, complete_by: datetime) -> Stored | Refused:
        return await self._store.change(
            stored,
            StepStarted(
                epoch=turn.epoch, scheduler=turn.scheduler, step=turn.step.name, complete_by=complete_by
            ),
        )

    async def _call(self, turn: _Turn, started: Stored) -> StepReport:
        agent = self._agents[turn.step.agent]
        call = self._agent_call(turn, started.record)
        try:
            if started.record.task.direction is Direction.DO:
                result = await agent.do(call)
            else:
                await agent.undo(call)
                result = {}
        except PermanentError as refusal:
            return await self._record_failure(turn, started, str(refusal))
        except TransientError as fault:
            _log.warning("task %s step %s: expired (%s)", turn.task, turn.step.name, fault)
            return StepReport(Outcome.EXPIRED)
        return await self._record_result(turn, started, result)

    def _agent_call(self, turn: _Turn, record: TaskRecord) -> AgentCall:
        payload = turn.workflow.payload.model_validate_json(record.order.payload)
        results: dict[StepName, Json] = {
            step.name: json.loads(step.result) for step in record.steps if step.result is not None
        }
        complete_by = record.step(turn.step.name).complete_by
        if complete_by is None:
            raise ValueError(f"task {turn.task} step {turn.step.name} runs without a complete-by")
        return AgentCall(
            task=turn.task,
            effect_key=effect_key(turn.task, turn.step.name, record.task.direction),
            request=turn.step.request(payload, results),
            complete_by=complete_by,
        )

    async def _record_result(self, turn: _Turn, started: Stored, result: Json) -> StepReport:
        event = StepCompleted(
            epoch=turn.epoch,
            scheduler=turn.scheduler,
            step=turn.step.name,
            result=json.dumps(dict(result), separators=(",", ":"), ensure_ascii=False).encode(),
            start_by=self._clock.now() + self._start_within,
        )
        recorded = await self._store.change(started, event)
        if isinstance(recorded, Refused):
            return StepReport(Outcome.STALE)
        return self._report(turn, recorded.record)

    async def _record_failure(self, turn: _Turn, started: Stored, reason: str) -> StepReport:
        event = StepFailed(
            epoch=turn.epoch,
            scheduler=turn.scheduler,
            step=turn.step.name,
            error=reason,
            start_by=self._clock.now() + self._start_within,
        )
        recorded = await self._store.change(started, event)
        if isinstance(recorded, Refused):
            return StepReport(Outcome.STALE)
        return StepReport(Outcome.FAILED, state=recorded.record.task.process_state)

    def _report(self, turn: _Turn, record: TaskRecord) -> StepReport:
        return StepReport(Outcome.COMPLETED, ready_steps(turn.workflow, record), record.task.process_state)
