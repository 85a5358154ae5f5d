"""Records what came of a step, and tells what follows from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from functions.pattern.events import Refused, StepCompleted, StepFailed, StepSkipped
from functions.pattern.identity import StepName
from functions.pattern.planning import ready_steps
from functions.pattern.ports import Clock
from functions.pattern.records import MAX_RESULT_BYTES
from functions.pattern.states import Outcome
from functions.pattern.store_ports import StateStore, Stored
from functions.scheduler.turn import Turn


@dataclass(frozen=True, slots=True)
class StepReport:
    """What the Scheduler needs to know: the outcome, and the steps that can start.

    `complete_by` is until when the reply to a request is waited for.
    """

    outcome: Outcome
    ready: tuple[StepName, ...] = ()
    complete_by: datetime | None = None


class Outcomes:
    """Records outcomes of steps. `start_within` is in seconds: by then what follows must have started."""

    def __init__(self, *, store: StateStore, clock: Clock, start_within: float) -> None:
        self._store = store
        self._clock = clock
        self._start_within = timedelta(seconds=start_within)

    async def completed(
        self, turn: Turn, stored: Stored, result: Mapping[str, Any], token: str | None = None
    ) -> StepReport:
        """Record the step as done; a result that no row can hold is a failure."""
        encoded = json.dumps(dict(result), separators=(",", ":"), ensure_ascii=False).encode()
        if len(encoded) > MAX_RESULT_BYTES:
            return await self.failed(
                turn, stored, f"its result has more than {MAX_RESULT_BYTES} bytes", token
            )
        event = StepCompleted(
            epoch=turn.epoch,
            scheduler=turn.scheduler,
            step=turn.step.name,
            result=encoded,
            start_by=self._start_by(),
            token=token,
        )
        return self._report(turn, Outcome.COMPLETED, await self._store.change(stored, event))

    async def failed(self, turn: Turn, stored: Stored, reason: str, token: str | None = None) -> StepReport:
        """Record the step as refused for good."""
        event = StepFailed(
            epoch=turn.epoch,
            scheduler=turn.scheduler,
            step=turn.step.name,
            error=reason,
            start_by=self._start_by(),
            token=token,
        )
        return self._report(turn, Outcome.FAILED, await self._store.change(stored, event))

    async def skipped(self, turn: Turn, stored: Stored) -> StepReport:
        """Record that the order does not need the step."""
        event = StepSkipped(
            epoch=turn.epoch, scheduler=turn.scheduler, step=turn.step.name, start_by=self._start_by()
        )
        return self._report(turn, Outcome.SKIPPED, await self._store.change(stored, event))

    def known(self, turn: Turn, stored: Stored) -> StepReport:
        """Tell what follows from a step whose outcome is recorded already."""
        return self._report(turn, Outcome.COMPLETED, stored)

    def _start_by(self) -> datetime:
        return self._clock.now() + self._start_within

    def _report(self, turn: Turn, outcome: Outcome, recorded: Stored | Refused) -> StepReport:
        if isinstance(recorded, Refused):
            return StepReport(Outcome.STALE)
        return StepReport(outcome, ready_steps(turn.workflow, recorded.record))
