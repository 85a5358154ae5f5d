"""Tasks that wait: handed back to the record, and found when the wait ends, at no cost until then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.pattern.definition import Default, Registry, Workflow
from functions.pattern.errors import PermanentError
from functions.pattern.identity import StepName, TaskId, scheduler_id
from functions.pattern.states import ProcessState, Remedy, StepState, Way
from functions.pattern.wait_events import EventReceived, HandedBack
from functions.scheduler.progress import Progress, RunInput
from tests.fakes.agents import ScriptedAgent, raising
from tests.fakes.clock import START
from tests.fakes.runners import make_runs
from tests.fakes.tasks import FIRST, after, claimed, pending, started, told
from tests.fakes.workflows import TASK, awaiting, step, timer, workflow
from tests.unit.supervisor.conftest import Bench as Supervised

YES = b'{"approved":true}'
YEAR = 365 * 86_400


class Life:
    """One task with all that works on it; time passes when a test says so."""

    def __init__(self, of: Workflow) -> None:
        self.supervised = Supervised(deployed=(of,))
        self.store, self.clock = self.supervised.store, self.supervised.clock
        self.agents = ScriptedAgent()
        self.deploy(of)
        self.store.put(pending(of))

    def deploy(self, *versions: Workflow) -> None:
        """Have these versions run from now on."""
        agents = {each.agent: self.agents for version in versions for each in version.steps}
        self.runs = make_runs(self.store, agents, Registry(versions, {}), self.clock)

    async def run(self, run: int | None = None) -> Progress:
        """Run the activity of a run's Scheduler."""
        given = RunInput(task=TASK, epoch=1, number=1, share=False)
        if run is not None:
            given["run"] = run
        return await self.runs.run(given)

    async def told(self, body: bytes = YES) -> None:
        """Let the event come."""
        event = EventReceived(
            step=StepName("approve"),
            body=body,
            who="anna",
            start_by=self.clock.now() + timedelta(seconds=30),
        )
        await self.store.change(TASK, event)

    @property
    def task(self) -> Any:
        """Look at the task."""
        return self.store.record(TASK).task


async def test_wait_of_a_year_costs_one_hand_back_and_one_run() -> None:
    """In one epoch, uncounted, whatever becomes of instances and hosts meanwhile."""
    life = Life(workflow(step("pay"), timer("nap", "pay"), step("send", "nap")))
    assert (await life.run())["over"]
    assert life.task.is_handed_back
    assert life.agents.steps == ["pay"]
    for seconds in (86_400, YEAR - 86_400 - 60):
        life.clock.advance(seconds)
        assert (await life.supervised.sweep()).found == 0
    life.clock.advance(120)
    report = await life.supervised.sweep()
    assert (report.waited, report.overdue, report.recovered) == (1, 0, 0)
    assert await life.run(1) == Progress(state="Processed", over=True, runs=0, awaited={})
    assert life.agents.steps == ["pay", "send"]
    assert (life.task.epoch, life.task.failure_count) == (FIRST, 0)


async def test_event_is_waited_for_and_followed() -> None:
    """By the next run, which may be in any host."""
    life = Life(workflow(awaiting("approve"), step("send", "approve")))
    await life.run()
    assert life.task.is_handed_back
    await life.told()
    await life.run(1)
    assert life.task.process_state is ProcessState.PROCESSED
    assert life.agents.calls[0].request["after"] == ["approve"]
    # Former scheduler that runs again leaves the task alone.
    life = Life(workflow(awaiting("approve"), step("send", "approve")))
    await life.run()
    assert (await life.run())["over"]
    assert life.task.is_handed_back
    await life.told()
    assert (await life.run())["over"]
    assert life.task.locked_by is None


async def test_nobody_comes_and_the_task_goes_on_by_default() -> None:
    """The Supervisor finds the expiry, as it finds all that is due."""
    waits = awaiting("approve", on_expiry=Default({"approved": False}))
    life = Life(workflow(waits, step("send", "approve")))
    await life.run()
    life.clock.advance(3 * 86_400 + 60)
    assert (await life.supervised.sweep()).waited == 1
    await life.run(1)
    assert life.task.process_state is ProcessState.PROCESSED


async def test_task_is_parked_that_wakes_where_its_version_is_not_deployed() -> None:
    """It goes on when it is."""
    flow = workflow(awaiting("approve"), step("send", "approve"))
    life = Life(flow)
    await life.run()
    await life.told()
    life.deploy(replace(flow, version=2))
    await life.run(1)
    assert life.task.is_parked
    assert life.task.last_error == "version 1 of 'parcels' is not deployed here"
    await life.supervised.sweep()
    assert (life.task.epoch, life.task.failure_count, life.task.run) == (FIRST + 1, 0, None)


