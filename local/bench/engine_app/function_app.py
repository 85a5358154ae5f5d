"""Orchestrations whose activities do nothing: the load is that of the Durable engine alone."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import azure.durable_functions as df

from functions.scheduler.orchestrator import CLAIM_ACTIVITY, RUN_STEP_ACTIVITY, run_task

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
@app.activity_trigger(input_name="attempt")
async def claim(attempt: object) -> dict[str, Any]:  # noqa: ARG001 - the signature of the real one
    """Claim nothing, and report one step as ready."""
    return {"outcome": "claimed", "ready": ["step"]}


@app.function_name(RUN_STEP_ACTIVITY)
@app.activity_trigger(input_name="step")
async def run_step(step: object) -> dict[str, Any]:  # noqa: ARG001 - the signature of the real one
    """Run nothing, and report no further step."""
    return {"outcome": "completed", "ready": []}


@app.activity_trigger(input_name="number")
async def nothing(number: int) -> int:
    """Return the number."""
    return number
