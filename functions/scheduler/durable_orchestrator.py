"""The Durable orchestrator of a run. Its history holds the id of the run, and "more" or "done" only."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

RUN_AGENTS_ACTIVITY = "run_agents"


def scheduler(context: Any) -> Generator[Any, str]:
    """Call the activity with the id of the run (`{task}.{epoch}.{run}`) until it returns "done"."""
    while (yield context.call_activity(RUN_AGENTS_ACTIVITY, context.get_input())) == "more":
        pass
