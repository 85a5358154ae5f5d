"""The runner in the other direction, and where it must not call at all."""

from __future__ import annotations

from functions.pattern.definition import Registry, Workflow
from functions.pattern.errors import PermanentError
from functions.pattern.identity import StepName
from functions.pattern.states import Outcome, ProcessState, StepState
from functions.scheduler.outcomes import StepReport
from tests.fakes.clock import FakeClock
from tests.fakes.interventions import done
from tests.fakes.runners import make_runner
from tests.fakes.store import MemoryStateStore
from tests.fakes.tasks import FIRST, SECOND, claimed, failed, pending, started, told
from tests.fakes.workflows import TASK, trip
from tests.unit.scheduler.test_step_runner import ScriptedAgent

FLIGHT, HOTEL, CAR = StepName("flight"), StepName("hotel"), StepName("car")


class Undoing:
    """A runner for trips, whose Agents do what a test says."""

    def __init__(self, workflow: Workflow) -> None:
        self.clock = FakeClock()
        self.store = MemoryStateStore(self.clock)
        self.agent = ScriptedAgent()
        names = [step.agent for step in workflow.steps]
        self.runner = make_runner(
            self.store, dict.fromkeys(names, self.agent), Registry((workflow,), {}), self.clock
        )


def _undoing() -> Undoing:
    """Let a trip's car be refused, after flight and hotel were booked; the hotel can't be undone."""
    bench = Undoing(trip())
    record = told(pending(trip()), claimed(), *done("flight", "hotel"), started("car"), failed("car"))
    bench.store.put(told(record, claimed(SECOND)))
    return bench


async def test_undo_is_asked_for_under_its_own_key() -> None:
    """In reverse order; the step is `Undone`, and the task `Compensated` when it was the last."""
    bench = _undoing()
    first = await bench.runner.run(TASK, SECOND, CAR)
    report = await bench.runner.run(TASK, SECOND, FLIGHT)
    assert first.ready == (FLIGHT,)
    assert report == StepReport(Outcome.COMPLETED)
    assert bench.store.record(TASK).task.process_state is ProcessState.COMPENSATED
    assert [call.effect_key for call in bench.agent.calls] == ["task-1/car/undo", "task-1/flight/undo"]
    assert bench.store.record(TASK).step(FLIGHT).state is StepState.UNDONE


async def test_refused_undo_makes_the_task_an_error_that_names_the_step() -> None:
    """What is left undone is the operator's to see."""
    bench = _undoing()

    def refuse() -> dict[str, object]:
        raise PermanentError("no refunds")

    bench.agent.behaviour = refuse
    report = await bench.runner.run(TASK, SECOND, CAR)
    assert report == StepReport(Outcome.FAILED)
    assert bench.store.record(TASK).task.process_state is ProcessState.ERROR
    assert bench.store.record(TASK).task.last_error == "undo of car: no refunds"


async def test_step_that_must_not_run_twice_is_not_called_again() -> None:
    """An activity that runs again after a crash finds it begun: its outcome is unknown."""
    bench = Undoing(trip(hotel_idempotent=False))
    record = told(pending(trip(hotel_idempotent=False)), claimed(), *done("flight"), started("hotel"))
    bench.store.put(record)
    bench.clock.advance(1)
    report = await bench.runner.run(TASK, FIRST, HOTEL)
    assert report == StepReport(Outcome.EXPIRED)
    assert bench.agent.calls == []
