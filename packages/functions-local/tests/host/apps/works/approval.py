"""Durable: a person's answer, or a time limit."""

from __future__ import annotations

from collections.abc import Generator
from datetime import timedelta
from typing import Any

import azure.durable_functions as df

app = df.Blueprint()


@app.orchestration_trigger(context_name="context")
def approval(context: df.DurableOrchestrationContext) -> Generator[Any, Any, Any]:
    """Wait for the event, for as many seconds as the input says."""
    deadline = context.create_timer(context.current_utc_datetime + timedelta(seconds=context.get_input()))
    answer = context.wait_for_external_event("Approval")
    if (yield context.task_any([answer, deadline])) == deadline:
        return "nobody answered"
    deadline.cancel()
    return answer.result
