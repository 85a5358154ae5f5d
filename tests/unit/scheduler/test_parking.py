"""A run that lacks what its task needs parks it, as soon as nothing else is left to do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from functions.pattern.definition import Registry, Workflow
from functions.pattern.errors import PermanentError
from functions.pattern.identity import Epoch
from functions.pattern.states import ProcessState, Remedy, StepState, Way
from tests.fakes.agents import raising
from tests.fakes.runners import make_runs
from tests.fakes.tasks import claimed, completed, pending, started, told
from tests.fakes.workflows import LINE, TASK, step, trip, workflow
from tests.unit.pattern.test_parking import release
from tests.unit.scheduler.bench import Bench, over

PICK = LINE.steps[0]
FORK = workflow(step("pick"), step("sort"), step("send", "pick"), name="line", resource="lines")


class Deployed(Bench):
    """A bench on which other definitions are deployed than the task was submitted with."""

    def __init__(self, of: Workflow, *deployed: Workflow) -> None:
        super().__init__(of)
        self.deploy(*deployed)

    def deploy(self, *deployed: Workflow) -> None:
        """Start the application anew, with these definitions."""
        agents = {each.agent: self.agents for of in deployed for each in of.steps}
        registry = Registry(deployed, {})
        self.runs = make_runs(self.store, agents, registry, self.clock, requests=self.requests)

    @property
    def is_parked(self) -> bool:
        """Look at the task."""
        return self.store.record(TASK).task.is_parked

    async def go_on(self, *deployed: Workflow) -> None:
        """Deploy what the task waits for, and let it go on as the Supervisor and its Scheduler do."""
        self.deploy(*deployed)
        record = self.store.record(TASK)
        await self.store.change(TASK, release(record))
        await self.run(epoch=record.task.epoch + 1)


@pytest.mark.parametrize(
    "deployed",
    [(), (replace(LINE, version=2),), (workflow(step("take"), name="line", resource="lines"),)],
    ids=["workflow gone", "version gone", "step renamed"],
)
async def test_task_that_nobody_can_begin_is_parked_at_once(deployed: tuple[Workflow, ...]) -> None:
    """Its Agents are not called; its Scheduler has nothing more to do with it; it goes on uncounted."""
    bench = Deployed(LINE, *deployed)
    assert await bench.run() == over("Pending")
    assert (bench.is_parked, bench.agents.calls) == (True, [])
    assert await bench.run(number=2) == over("parked")
    await bench.go_on(LINE)
    task = bench.store.record(TASK).task
    assert (bench.state, task.failure_count, task.epoch) == (ProcessState.PROCESSED, 0, Epoch(2))


async def test_what_can_be_done_is_done_first() -> None:
    """Steps side by side, and what follows from them; the outcome and the parking are one change."""
    bench = Deployed(FORK, replace(FORK, steps=(FORK.steps[0], FORK.steps[1])))
    assert await bench.run() == over("Pending")
    assert sorted(bench.agents.steps) == ["pick", "sort"]
    assert bench.states == {"pick": "Completed", "sort": "Completed", "send": "NotStarted"}
    await bench.go_on(FORK)
    assert (bench.state, sorted(bench.agents.steps)) == (ProcessState.PROCESSED, ["pick", "send", "sort"])


async def test_task_waits_for_its_reply_before_it_is_parked() -> None:
    """What is asked for over a queue still counts, whoever knows the workflow by then."""
    queued = workflow(step("pick", via=Way.QUEUE), step("send", "pick"), name="line", resource="lines")
    bench = Deployed(queued)
    asked = started("pick", token="t" * 16, complete_by=200)
    bench.store.put(told(pending(queued), claimed(start_by=200), asked))
    progress = await bench.run(number=2)
    assert (progress["over"], list(progress["awaited"])) == (False, ["pick"])
    bench.store.put(told(bench.store.record(TASK), completed("pick", token="t" * 16)))
    assert await bench.run(number=3) == over("Pending")
    assert (bench.is_parked, bench.step("pick").state) == (True, StepState.COMPLETED)


async def test_undo_waits_for_its_definition() -> None:
    """A removed step can still be undone, once it is there again."""
    of = trip(remedy=Remedy.COMPENSATE)
    bench = Deployed(of, of)
    bench.agents.behaviours["car"] = raising(PermanentError("no car"))
    await bench.run()
    bench.agents.behaviours.clear()
    bench.deploy(replace(of, steps=of.steps[:1]))
    await bench.run(epoch=2)
    assert (bench.is_parked, bench.states["car"]) == (True, "Failed")
    await bench.go_on(of)
    assert bench.state is ProcessState.COMPENSATED
    assert bench.agents.steps[-2:] == ["car undo", "flight undo"]


async def test_defect_under_another_shape_parks() -> None:
    """The function was changed with the steps: no outcome of the task's own."""

    def broken(*_: object) -> dict[str, object]:
        raise KeyError("bin")

    bench = Deployed(LINE, replace(LINE, steps=(replace(PICK, request=broken),)))
    assert await bench.run() == over("Pending")
    in_place = "version 1 of 'line' as it is deployed here is not the recorded one"
    assert bench.store.record(TASK).task.last_error == f"{in_place}; step 'pick': KeyError: 'bin'"
    await bench.go_on(LINE)
    assert bench.state is ProcessState.PROCESSED
