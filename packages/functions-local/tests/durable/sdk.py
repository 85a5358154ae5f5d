"""An app in this process: orchestrators run by the real SDK, activities called directly."""

from __future__ import annotations

import asyncio
import json
import traceback
import warnings
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from typing import Any

import azure.durable_functions as df

from functions_local.durable import DurableEngine, DurableFunction, EngineOptions, Raised, Returned

type Orchestrator = Callable[[df.DurableOrchestrationContext], Generator[Any, Any, Any]]
type Activity = Callable[[Any], Any] | Callable[[Any], Awaitable[Any]]


class SdkApp:
    """An app that a test defines; its `invoke` takes the place of the host's worker."""

    def __init__(self) -> None:
        self._orchestrators: dict[str, Callable[[str], str]] = {}
        self._activities: dict[str, Activity] = {}
        #: Names of the activities in the order in which they were started.
        self.calls: list[str] = []

    def orchestrator[Function: Orchestrator](self, function: Function) -> Function:
        """Add an orchestrator."""
        self._orchestrators[function.__name__] = df.Orchestrator.create(function)
        return function

    def activity[Function: Activity](self, function: Function) -> Function:
        """Add an activity, plain or async; its argument is the decoded input."""
        self._activities[function.__name__] = function
        return function

    async def invoke(self, function: str, parameter: str, payload: str) -> Returned | Raised:
        """Run a function as the worker does."""
        try:
            if parameter == "context":
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # the SDK warns of events that come before their wait
                    return Returned(self._orchestrators[function](payload))
            return Returned(json.dumps(await self._run_activity(function, json.loads(payload))))
        except Exception as error:  # noqa: BLE001 - the worker reports whatever the app raises
            return Raised(f"{type(error).__name__}: {error}", traceback.format_exc())

    async def _run_activity(self, function: str, argument: Any) -> Any:
        self.calls.append(function)
        result = self._activities[function](argument)
        return await result if asyncio.iscoroutine(result) else result

    def engine(
        self, database: Path, options: EngineOptions | None = None, invoke: Any = None
    ) -> DurableEngine:
        """Make an engine for this app."""
        return DurableEngine(
            database=database,
            hub="TestHub",
            orchestrators=[DurableFunction(name, name, "context") for name in self._orchestrators],
            activities=[DurableFunction(name, name, "payload") for name in self._activities],
            invoke=invoke or self.invoke,
            options=options or EngineOptions(stop_grace=0.2),
        )
