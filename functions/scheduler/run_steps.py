"""The activity `run_steps`: runs what is ready of a task until nothing is, or another run is needed."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from functions.agents.places import Places
from functions.messages.queues import again_until
from functions.pattern.definition import Registry
from functions.pattern.errors import TransientError
from functions.pattern.identity import Epoch, SchedulerId, TaskId, scheduler_id
from functions.pattern.planning import Runner
from functions.pattern.ports import Agent, Ports
from functions.pattern.refusals import RefusalReason
from functions.scheduler.activity_run import ActivityRun
from functions.scheduler.progress import UNKNOWN, Progress, RunInput, ended
from functions.scheduler.run_places import RunPlaces
from functions.telemetry.spans import run_steps_span

_log = logging.getLogger(__name__)

#: Seconds at the end of an activity's time in which no step may still be running.
_SPARE_SECONDS = 15

_NONE_LIMITED: Mapping[str, Places] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """What bounds a run: steps `at_once`, and the host's limit of an activity's time, in `seconds`.

    What is ready must have started within `start_within` seconds, and a request must have been taken by its
    Agent within `pick_up_within`.
    """

    at_once: int
    seconds: float
    start_within: float
    pick_up_within: float


class RunSteps:
    """Runs tasks' steps, and does for every Agent what the pattern asks of it.

    `agents` are by name, and so are the `places` at the services of those whose calls may be limited.
    """

    def __init__(
        self,
        ports: Ports,
        agents: Mapping[str, Agent],
        registry: Registry,
        limits: RunLimits,
        places: Mapping[str, Places] = _NONE_LIMITED,
    ) -> None:
        self._ports = ports
        self._agents = agents
        self._registry = registry
        self._limits = limits
        self._places = places

    async def run(self, given: RunInput) -> Progress:
        """Run what is ready, and tell how the task stands; never raises.

        A raising activity breaks `task_all` and retries of the Durable SDK (1.7).
        """
        try:
            return await self._run(TaskId(given["task"]), Epoch(given["epoch"]), given)
        except TransientError as fault:
            _log.warning("task %s: not claimed, left to the Supervisor (%s)", given["task"], fault)
        except Exception:  # noqa: BLE001 - an activity never raises
            _log.exception("task %s: a defect ended its run, left to the Supervisor", given["task"])
        return UNKNOWN

    async def _run(self, task: TaskId, epoch: Epoch, given: RunInput) -> Progress:
        runner = self._runner(scheduler_id(task, epoch, given.get("run")), epoch, given["number"])
        give_up_at = self._ports.clock.now() + runner.start_within
        record = await again_until(give_up_at, partial(self._ports.store.known, task), self._ports.clock)
        if record is None:
            _log.warning("task %s: not in the state store, so nothing is run", task)
            return ended(RefusalReason.NO_SUCH_TASK)
        with run_steps_span(record, epoch):
            run = ActivityRun(
                self._ports,
                self._agents,
                self._registry,
                runner,
                record,
                places=RunPlaces(self._places),
                share=given["share"],
            )
            return await run.to_its_end(give_up_at)

    def _runner(self, scheduler: SchedulerId, epoch: Epoch, number: int) -> Runner:
        limits = self._limits
        return Runner(
            epoch=epoch,
            scheduler=scheduler,
            activity=number,
            at_once=limits.at_once,
            ends_at=self._ports.clock.now() + timedelta(seconds=limits.seconds - _SPARE_SECONDS),
            start_within=timedelta(seconds=limits.start_within),
            pick_up_within=timedelta(seconds=limits.pick_up_within),
            new_id=self._ports.new_id,
        )
