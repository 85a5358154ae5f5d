"""Durable: one activity after the other, started by an HTTP function with a client."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import azure.durable_functions as df
import azure.functions as func

app = df.Blueprint()


@app.route("chain/{name}")
@app.durable_client_input(client_name="client")
async def start_chain(req: func.HttpRequest, client: df.DurableOrchestrationClient) -> func.HttpResponse:
    """Start it."""
    instance = await client.start_new("chain", client_input=req.route_params["name"])
    response: func.HttpResponse = client.create_check_status_response(req, instance)
    return response


@app.orchestration_trigger(context_name="context")
def chain(context: df.DurableOrchestrationContext) -> Generator[Any, Any, Any]:
    """Greet twice."""
    first = yield context.call_activity("greet", context.get_input())
    return (yield context.call_activity("greet", first))


@app.activity_trigger(input_name="name")
def greet(name: str) -> str:
    """Greet."""
    return f"Hello {name}"
