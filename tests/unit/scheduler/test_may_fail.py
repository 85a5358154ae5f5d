"""A run goes on at once without a step that may fail, whatever goes wrong with it."""

from __future__ import annotations

import pytest

from functions.pattern.errors import PermanentError, TransientError
from functions.pattern.events import DecisionDue
from functions.pattern.states import ProcessState, Remedy
from tests.fakes.agents import raising
from tests.fakes.interventions import resubmission
from tests.fakes.tasks import FIRST, after, claimed, failed, pending, started, told
from tests.fakes.workflows import TASK, awaiting, step, workflow
from tests.unit.scheduler.bench import Bench, over

SHOP = workflow(step("pay"), step("mail", "pay", on_failure=Remedy.CONTINUE), step("file", "mail"))


@pytest.mark.parametrize("fault", [TransientError("mail answered 503"), PermanentError("no such address")])
async def test_run_goes_on_without_the_step(fault: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """Refused, or of unknown outcome: neither is recovered. No line says what the service said."""
    bench = Bench(SHOP)
    bench.agents.behaviours["mail"] = raising(fault)
    assert await bench.run() == over("Processed")
    assert bench.agents.steps == ["pay", "mail", "file"]
    assert bench.states == {"pay": "Completed", "mail": "Failed", "file": "Completed"}
    assert str(fault) in (bench.step("mail").error or "")
    assert not [line for line in caplog.messages if str(fault) in line]


async def test_other_steps_are_left_to_the_supervisor() -> None:
    """As before."""
    bench = Bench(SHOP)
    bench.agents.behaviours["pay"] = raising(TransientError("503"))
    await bench.run()
    assert bench.states["pay"] == "Running"
    assert bench.state is ProcessState.PROCESSING


async def test_store_that_does_not_answer_leaves_it_to_the_supervisor() -> None:
    """What is not recorded has not happened."""
    bench = Bench(SHOP)

    def fail() -> dict[str, bool]:
        bench.store.failure = TransientError("no store")
        raise TransientError("503")

    bench.agents.behaviours["mail"] = fail
    await bench.run()
    bench.store.failure = None
    assert bench.states["mail"] == "Running"


async def test_step_of_an_epoch_before_is_not_waited_for_longer_than_its_own_time() -> None:
    """By this host's clock it is not over yet, and must not be repeated; beside it, an event is awaited."""
    mail = step("mail", idempotent=False, on_failure=Remedy.CONTINUE)
    of = workflow(awaiting("approve"), mail, step("pay"), step("file", "mail"))
    begun = (started("approve", complete_by=3 * 86_400), started("mail"), started("pay"), failed("pay"))
    record = told(pending(of), claimed(), *begun)
    over_there = DecisionDue(epoch=FIRST, start_by=after(60)), resubmission()
    bench = Bench(of)
    bench.store.put(told(record, *over_there, now=after(21)))
    bench.clock.advance(19)
    progress = await bench.run(epoch=2)
    assert progress.get("again_at") == after(20).isoformat()
    bench.clock.advance(1)
    await bench.run(2, epoch=2)
    assert (bench.states["mail"], bench.states["file"]) == ("Failed", "Completed")
    assert bench.store.record(TASK).task.is_handed_back
