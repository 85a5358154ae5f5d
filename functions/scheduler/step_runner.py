"""Runs one step: check, record it running, call the Agent or send it a request, record the outcome."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import assert_never

from functions.agents.steps import carry_out
from functions.pattern.agent_messages import AgentRequest
from functions.pattern.errors import PermanentError, TransientError
from functions.pattern.events import Refused, StepStarted
from functions.pattern.identity import Epoch, StepName, TaskId
from functions.pattern.ports import Agent, AgentRequests, Clock
from functions.pattern.registry import Registry
from functions.pattern.states import Outcome, Way
from functions.pattern.steps import DONE
from functions.pattern.store_ports import StateStore, Stored
from functions.scheduler.outcomes import Outcomes, StepReport
from functions.scheduler.turn import Turn
from functions.telemetry.fields import Field
from functions.telemetry.tasks import step_span

_log = logging.getLogger(__name__)


class AgentRunner:
    """Does for every Agent what the pattern asks of it."""

    def __init__(
        self,
        *,
        store: StateStore,
        outcomes: Outcomes,
        agents: Mapping[str, Agent],
        requests: AgentRequests,
        registry: Registry,
        clock: Clock,
        new_token: Callable[[], str],
    ) -> None:
        self._store = store
        self._outcomes = outcomes
        self._agents = agents
        self._requests = requests
        self._registry = registry
        self._clock = clock
        self._new_token = new_token

    async def run(self, task: TaskId, epoch: Epoch, step: StepName) -> StepReport:
        """Run the step and report. Late or superseded, it reports and changes nothing."""
        stored = await self._store.recall(task, epoch)
        if stored is None:
            return StepReport(Outcome.STALE)
        workflow = self._registry.find(stored.record.order.workflow)
        if workflow is None:
            raise LookupError(
                f"task {task} is of workflow '{stored.record.order.workflow}', which is not registered"
            )
        turn = Turn(task, epoch, workflow.step(step), workflow)
        with step_span(stored.record, turn.step, epoch) as span:
            report = await self._take(turn, stored)
            span.set_attribute(Field.OUTCOME, report.outcome.value)
            return report

    async def _take(self, turn: Turn, stored: Stored) -> StepReport:
        if not turn.may_judge(stored.record):
            stored = await self._store.load(turn.task) or stored  # what it needs was recorded elsewhere
        if not turn.is_needed(stored.record):
            return await self._outcomes.skipped(turn, stored)
        return await self._begin(turn, stored)

    async def _begin(self, turn: Turn, stored: Stored) -> StepReport:
        complete_by = self._clock.now() + timedelta(seconds=turn.step.complete_within)
        event = StepStarted(
            epoch=turn.epoch,
            scheduler=turn.scheduler,
            step=turn.step.name,
            complete_by=complete_by,
            token=self._new_token() if turn.step.via is Way.QUEUE else None,
        )
        started = await self._store.change(stored, event)
        if isinstance(started, Refused):
            _log.info("task %s step %s: refused (%s)", turn.task, turn.step.name, started.reason)
            return StepReport(Outcome.STALE)
        record = started.record.step(turn.step.name)
        if record.state is DONE[started.record.task.direction]:
            return self._outcomes.known(turn, started)
        if record.complete_by != complete_by and not record.idempotent:
            _log.warning("task %s step %s: begun before, and it must not run twice", turn.task, record.name)
            return StepReport(Outcome.EXPIRED)
        return await self._carry_out(turn, started)

    async def _carry_out(self, turn: Turn, started: Stored) -> StepReport:
        try:
            match turn.step.via:
                case Way.ACTIVITY:
                    return await self._call(turn, started)
                case Way.QUEUE:
                    return await self._request(turn, started)
                case _:
                    assert_never(turn.step.via)
        except TransientError as fault:
            _log.warning("task %s step %s: expired (%s)", turn.task, turn.step.name, fault)
            return StepReport(Outcome.EXPIRED)

    async def _call(self, turn: Turn, started: Stored) -> StepReport:
        direction = started.record.task.direction
        try:
            result = await carry_out(self._agents[turn.step.agent], direction, turn.call(started.record))
        except PermanentError as refusal:
            return await self._outcomes.failed(turn, started, str(refusal))
        return await self._outcomes.completed(turn, started, result)

    async def _request(self, turn: Turn, started: Stored) -> StepReport:
        """Send the request; run a second time, it sends the same again, with the same token."""
        call = turn.call(started.record)
        request = AgentRequest(
            task_id=turn.task,
            step=turn.step.name,
            epoch=turn.epoch,
            token=started.record.step(turn.step.name).token or "",
            direction=started.record.task.direction,
            effect_key=call.effect_key,
            complete_by=call.complete_by,
            request=dict(call.request),
        )
        await self._requests.send(turn.step.agent, request)
        return StepReport(Outcome.REQUESTED, complete_by=call.complete_by)
