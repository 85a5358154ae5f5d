"""A start that stands on the record is called by the run that made it, however late it hears of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from functions.pattern.states import ProcessState
from functions.store import event_line, task_writer
from tests.fakes.runners import limits
from tests.fakes.tasks import completed
from tests.fakes.workflows import step, workflow
from tests.unit.scheduler.written import Process
from tests.unit.store.rows import Fault
from tests.unit.store.writers import Writer


@pytest.mark.parametrize("idempotent", [True, False])
async def test_start_that_is_written_after_the_outcomes_own_time_is_called(
    monkeypatch: pytest.MonkeyPatch, *, idempotent: bool
) -> None:
    """The store hangs for some seconds while an outcome is written, until its step's complete-by has passed.

    Outcome and next start are on record then. Nobody calls the next step: it costs a recovery, and one that
    must not be repeated ends in `Error` with an unknown outcome, though it was never called.
    """
    monkeypatch.setattr(task_writer, "_GRACE", 0.05)
    of = workflow(
        step("pick", complete_within=0.05), step("pay", "pick", idempotent=idempotent), name="line-2"
    )
    process = Process(of)

    def hang() -> dict[str, object]:
        process.rows.gate.clear()
        return {}

    process.agents.behaviours["pick"] = hang
    running = asyncio.create_task(process.run())
    await asyncio.sleep(0.5)  # hung: longer than complete-by and grace
    process.rows.gate.set()
    await running
    await process.writer.settle()
    assert process.step("pick").settled
    assert process.agents.steps == ["pick", "pay"]
    assert process.record.task.process_state is ProcessState.PROCESSED


async def test_claim_whose_answer_is_lost_for_long_still_calls_what_it_started() -> None:
    """Another process writes nine times before the first can read back: its write is not named any more."""
    others = [f"q{number}" for number in range(9)]
    of = workflow(step("pick"), step("send", "pick"), *map(step, others), name="busy")
    process = Process(of)
    process.agents.slow(*others)

    def lose_the_answer() -> dict[str, object]:
        process.rows.faults.append(Fault.LOST)
        process.rows.loss_gate.clear()
        return {}

    process.agents.behaviours["pick"] = lose_the_answer
    running = asyncio.create_task(process.run())
    await process.agents.until_called(*others)
    async with asyncio.timeout(5):
        while not process.step("pick").settled:
            await asyncio.sleep(0)
    other = Writer(process.rows)
    await other.knows(*(completed(name) for name in others))
    process.rows.loss_gate.set()
    process.agents.let_go(*others)
    await running
    assert "send" in process.agents.steps


@pytest.mark.parametrize("idempotent", [True, False])
async def test_first_start_is_called_by_its_run_although_the_claims_answer_never_came(
    monkeypatch: pytest.MonkeyPatch, *, idempotent: bool
) -> None:
    """A run that ends for lack of an answer leaves a step on record that nobody has called.

    No other run may call one that must not be repeated: only who made its start knows that it was not.
    """
    monkeypatch.setattr(task_writer, "_GRACE", 0.05)
    monkeypatch.setattr(event_line, "_LONGEST_DOUBT", 0.05)
    of = workflow(step("pay", idempotent=idempotent), name="once")
    process = Process(of, bounds=replace(limits(), start_within=0.05))
    process.rows.faults.append(Fault.LOST)
    process.rows.loss_gate.clear()
    process.agents.slow("pay")
    running = asyncio.create_task(process.run())
    async with asyncio.timeout(10):
        await process.agents.until_called("pay")
    process.rows.loss_gate.set()
    process.agents.let_go("pay")
    await running
    assert process.agents.steps == ["pay"]
    assert process.record.task.process_state is ProcessState.PROCESSED
