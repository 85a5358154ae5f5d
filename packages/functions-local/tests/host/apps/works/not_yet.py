"""Durable: what the engine lacks, each in an orchestrator of its own."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import azure.durable_functions as df

app = df.Blueprint()


@app.orchestration_trigger(context_name="context")
def calls_orchestrator(context: df.DurableOrchestrationContext) -> Generator[Any, Any, Any]:
    """Call another orchestrator."""
    yield context.call_sub_orchestrator("chain", "x")


@app.orchestration_trigger(context_name="context")
def calls_http(context: df.DurableOrchestrationContext) -> Generator[Any, Any, Any]:
    """Call a service."""
    yield context.call_http("GET", "http://127.0.0.1:9")


@app.orchestration_trigger(context_name="context")
def calls_entity(context: df.DurableOrchestrationContext) -> Generator[Any, Any, Any]:
    """Call an entity."""
    yield context.call_entity(df.EntityId("counter", "k"), "get")


@app.orchestration_trigger(context_name="context")
def signals_entity(context: df.DurableOrchestrationContext) -> Generator[Any, Any, Any]:
    """Signal an entity."""
    context.signal_entity(df.EntityId("counter", "k"), "add", 1)
    yield context.call_activity("greet", "x")
