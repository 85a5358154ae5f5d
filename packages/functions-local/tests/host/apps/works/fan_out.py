"""Durable: many activities at once, and their sum."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import azure.durable_functions as df

app = df.Blueprint()


@app.orchestration_trigger(context_name="context")
def fan_out(context: df.DurableOrchestrationContext) -> Generator[Any, Any, Any]:
    """Sum the squares."""
    squares = [context.call_activity("square", number) for number in range(context.get_input())]
    return sum((yield context.task_all(squares)))


@app.activity_trigger(input_name="number")
async def square(number: int) -> int:
    """Return the square."""
    return number * number
