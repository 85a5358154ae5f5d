"""Joins the Durable engine to the app: which of its functions are Durable, and how the engine runs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from local.host.app import ActivityTrigger, Function, OrchestrationTrigger
from local.host.durable import (
    DatabaseRefusedError,
    DurableEngine,
    DurableFunction,
    EngineOptions,
    Raised,
    Returned,
    Synchronous,
)
from local.host.errors import StartError
from local.host.host_json import DurableOptions
from local.host.invocations import Invocations
from local.host.worker.bridge import Failed
from local.host.worker.protos import TypedData


def make_engine(
    functions: Sequence[Function],
    invocations: Invocations,
    options: DurableOptions,
    *,
    data: Path,
    sync_mode: str,
    stop_grace: float,
) -> DurableEngine:
    """Make the engine for the app's orchestrators and activities; each hub has its own file in `data`."""
    return DurableEngine(
        database=data / f"{options.hub_name}.db",
        hub=options.hub_name,
        orchestrators=_durable(functions, OrchestrationTrigger),
        activities=_durable(functions, ActivityTrigger),
        invoke=DurableCalls(functions, invocations),
        options=_engine_options(options, Synchronous(sync_mode), stop_grace),
    )


async def start_engine(engine: DurableEngine) -> None:
    """Start it. Raises StartError when its database is another process's or not its own."""
    try:
        await engine.start()
    except DatabaseRefusedError as error:
        raise StartError(str(error)) from error


class DurableCalls:
    """Runs a Durable function for the engine, through the same door as every other invocation."""

    def __init__(self, functions: Sequence[Function], invocations: Invocations) -> None:
        self._functions = {function.name: function for function in functions}
        self._invocations = invocations

    async def __call__(self, function: str, parameter: str, payload: str) -> Returned | Raised:
        """Run the function with the JSON text in its parameter."""
        outcome = await self._invocations.run(
            self._functions[function], {parameter: TypedData(string=payload)}
        )
        if isinstance(outcome, Failed):
            return Raised(outcome.message, outcome.stack)
        return Returned(outcome.value.value if outcome.value is not None else None)


def _durable(
    functions: Sequence[Function], kind: type[OrchestrationTrigger | ActivityTrigger]
) -> list[DurableFunction]:
    return [
        DurableFunction(function.trigger.name, function.name, function.trigger.parameter)
        for function in functions
        if isinstance(function.trigger, kind)
    ]


def _engine_options(options: DurableOptions, synchronous: Synchronous, stop_grace: float) -> EngineOptions:
    engine = EngineOptions(synchronous=synchronous, stop_grace=stop_grace)
    if (limit := options.max_concurrent_orchestrator_functions) is not None:
        engine = replace(engine, max_concurrent_orchestrators=limit)
    if (limit := options.max_concurrent_activity_functions) is not None:
        engine = replace(engine, max_concurrent_activities=limit)
    return engine
