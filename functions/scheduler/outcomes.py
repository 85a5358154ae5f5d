"""Records the outcome of a step, and finds the steps that follow."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from functions.pattern.events import Refused, StepCompleted, StepFailed, StepSkipped
from functions.pattern.identity import StepName
from functions.pattern.ports import Ports
from functions.pattern.records import MAX_RESULT_BYTES
from functions.pattern.states import Outcome
from functions.pattern.steps import ready_steps
from functions.pattern.store_ports import Stored
from functions.scheduler.attempt import StepAttempt
from functions.scheduler.orchestrator import Progress


@dataclass(frozen=True, slots=True)
class StepReport:
    """What the Scheduler needs to know: the outcome, and the steps that can start.

    `complete_by` is until when the reply to a request is waited for.
    """

    outcome: Outcome
    ready: tuple[StepName, ...] = ()
    complete_by: datetime | None = None

    def progress(self, step: StepName) -> Progress:
        """Write the report of `step` in the form that crosses Durable history."""
        progress = Progress(outcome=self.outcome, ready=list(self.ready))
        if self.complete_by is not None:
            progress["step"] = step
            progress["complete_by"] = self.complete_by.isoformat()
        return progress


class Outcomes:
    """Records outcomes of steps. `start_within` is in seconds: by then what follows must have started."""

    def __init__(self, ports: Ports, start_within: float) -> None:
        self._ports = ports
        self._start_within = timedelta(seconds=start_within)

    async def completed(
        self, attempt: StepAttempt, stored: Stored, result: Mapping[str, Any], token: str | None = None
    ) -> StepReport:
        """Record the step as done; a result that no row can hold is a failure."""
        encoded = json.dumps(dict(result), separators=(",", ":"), ensure_ascii=False).encode()
        if len(encoded) > MAX_RESULT_BYTES:
            reason = f"its result has more than {MAX_RESULT_BYTES} bytes"
            return await self.failed(attempt, stored, reason, token)
        event = StepCompleted(
            epoch=attempt.epoch,
            scheduler=attempt.scheduler,
            step=attempt.step.name,
            result=encoded,
            start_by=self._start_by(),
            token=token,
        )
        return await self._record(attempt, stored, event, Outcome.COMPLETED)

    async def failed(
        self, attempt: StepAttempt, stored: Stored, reason: str, token: str | None = None
    ) -> StepReport:
        """Record the step as refused for good."""
        event = StepFailed(
            epoch=attempt.epoch,
            scheduler=attempt.scheduler,
            step=attempt.step.name,
            error=reason,
            start_by=self._start_by(),
            token=token,
        )
        return await self._record(attempt, stored, event, Outcome.FAILED)

    async def skipped(self, attempt: StepAttempt, stored: Stored) -> StepReport:
        """Record that the order does not need the step."""
        event = StepSkipped(
            epoch=attempt.epoch,
            scheduler=attempt.scheduler,
            step=attempt.step.name,
            start_by=self._start_by(),
        )
        return await self._record(attempt, stored, event, Outcome.SKIPPED)

    def known(self, attempt: StepAttempt, stored: Stored) -> StepReport:
        """Tell what follows from a step whose outcome is recorded already."""
        return StepReport(Outcome.COMPLETED, ready_steps(attempt.workflow, stored.record))

    def _start_by(self) -> datetime:
        return self._ports.clock.now() + self._start_within

    async def _record(
        self,
        attempt: StepAttempt,
        stored: Stored,
        event: StepCompleted | StepFailed | StepSkipped,
        outcome: Outcome,
    ) -> StepReport:
        recorded = await self._ports.store.change(stored, event)
        if isinstance(recorded, Refused):
            return StepReport(Outcome.STALE)
        return StepReport(outcome, ready_steps(attempt.workflow, recorded.record))
