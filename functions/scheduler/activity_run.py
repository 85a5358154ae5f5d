"""One run of a task's steps: claim, call the Agents of ready steps side by side, go on with what follows.

Claim and first starts are one change of the task; so are an outcome and the starts that follow from it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial

from functions.agents.steps import carry_out
from functions.agents.tries import Tries
from functions.messages.queues import again_until
from functions.pattern.definition import Registry
from functions.pattern.errors import PermanentError, TransientError, UnusableAnswerError, UnwritableError
from functions.pattern.events import (
    Claimed,
    Event,
    StepBroken,
    StepCompleted,
    StepOutcome,
    StepUnknown,
)
from functions.pattern.identity import StartId, StepName
from functions.pattern.planning import Runner, started_by, taken_up
from functions.pattern.ports import Agent, Ports
from functions.pattern.readiness import NotDeployedError
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import NOT_OURS, RefusalReason, Refused
from functions.pattern.states import Outcome, Way
from functions.pattern.store_ports import Changed
from functions.pattern.texts import cause_of
from functions.scheduler.calls import agent_call, agent_request
from functions.scheduler.children import Children
from functions.scheduler.outcomes import StepAttempt
from functions.scheduler.progress import Progress, ended, progress_of
from functions.scheduler.run_places import RunPlaces
from functions.scheduler.run_plan import RunPlan
from functions.telemetry.fields import Field
from functions.telemetry.spans import step_span

_log = logging.getLogger(__name__)


class ActivityRun:
    """One run of `run_steps`, and the newest record of the task that it has seen."""

    def __init__(
        self,
        ports: Ports,
        agents: Mapping[str, Agent],
        registry: Registry,
        runner: Runner,
        record: TaskRecord,
        *,
        places: RunPlaces,
        share: bool,
    ) -> None:
        self._ports = ports
        self._agents = agents
        self._registry = registry
        self._runner = runner
        self._task = record.order.task
        self._newest = record
        self._share = share
        self._lost_by: RefusalReason | None = None
        self._begun = set[StepName]()
        #: Ids of starts that an earlier run of this number may have sent: that they can't be sent again does
        #: not say that they were not done.
        self._asked_before = set[StartId | None]()
        self._children = Children(ports, registry, runner)
        self._places = places
        self._plan = RunPlan(registry, runner, self._children, places)
        self._steps = asyncio.TaskGroup()

    async def to_its_end(self, start_by: datetime) -> Progress:
        """Claim the task, run what is ready, and what follows, and tell how the task stands then."""
        await self._children.hear(self._newest, start_by)
        try:
            claimed = await self._tell(self._claim(start_by), start_by)
            if isinstance(claimed, Refused):
                return ended(claimed.reason)
            await self._run(claimed.record)
        finally:
            self._places.release()
        return self._progress()

    async def _run(self, claimed: TaskRecord) -> None:
        async with self._steps:
            self._begin(claimed)
            behind = [each for each in taken_up(claimed, self._runner) if each.name not in self._begun]
            self._asked_before = {each.start_id for each in behind}
            self._begin_steps(claimed, [each.name for each in behind])

    def _begin(self, record: TaskRecord) -> None:
        """Begin the steps whose starts are recorded, and were planned by this run."""
        started = started_by(record, self._runner, self._plan.planned)
        self._plan.planned -= {record.step(name).start_id for name in started}
        self._begin_steps(record, started)
        for name in self._children.to_reach(record):
            self._steps.create_task(self._reach_child(record, name))
        if late := self._children.late(record):
            self._steps.create_task(self._hear_of_children(record, late))
        for name in self._places.to_await():
            self._steps.create_task(self._find_place(record, name))

    def _begin_steps(self, record: TaskRecord, names: Sequence[StepName]) -> None:
        for name in names:
            self._begun.add(name)
            self._places.begin(name)
            self._steps.create_task(self._run_step(record, StepAttempt.of(record, name)))

    async def _reach_child(self, record: TaskRecord, name: StepName) -> None:
        """Make sure of the task that is a step, and go on with what follows when that is all."""
        with self._left_to_supervisor(name):
            event = await self._children.reach(record, name)
            if event is not None or not self._children.more_to_reach:
                await self._go_on(event)

    async def _hear_of_children(self, record: TaskRecord, late: Collection[StepName]) -> None:
        """Look at children whose time is over, and go on: they may have ended, and the message waits."""
        with self._left_to_supervisor(", ".join(late)):
            await self._children.hear(record, self._start_by())
            await self._go_on(None)

    async def _find_place(self, record: TaskRecord, name: StepName) -> None:
        """Find a step's place at its service, and start it, or have the task put off when that is all."""
        with self._left_to_supervisor(name):
            await self._places.find(record, name, partial(self._go_on, None))

    async def _go_on(self, event: Event | None) -> None:
        """Tell the task an event, or nothing, and begin what follows."""
        start_by = self._start_by()
        told = await self._tell(event or self._claim(start_by), start_by)
        if isinstance(told, Changed):
            self._begin(told.record)

    @contextmanager
    def _left_to_supervisor(self, name: str) -> Iterator[None]:
        try:
            yield
        except TransientError as fault:
            _log.warning("task %s step %s: its task is left to the Supervisor (%s)", self._task, name, fault)
        except Exception:  # noqa: BLE001 - it ends in the task's recovery
            _log.exception("task %s step %s: a defect, left to the Supervisor", self._task, name)

    async def _run_step(self, record: TaskRecord, attempt: StepAttempt) -> None:
        """Run one step, and begin what follows at once; whatever goes wrong is this step's only."""
        recorded: TaskRecord | None = None
        shape, start = record.step(attempt.step).shape, attempt.start_id
        note, clock = self._ports.store.note, self._ports.clock
        tries = Tries(note, clock, task=self._task, epoch=attempt.epoch, step=attempt.step, start_id=start)
        with step_span(record, shape, attempt.epoch) as span:
            outcome = Outcome.EXPIRED
            try:
                if shape.via is Way.QUEUE:
                    outcome, recorded = await self._request(attempt, record)
                else:
                    outcome, recorded = await self._call(attempt, record, tries)
            except TransientError as fault:
                text = "task %s step %s: no known outcome, left to the Supervisor (%s)"
                _log.warning(text, attempt.task, attempt.step, type(fault).__name__)
                outcome, recorded = await self._without_outcome(attempt, record, tries, fault)
            except Exception as defect:  # noqa: BLE001 - it ends in the step's recovery
                text = "task %s step %s: a defect ended it, left to the Supervisor"
                _log.exception(text, attempt.task, attempt.step)
                await tries.ended(defect)
            span.set_attribute(Field.OUTCOME, outcome.value)
            self._places.end(attempt.step)
        if recorded is not None:
            self._begin(recorded)

    async def _call(
        self, attempt: StepAttempt, record: TaskRecord, tries: Tries
    ) -> tuple[Outcome, TaskRecord | None]:
        try:
            call = agent_call(self._registry, record, attempt.step)
        except NotDeployedError:
            raise  # it was, when the step was planned: a Supervisor's next epoch looks again
        except Exception as defect:  # noqa: BLE001 - whatever a definition's function raises
            return await self._stop(attempt, record, defect)
        if self._ports.clock.now() >= call.complete_by:  # Durable runs a lost activity again after minutes
            raise TransientError("its complete-by time passed before it was called")
        agent = self._agents[record.step(attempt.step).shape.agent]
        try:
            with self._places.given(attempt.step):
                result = await carry_out(agent, record.task.direction, replace(call, failed=tries.failed))
        except UnusableAnswerError as unusable:
            event: StepOutcome = attempt.unusable(str(unusable), self._start_by())
        except PermanentError as refusal:
            event = attempt.failed(str(refusal), self._start_by())
        else:
            event = attempt.completed(result, self._start_by())
        return await self._record_outcome(attempt, event, call.complete_by)

    async def _request(self, attempt: StepAttempt, record: TaskRecord) -> tuple[Outcome, TaskRecord | None]:
        try:
            request = agent_request(self._registry, record, attempt.step)
        except NotDeployedError:
            raise  # as above
        except Exception as defect:  # noqa: BLE001 - as above
            return await self._stop(attempt, record, defect)
        ask = partial(self._ports.agent_messages.ask, record.step(attempt.step).shape.agent, request)
        await again_until(min(request.complete_by, self._runner.ends_at), ask, self._ports.clock)
        return Outcome.REQUESTED, None

    async def _stop(
        self, attempt: StepAttempt, record: TaskRecord, defect: Exception
    ) -> tuple[Outcome, TaskRecord | None]:
        """Record what a defect in the step's definition does: its task is held.

        Raises `TransientError` for a step that may be done by now: its outcome is still to come.
        """
        if attempt.start_id in self._asked_before:
            raise TransientError(f"begun before, and can't be asked for again: {cause_of(defect)}")
        text = "task %s step %s: its definition has a defect, so the task is held"
        _log.error(text, attempt.task, attempt.step, exc_info=defect)
        until = record.step(attempt.step).complete_by or self._start_by()
        return await self._record(attempt.broken(defect, self._start_by()), until)

    async def _without_outcome(
        self, attempt: StepAttempt, record: TaskRecord, tries: Tries, fault: TransientError
    ) -> tuple[Outcome, TaskRecord | None]:
        """Leave a step to the Supervisor, or go on at once without one that may fail."""
        if not record.step(attempt.step).may_fail or attempt.is_undo:
            await tries.ended(fault)
            return Outcome.EXPIRED, None
        start_by = self._start_by()
        try:
            return await self._record(attempt.unknown(fault, start_by), start_by)
        except TransientError as unwritten:
            await tries.ended(unwritten)
            return Outcome.EXPIRED, None

    async def _record_outcome(
        self, attempt: StepAttempt, event: StepOutcome, complete_by: datetime
    ) -> tuple[Outcome, TaskRecord | None]:
        """Record what came of a call; of one that must not be repeated, also after its complete-by."""
        until = complete_by if attempt.is_repeatable else max(complete_by, self._runner.ends_at)
        try:
            return await self._record(event, until)
        except UnwritableError as error:
            return await self._record(attempt.unwritable(event, error, self._start_by()), until)

    async def _record(
        self, event: StepOutcome | StepUnknown | StepBroken, until: datetime
    ) -> tuple[Outcome, TaskRecord | None]:
        """Record an outcome, and the starts that follow from it; from a refusal, none: it ends the epoch."""
        told = await self._tell(event, until)
        if isinstance(told, Refused):
            return Outcome.STALE, None
        return Outcome.COMPLETED if isinstance(event, StepCompleted) else Outcome.FAILED, told.record

    async def _tell(self, event: Event, until: datetime) -> Changed | Refused:
        """Tell the task an event, with the starts that follow from it."""
        follow = self._plan.follow(is_first=not self._begun, may_share=self._may_share)
        try:
            told = await self._ports.store.change(self._task, event, until=until, follow=follow)
        except Exception as fault:
            self._places.forget(follow)
            # It may be written all the same, with starts that are this run's to call.
            known = await self._ports.store.load(self._task) if isinstance(fault, TransientError) else None
            if known is None or not started_by(known.record, self._runner, self._plan.planned):
                raise
            told = Changed(known.record)
        if isinstance(told, Changed):
            self._newest = told.record
        else:
            self._places.forget(follow)
            _log.info("task %s: %s not recorded (%s)", self._task, type(event).__name__, told.reason)
            if told.reason in NOT_OURS:
                self._lost_by = told.reason
        return told

    def _progress(self) -> Progress:
        """Tell how the task stands; more runs are asked for only where this one has begun what it could."""
        if self._lost_by is not None:
            return ended(self._lost_by)
        ready = len(self._plan.left(self._newest, self._ports.clock.now())) if self._may_share else 0
        of, at_once = (self._runner.epoch, self._runner.scheduler), self._runner.at_once
        again_at = self._places.again_at
        return progress_of(self._newest, *of, ready=ready, at_once=at_once, again_at=again_at)

    @property
    def _may_share(self) -> bool:
        """Tell whether more runs may be asked for: this one has begun what it could, or is the first."""
        return bool(self._begun) or not self._share

    def _claim(self, start_by: datetime) -> Claimed:
        return Claimed(epoch=self._runner.epoch, scheduler=self._runner.scheduler, start_by=start_by)

    def _start_by(self) -> datetime:
        return self._ports.clock.now() + self._runner.start_within
