"""Durable: looks again and again, with a timer between, until something is as expected."""

from __future__ import annotations

from collections.abc import Generator
from datetime import timedelta
from itertools import count
from typing import Any

import azure.durable_functions as df

app = df.Blueprint()
LOOKS = count(1)


@app.orchestration_trigger(context_name="context")
def monitor(context: df.DurableOrchestrationContext) -> Generator[Any, Any, Any]:
    """Look until the third time."""
    while (yield context.call_activity("look", None)) < 3:
        yield context.create_timer(context.current_utc_datetime + timedelta(milliseconds=10))
    return "third time"


@app.activity_trigger(input_name="nothing")
def look(nothing: None) -> int:  # noqa: ARG001 - the binding requires it
    """Return how often it has been called."""
    return next(LOOKS)
