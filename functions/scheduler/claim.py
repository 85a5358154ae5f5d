"""The Scheduler's first act: claim the task, so that no other instance works on it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta

from functions.pattern.definition import Registry
from functions.pattern.events import Claimed, Refused
from functions.pattern.identity import Epoch, StepName, TaskId, scheduler_id
from functions.pattern.ports import Ports
from functions.pattern.steps import ready_steps
from functions.pattern.store_ports import Stored
from functions.telemetry.tasks import claim_span

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Claim:
    """Whether the task was claimed, and the steps that can start."""

    taken: bool
    ready: tuple[StepName, ...] = ()


class Claimer:
    """Claims tasks. `start_within` is in seconds: by then a step must have started."""

    def __init__(self, ports: Ports, registry: Registry, start_within: float) -> None:
        self._ports = ports
        self._registry = registry
        self._start_within = timedelta(seconds=start_within)

    async def claim(self, task: TaskId, epoch: Epoch) -> Claim:
        """Claim the task for the Scheduler of this epoch; without effect when another holds it."""
        stored = await self._ports.store.recall(task, epoch)
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
        start_by = self._ports.clock.now() + self._start_within
        event = Claimed(epoch=epoch, scheduler=scheduler_id(task, epoch), start_by=start_by)
        claimed = await self._ports.store.change(stored, event)
        if isinstance(claimed, Refused):
            _log.info("task %s: claim refused (%s)", task, claimed.reason)
            return Claim(taken=False)
        return Claim(taken=True, ready=ready_steps(workflow, claimed.record))
