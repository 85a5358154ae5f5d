"""A Durable Task engine on SQLite for the unmodified azure-functions-durable SDK.

The flow: a client's request (`api`, `client`) becomes a message in an instance's inbox (`store`,
`database`); the `dispatcher` schedules the instance; an `episode` replays its orchestrator, the `shim`
determines what is new in its state, and one transaction commits that; `activities` run, and their results
are messages in the inbox again. Supported: activities, retries, timers, external events, WhenAny, WhenAll,
continue-as-new, suspend, terminate, restart, purge. Refused by name: entities, sub-orchestrations, call_http
(`shim`), rewind (`api`).
"""

from __future__ import annotations

from functions_local.durable.contract import (
    DurableFunction,
    EngineOptions,
    Invoke,
    Raised,
    Returned,
)
from functions_local.durable.database import DatabaseRefusedError
from functions_local.durable.engine import DurableEngine

__all__ = [
    "DatabaseRefusedError",
    "DurableEngine",
    "DurableFunction",
    "EngineOptions",
    "Invoke",
    "Raised",
    "Returned",
]
