"""The Scheduler's first act: take the task, so that no other instance works on it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta

from functions.pattern.events import Claimed, Refused
from functions.pattern.identity import Epoch, StepName, TaskId, scheduler_id
from functions.pattern.planning import ready_steps
from functions.pattern.ports import Clock
from functions.pattern.registry import Registry
from functions.pattern.store_ports import StateStore, Stored
from functions.telemetry.tasks import claim_span

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Claim:
    """Whether the task was taken, and the steps that can start."""

    taken: bool
    ready: tuple[StepName, ...] = ()


class Claimer:
    """Claims tasks. `start_within` is in seconds: by then a step must have started."""

    def __init__(self, *, store: StateStore, registry: Registry, clock: Clock, start_within: float) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock
        self._start_within = timedelta(seconds=start_within)

    async def claim(self, task: TaskId, epoch: Epoch) -> Claim:
        """Take the task for the Scheduler of this epoch; without effect when another holds it."""
        stored = await self._store.recall(task, epoch)
        if stored is None:
            _log.warning("task %s: there is no such task to claim", task)
            return Claim(taken=False)
        with claim_span(stored.record, epoch):
            return await self._claim(stored, epoch)

    async def _claim(self, stored: Stored, epoch: Epoch) -> Claim:
        task = stored.record.order.task
        workflow = self._registry.find(stored.record.order.workflow)
        if workflow is None:
            _log.error("task %s: workflow '%s' is not registered", task, stored.record.order.workflow)
            return Claim(taken=False)
        event = Claimed(
            epoch=epoch,
            scheduler=scheduler_id(task, epoch),
            start_by=self._clock.now() + self._start_within,
        )
        claimed = await self._store.change(stored, event)
        if isinstance(claimed, Refused):
            _log.info("task %s: claim refused (%s)", task, claimed.reason)
            return Claim(taken=False)
        return Claim(taken=True, ready=ready_steps(workflow, claimed.record))
