"""Orchestrations whose activities do nothing: the load is that of the Durable engine alone."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import azure.durable_functions as df

_CHAIN = 5

app = df.DFApp()


@app.orchestration_trigger(context_name="context")
def one_activity(context: df.DurableOrchestrationContext) -> Generator[Any, Any]:
    """Run one activity."""
    yield context.call_activity("nothing", 0)


@app.orchestration_trigger(context_name="context")
def five_activities(context: df.DurableOrchestrationContext) -> Generator[Any, Any]:
    """Run five activities, one after the other."""
    for number in range(_CHAIN):
        yield context.call_activity("nothing", number)


@app.activity_trigger(input_name="number")
async def nothing(number: int) -> int:
    """Return the number."""
    return number
