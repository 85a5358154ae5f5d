"""Runs one step: check, record it running, call the Agent or send it a request, record the outcome."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import assert_never

from functions.agents.steps import carry_out
from functions.pattern.definition import Registry
from functions.pattern.errors import PermanentError, TransientError
from functions.pattern.events import Refused, StepStarted
from functions.pattern.identity import Epoch, StepName, TaskId
from functions.pattern.messages import AgentRequest
from functions.pattern.ports import Agent, Ports
from functions.pattern.states import Outcome, Way
from functions.pattern.steps import DONE, ready_steps
from functions.pattern.store_ports import Stored
from functions.scheduler.outcomes import Outcomes, StepAttempt, StepReport
from functions.telemetry.fields import Field
from functions.telemetry.tasks import step_span

_log = logging.getLogger(__name__)


class StepRunner:
    """Does for every Agent what the pattern asks of it; `agents` are by name."""

    def __init__(
        self, ports: Ports, outcomes: Outcomes, agents: Mapping[str, Agent], registry: Registry
    ) -> None:
        self._ports = ports
        self._outcomes = outcomes
        self._agents = agents
        self._registry = registry

    async def run(self, task: TaskId, epoch: Epoch, step: StepName) -> StepReport:
        """Run the step and report. Late or superseded, it reports and changes nothing."""
        stored = await self._ports.store.recall(task, epoch)
        if stored is None:
            return StepReport(Outcome.STALE)
        attempt = StepAttempt.at(stored.record, epoch, step, self._registry)
        with step_span(stored.record, attempt.step, epoch) as span:
            report = await self._attempt(attempt, stored)
            span.set_attribute(Field.OUTCOME, report.outcome.value)
            return report

    async def _attempt(self, attempt: StepAttempt, stored: Stored) -> StepReport:
        if not all(stored.record.step(each).settled for each in attempt.step.needs):
            # What it needs was recorded by another process.
            stored = await self._ports.store.load(attempt.task) or stored
        if not attempt.is_needed(stored.record):
            return await self._outcomes.skipped(attempt, stored)
        return await self._begin(attempt, stored)

    async def _begin(self, attempt: StepAttempt, stored: Stored) -> StepReport:
        complete_by = self._ports.clock.now() + timedelta(seconds=attempt.step.complete_within)
        token = self._ports.new_id() if attempt.step.via is Way.QUEUE else None
        event = StepStarted(**attempt.author, complete_by=complete_by, token=token)
        started = await self._ports.store.change(stored, event)
        if isinstance(started, Refused):
            _log.info("task %s step %s: refused (%s)", attempt.task, attempt.step.name, started.reason)
            return StepReport(Outcome.STALE)
        record = started.record.step(attempt.step.name)
        if record.state is DONE[started.record.task.direction]:
            return StepReport(Outcome.COMPLETED, ready_steps(attempt.workflow, started.record))
        if record.complete_by != complete_by and not record.idempotent:
            text = "task %s step %s: begun before, and it must not run twice"
            _log.warning(text, attempt.task, record.name)
            return StepReport(Outcome.EXPIRED)
        return await self._carry_out(attempt, started)

    async def _carry_out(self, attempt: StepAttempt, started: Stored) -> StepReport:
        try:
            match attempt.step.via:
                case Way.ACTIVITY:
                    return await self._call(attempt, started)
                case Way.QUEUE:
                    return await self._request(attempt, started)
                case _:
                    assert_never(attempt.step.via)
        except TransientError as fault:
            _log.warning("task %s step %s: expired (%s)", attempt.task, attempt.step.name, fault)
            return StepReport(Outcome.EXPIRED)

    async def _call(self, attempt: StepAttempt, started: Stored) -> StepReport:
        direction = started.record.task.direction
        agent = self._agents[attempt.step.agent]
        try:
            result = await carry_out(agent, direction, attempt.call(started.record))
        except PermanentError as refusal:
            return await self._outcomes.failed(attempt, started, str(refusal))
        return await self._outcomes.completed(attempt, started, result)

    async def _request(self, attempt: StepAttempt, started: Stored) -> StepReport:
        """Send the request; run a second time, it sends the same again, with the same token."""
        call = attempt.call(started.record)
        request = AgentRequest(
            task_id=attempt.task,
            step=attempt.step.name,
            epoch=attempt.epoch,
            token=started.record.step(attempt.step.name).token or "",
            direction=started.record.task.direction,
            effect_key=call.effect_key,
            complete_by=call.complete_by,
            request=dict(call.request),
        )
        await self._ports.agent_messages.ask(attempt.step.agent, request)
        return StepReport(Outcome.REQUESTED, complete_by=call.complete_by)
