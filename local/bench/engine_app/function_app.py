"""Orchestrations that do nothing: what the Durable engine alone can carry."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import azure.durable_functions as df

from functions.scheduler.orchestrator import (
    CLAIM_ACTIVITY,
    RUN_STEP_ACTIVITY,
    Progress,
    RunStepInput,
    SchedulerInput,
    run_task,
)

_CHAIN = 5

app = df.DFApp()


@app.orchestration_trigger(context_name="context")
def two_activities(context: df.DurableOrchestrationContext) -> Generator[Any, Any, str]:
    """Run the application's own orchestrator, whose activities do nothing here."""
    return run_task(context)


@app.orchestration_trigger(context_name="context")
def five_activities(context: df.DurableOrchestrationContext) -> Generator[Any, Any]:
    """Run five activities, one after the other."""
    for number in range(_CHAIN):
        yield context.call_activity("nothing", number)


@app.function_name(CLAIM_ACTIVITY)
@app.activity_trigger(input_name="given")
async def claim(given: SchedulerInput) -> Progress:  # noqa: ARG001 - the shape of the real one
    """Claim nothing, and say that one step is ready."""
    return Progress(outcome="claimed", ready=["step"])


@app.function_name(RUN_STEP_ACTIVITY)
@app.activity_trigger(input_name="given")
async def run_step(given: RunStepInput) -> Progress:  # noqa: ARG001 - the shape of the real one
    """Run nothing, and say that nothing follows."""
    return Progress(outcome="completed", ready=[])


@app.activity_trigger(input_name="number")
async def nothing(number: int) -> int:
    """Give the number back."""
    return number
