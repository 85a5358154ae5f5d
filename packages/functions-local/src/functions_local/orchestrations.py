"""Connects the Durable engine to the app: which functions are Durable, and how the engine runs them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from functions_local.app import ActivityTrigger, Function, OrchestrationTrigger
from functions_local.configuration import StartError
from functions_local.durable import (
    DatabaseRefusedError,
    DurableEngine,
    DurableFunction,
    EngineOptions,
    Raised,
    Returned,
)
from functions_local.host_json import DurableOptions
from functions_local.invocations import Invocations
from functions_local.protos import TypedData
from functions_local.worker import FunctionFailed


def make_engine(
    functions: Sequence[Function],
    invocations: Invocations,
    host_json: DurableOptions,
    options: EngineOptions,
    data: Path,
) -> DurableEngine:
    """Make the engine for the app's orchestrators and activities; each hub has its own file in `data`.

    Limits in host.json override those in `options`.
    """
    return DurableEngine(
        database=data / f"{host_json.hub_name}.db",
        hub=host_json.hub_name,
        orchestrators=_durable(functions, OrchestrationTrigger),
        activities=_durable(functions, ActivityTrigger),
        invoke=DurableCalls(functions, invocations),
        options=_with_limits(options, host_json),
    )


async def start_engine(engine: DurableEngine) -> None:
    """Start the engine.

    Raises StartError when its database is in use, was written by another version, or is damaged.
    """
    try:
        await engine.start()
    except DatabaseRefusedError as error:
        raise StartError(str(error)) from error
    except sqlite3.DatabaseError as error:
        raise StartError(
            f"{engine.path} is damaged ({error}): delete it, or use another folder (--data)"
        ) from error


class DurableCalls:
    """Runs Durable functions for the engine, as ordinary invocations of the host."""

    def __init__(self, functions: Sequence[Function], invocations: Invocations) -> None:
        self._functions = {function.name: function for function in functions}
        self._invocations = invocations

    async def __call__(self, function: str, parameter: str, payload: str) -> Returned | Raised:
        """Run the function with the JSON text in its parameter."""
        found = self._functions[function]
        if _only_computes(found):
            outcome = self._invocations.replay(found, parameter, payload)
        else:
            outcome = await self._invocations.run(found, {parameter: TypedData(string=payload)})
        if isinstance(outcome, FunctionFailed):
            return Raised(outcome.message, outcome.stack)
        return Returned(outcome.value.value if outcome.value is not None else None)


def _only_computes(function: Function) -> bool:
    """Whether a function is an orchestrator without other bindings, so that no value needs conversion."""
    return (
        isinstance(function.trigger, OrchestrationTrigger)
        and not function.durable_clients
        and not function.outputs
    )


def _durable(
    functions: Sequence[Function], kind: type[OrchestrationTrigger | ActivityTrigger]
) -> list[DurableFunction]:
    return [
        DurableFunction(function.trigger.name, function.name, function.trigger.parameter)
        for function in functions
        if isinstance(function.trigger, kind)
    ]


def _with_limits(options: EngineOptions, host_json: DurableOptions) -> EngineOptions:
    if (limit := host_json.max_concurrent_orchestrator_functions) is not None:
        options = replace(options, max_concurrent_orchestrators=limit)
    if (limit := host_json.max_concurrent_activity_functions) is not None:
        options = replace(options, max_concurrent_activities=limit)
    return replace(
        options,
        store_inputs=host_json.store_inputs_in_orchestration_history,
        default_version=host_json.default_version,
    )