@pytest.mark.parametrize("by_scheduler", [True, False])
@pytest.mark.parametrize("remedy", [Remedy.HOLD, Remedy.COMPENSATE])
async def test_event_that_nobody_could_tell_as_its_version_was_away_is_awaited_longer(
    remedy: Remedy, *, by_scheduler: bool
) -> None:
    """For as long again as its task was parked for it; a deployment neither holds nor undoes anything."""
    flow = workflow(
        awaiting("approve", complete_within=60 if by_scheduler else 600),
        step("send", "approve"),
        remedy=remedy,
    )
    life, newer = Life(flow), replace(flow, version=2, steps=(step("send"),))
    await life.run()
    away = life.supervised.rival("two", newer)
    life.clock.advance(640)
    life.deploy(newer)
    if by_scheduler:
        await life.run()
    else:
        report = await away.run()
        assert (report.parked, report.overdue) == (1, 0)
    assert (life.task.is_parked, life.task.failure_count) == (True, 0)
    assert life.task.last_error == "version 1 of 'parcels' is not deployed here"
    life.clock.advance(300)
    assert (await away.run()).released == 0
    assert (await life.supervised.sweep()).released == 1
    life.deploy(flow)
    life.clock.advance(59)
    await life.told()
    await life.runs.run(RunInput(task=TASK, epoch=2, number=1, share=False))
    assert life.task.process_state is ProcessState.PROCESSED


async def test_event_that_nobody_tells_when_its_version_is_back_is_missing() -> None:
    """It had its time."""
    flow = workflow(awaiting("approve", complete_within=600), step("send", "approve"))
    life = Life(flow)
    await life.run()
    life.clock.advance(640)
    await life.supervised.rival("two", replace(flow, version=2)).run()
    await life.supervised.sweep()
    life.clock.advance(601)
    await life.supervised.sweep()
    assert life.task.process_state is ProcessState.ERROR


async def test_event_that_its_version_does_not_know_as_deployed_has_its_task_stay_parked() -> None:
    """It was changed in place: each release would open an epoch, in vain, for ever."""
    flow = workflow(awaiting("approve", complete_within=600), step("send", "approve"))
    life, in_place = Life(flow), workflow(step("approve"), step("send", "approve"))
    await life.run()
    life.clock.advance(640)
    changed = life.supervised.rival("two", in_place)
    for _ in range(10):
        await changed.run()
        life.clock.advance(600)
    assert (life.task.epoch, life.task.is_parked) == (FIRST, True)
    assert (await life.supervised.sweep()).released == 1


async def test_scheduler_sits_out_a_short_wait() -> None:
    """It is told when to look again; then it goes on by itself."""
    life = Life(workflow(timer("nap", until=after(20)), step("send", "nap")))
    progress = await life.run()
    assert not progress["over"]
    assert progress["again_at"] == after(20).isoformat()
    assert (await life.supervised.sweep()).found == 0
    life.clock.advance(20)
    assert (await life.run())["state"] == "Processed"
    # No wait is looked at again and again whose task ends as decided.
    pay = step("pay", via=Way.QUEUE, idempotent=False, complete_within=3_600)
    life = Life(workflow(pay, timer("nap", until=after(20)), step("send"), remedy=Remedy.COMPENSATE))
    life.agents.behaviours["send"] = raising(PermanentError("no such address"))
    progress = await life.run()
    assert life.task.decision is not None
    assert list(progress["awaited"]) == ["pay"]
    assert "again_at" not in progress
    # Wait and work go side by side.
    life = Life(
        workflow(awaiting("approve"), step("pick"), step("pack", "pick"), step("send", "approve", "pack"))
    )
    await life.run()
    assert life.agents.steps == ["pick", "pack"]
    assert life.task.is_handed_back
    assert life.store.record(TASK).step(StepName("approve")).state is StepState.RUNNING


@pytest.mark.parametrize("until", [after(-5), datetime.min.replace(tzinfo=UTC)])
async def test_timer_may_be_set_by_what_is_known_in_any_time_zone(until: datetime) -> None:
    """It is kept in UTC; a time that has passed is done at once, and is no time that a row can't hold."""
    life = Life(workflow(timer("nap", until=until), step("send", "nap")))
    assert (await life.run())["state"] == "Processed"
    assert life.store.record(TASK).step(StepName("nap")).complete_by == START


@pytest.mark.parametrize(
    ("until", "error"),
    [
        (START + timedelta(days=400), "its until gave 2027-12-26, which is more than a year ahead"),
        (datetime(2027, 1, 1), "which is no time with its time zone"),  # noqa: DTZ001 - that is the mistake
    ],
    ids=["too far", "no time zone"],
)
async def test_time_that_can_t_be_waited_for_holds_the_task(until: datetime, error: str) -> None:
    """It is a defect of the definition."""
    life = Life(workflow(timer("nap", until=until)))
    await life.run()
    assert life.task.process_state is ProcessState.ERROR
    assert error in life.task.last_error


async def test_ten_thousand_waiting_tasks_cost_a_sweep_no_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their due rows lie in the future: the Supervisor reads what is due, and nothing else."""
    flow = workflow(awaiting("approve"))
    record = told(pending(flow), claimed(), started("approve", complete_by=YEAR))
    waiting = told(record, HandedBack(epoch=FIRST, scheduler=scheduler_id(TASK, FIRST)))

    async def reads(tasks: int) -> tuple[int, int]:
        bench = Supervised(deployed=(flow,))
        for number in range(tasks):
            task = TaskId(f"task-{number}")
            of = replace(waiting.order, task=task), replace(waiting.task, order_id=task)
            bench.store.put(replace(waiting, order=of[0], task=of[1]))
        loads = _counted(bench.store.load, lambda load: monkeypatch.setattr(bench.store, "load", load))
        await bench.sweep()
        return bench.index.requests, len(loads)

    assert await reads(10_000) == await reads(0)


def _counted(method: Any, put: Callable[[Any], None]) -> list[object]:
    calls: list[object] = []

    async def counting(*given: Any) -> Any:
        calls.append(given)
        return await method(*given)

    put(counting)
    return calls
