"""A Durable app: an HTTP starter, an orchestrator and two activities, one sync, one async."""

# mypy: disable-error-code="untyped-decorator"
# The Durable SDK ships no types.

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Generator
from typing import Any

import azure.durable_functions as df
import azure.functions as func

app = df.DFApp(http_auth_level=func.AuthLevel.ANONYMOUS)


@app.route(route="start/{name}", methods=["POST"])
@app.durable_client_input(client_name="client")
async def start(req: func.HttpRequest, client: df.DurableOrchestrationClient) -> func.HttpResponse:
    """Start an orchestration and return its management URLs."""
    instance = await client.start_new(
        req.route_params["name"], req.params.get("id"), json.loads(req.get_body())
    )
    response: func.HttpResponse = client.create_check_status_response(req, instance)
    return response


@app.orchestration_trigger(context_name="context")
def chain(context: df.DurableOrchestrationContext) -> Generator[Any, Any, Any]:
    """Add one twice."""
    first = yield context.call_activity("add_one", context.get_input())
    return (yield context.call_activity("add_one_async", first))


@app.orchestration_trigger(context_name="context")
def failing(context: df.DurableOrchestrationContext) -> Generator[Any, Any, Any]:
    """Call an activity that fails."""
    yield context.call_activity("broken", None)


@app.activity_trigger(input_name="number")
def add_one(number: int) -> int:
    """Add one on a thread."""
    return number + 1


@app.activity_trigger(input_name="number")
async def add_one_async(number: int) -> int:
    """Add one on the loop."""
    return number + 1


@app.activity_trigger(input_name="nothing")
def broken(nothing: str) -> str:
    """Fail."""
    raise ValueError(f"broken {nothing}")


@app.orchestration_trigger(context_name="context")
def exiting(context: df.DurableOrchestrationContext) -> Generator[Any, Any, Any]:
    """Exit, or call an activity that does."""
    if context.get_input() == "orchestrator":
        sys.exit("on purpose")
    yield context.call_activity("exits", None)


@app.activity_trigger(input_name="nothing")
async def exits(nothing: str) -> str:
    """Exit."""
    sys.exit(f"on purpose {nothing}")


@app.orchestration_trigger(context_name="context")
def clock(context: df.DurableOrchestrationContext) -> Generator[Any, Any, Any]:
    """Return which parser read the history's times, their zone, and the thread that replays."""
    yield context.call_activity("add_one", 1)
    parser = sys.modules["azure.durable_functions.models.history.HistoryEvent"].dt_parse
    zone = str(context.current_utc_datetime.tzinfo)
    thread = threading.current_thread().name
    return {"parser": parser.__name__, "zone": zone, "thread": thread, "version": context.version}
