"""Operators who act on tasks in `Error`, and on others: several at once, and with the truth about effects."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta

from functions.pattern.records import BY_OPERATOR
from tests.simulation.checks.definitions import StepsByName
from tests.simulation.checks.rows import FINAL, RawStep, TaskRows
from tests.simulation.faults.kinds import SimulatedFault
from tests.simulation.run.platform import Platform
from tests.simulation.run.rows import births, parked_tasks, task_rows

#: Seconds after which no request for a step can be on its way any more.
_SETTLED_AFTER = timedelta(seconds=120)


class Operators:
    """Each look is at one task."""

    def __init__(self, platform: Platform, steps: StepsByName) -> None:
        self._platform = platform
        self._steps = steps
        self._chance = platform.world.chance("operators")
        #: Steps of tasks whose results were given, as far as operators know.
        self.given: set[tuple[str, str]] = set()

    async def act(self) -> None:
        """Have one or two operators act on a task."""
        tasks = task_rows(self._platform.tables)
        in_error = {task: rows for task, rows in tasks.items() if rows.task and rows.task.state == "Error"}
        some = in_error or (tasks if self._chance.random() < 0.4 else {})
        if not some:
            return
        task = self._chance.choice(sorted(some))
        rows = some[task]
        wishes = self._chance.choices(self._possible(task, rows), k=self._chance.choice((1, 1, 2)))
        await asyncio.gather(*(self._ask(task, *wish) for wish in wishes))

    async def unpark_all(self) -> None:
        """Have everything go on that operators have parked."""
        for task in parked_tasks(self._platform.tables, BY_OPERATOR):
            await self._ask(task, "unpark")

    def _possible(self, task: str, rows: TaskRows) -> list[tuple[str, dict[str, object]]]:
        wishes: list[tuple[str, dict[str, object]]] = [("resubmit", {}), ("undo", {}), ("cancel", {})]
        if rows.task is not None and rows.task.state not in FINAL:
            wishes = [("park", {}), ("park", {}), ("unpark", {}), ("cancel", {})]
        for step in rows.steps:
            definition = self._steps.step(step.name)
            if step.state == "Failed" or (step.state == "Running" and definition.idempotent):
                wishes.append((f"steps/{step.name}/skip", {"result": {"done": True}}))
            is_open = step.state == "Running" and not definition.via.waits and not definition.idempotent
            if is_open and self._is_settled(step):
                key = f"{task}.{births(self._platform.tables)[task]}/{step.name}"
                was_done = bool(self._platform.services.ledger.done[key])
                answer = ("done", {"result": {"done": True}}) if was_done else ("not-done", {})
                wishes += 3 * [(f"steps/{step.name}/{answer[0]}", dict[str, object](answer[1]))]
        return wishes

    def _is_settled(self, step: RawStep) -> bool:
        """Tell whether all calls have ended by now, so that the services can be asked what they did."""
        calls = self._platform.services.ledger.calls
        is_open = any(each.is_open and each.step.endswith(f"/{step.name}") for each in calls)
        now = self._platform.world.now
        return not is_open and step.complete_by is not None and step.complete_by + _SETTLED_AFTER < now

    async def _ask(self, task: str, wish: str, body: Mapping[str, object] | None = None) -> None:
        host = self._platform.running.usual("hosts of operators")
        if host is None:
            return
        self._platform.world.fault(SimulatedFault.OPERATORS, "operator", f"{wish} {task}")
        path = f"/api/ops/tasks/{task}/{wish}"
        if wish.endswith("/skip"):
            self.given.add((task, wish.split("/")[1]))
        status, answer = await self._platform.http(
            host, "POST", path, {"reason": "simulated", **(body or {})}
        )
        said = status or "no answer"
        refusal = f" {answer}" if status >= 400 else ""
        self._platform.world.tell("operator", f"{wish} {task}: {said}{refusal}")
