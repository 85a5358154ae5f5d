"""Runs the app's functions for every trigger: ids, counters, logged failures, output bindings."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from functions_local.app import Function, OrchestrationTrigger
from functions_local.in_flight import InFlight
from functions_local.protos import TypedData
from functions_local.worker import Call, FunctionFailed, Outcome, Succeeded, current_invocation_id

_log = logging.getLogger(__name__)


class Runs(Protocol):
    """Runs a call: the worker, or a fake of a test."""

    async def invoke(self, call: Call) -> Outcome:
        """Run one function."""
        ...

    def replay(self, invocation_id: str, function_id: str, parameter: str, context: str) -> Outcome:
        """Run one orchestrator, on the loop."""
        ...


class Sends(Protocol):
    """Sends the values that a function set on its output bindings."""

    async def send(self, function: Function, outputs: Mapping[str, TypedData]) -> None:
        """Send all values, or raise."""
        ...


@dataclass(slots=True)
class Counters:
    """Invocations of one function since the start."""

    started: int = 0
    succeeded: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Attempt:
    """The number of an attempt of an invocation, counted from 0, and the maximum number of retries."""

    retry_count: int = 0
    max_retry_count: int = 0


_FIRST = Attempt()


class Invocations:
    """Every invocation of the host goes through `run` or `replay`."""

    def __init__(self, worker: Runs, outputs: Sends, *, timeout: timedelta | None) -> None:
        self._worker = worker
        self._outputs = outputs
        self._in_flight = InFlight(timeout)
        limit = timeout.total_seconds() if timeout else 0
        self._ended = FunctionFailed(f"it was ended at functionTimeout ({limit:g} s)", "")
        self.counters: defaultdict[str, Counters] = defaultdict(Counters)
        #: The JSON of a durableClient binding; the host sets it before the first invocation.
        self.durable_client = ""

    async def run(
        self,
        function: Function,
        inputs: Mapping[str, TypedData],
        metadata: Mapping[str, TypedData] | None = None,
        attempt: Attempt = _FIRST,
    ) -> Outcome:
        """Run a function once and send its outputs; an exception is logged and returned as FunctionFailed.

        A timeout (functionTimeout) is logged and returned in the same way. After a timeout or its own
        cancellation, `run` ends at once, even if the function continues.
        """
        invocation_id = self._begin(function)
        call = Call(
            invocation_id=invocation_id,
            function_id=function.function_id,
            inputs=self._with_clients(function, inputs),
            metadata=metadata or {},
            retry_count=attempt.retry_count,
            max_retry_count=attempt.max_retry_count,
        )
        try:
            outcome = await self._outcome(function, call)
            if self._in_flight.was_overdue(invocation_id):
                outcome = self._ended
        except asyncio.CancelledError:
            if not self._in_flight.was_overdue(invocation_id):
                raise
            outcome = self._ended
        finally:
            self._in_flight.end(invocation_id)
        return self._counted(function, invocation_id, outcome)

    def replay(self, function: Function, parameter: str, context: str) -> Outcome:
        """Run an orchestrator once, at once; an exception is logged and returned as FunctionFailed."""
        invocation_id = self._begin(function)
        try:
            outcome = self._worker.replay(invocation_id, function.function_id, parameter, context)
        finally:
            self._in_flight.end(invocation_id)
        return self._counted(function, invocation_id, outcome)

    def fail(self, function: Function, message: str) -> Outcome:
        """Count and log an invocation that fails before its function is called."""
        invocation_id = self._begin(function)
        self._in_flight.end(invocation_id)
        return self._counted(function, invocation_id, FunctionFailed(message, ""))

    def label(self, invocation_id: str | None = None) -> str | None:
        """Name the function and invocation of an id, or of the running code; None outside an invocation."""
        invocation_id = invocation_id or current_invocation_id()
        return None if invocation_id is None else f"{self._in_flight.name_of(invocation_id)} {invocation_id}"

    @property
    def running(self) -> int:
        """Number of invocations in flight."""
        return len(self._in_flight)

    async def drain(self, seconds: float) -> bool:
        """Wait at most `seconds` for the end of all invocations; return whether all have ended."""
        return await self._in_flight.drain(seconds)

    async def _outcome(self, function: Function, call: Call) -> Outcome:
        outcome = await _leaving_behind(self._worker.invoke(call))
        if isinstance(outcome, Succeeded) and function.outputs:
            given = {output.name: outcome.given(output.name) for output in function.outputs}
            try:
                await self._outputs.send(function, {name: data for name, data in given.items() if data})
            except Exception as error:  # noqa: BLE001 - an output that is not sent fails the invocation
                return FunctionFailed(f"{type(error).__name__}: an output could not be sent: {error}", "")
        return outcome

    def _with_clients(self, function: Function, inputs: Mapping[str, TypedData]) -> Mapping[str, TypedData]:
        if not function.durable_clients:
            return inputs
        return {**inputs, **dict.fromkeys(function.durable_clients, TypedData(string=self.durable_client))}

    def _begin(self, function: Function) -> str:
        self.counters[function.name].started += 1
        return self._in_flight.begin(function.name)

    def _counted(self, function: Function, invocation_id: str, outcome: Outcome) -> Outcome:
        if isinstance(outcome, FunctionFailed):
            self.counters[function.name].failed += 1
            _report(function, invocation_id, outcome)
        else:
            self.counters[function.name].succeeded += 1
        return outcome


async def _leaving_behind(running: Coroutine[Any, Any, Outcome]) -> Outcome:
    """Await `running`; if cancelled, cancel it too, but do not wait: it may ignore the cancellation."""
    task = asyncio.Task(running, loop=asyncio.get_running_loop(), eager_start=True)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.cancel()
        raise


def _report(function: Function, invocation_id: str, failure: FunctionFailed) -> None:
    # An orchestrator's failure has its whole state after the first line; the engine logs the error itself.
    if isinstance(function.trigger, OrchestrationTrigger):
        _log.error("[%s %s] failed: %s", function.name, invocation_id, failure.message.partition("\n")[0])
    else:
        _log.error(
            "[%s %s] failed: %s\n%s", function.name, invocation_id, failure.message, failure.stack.rstrip()
        )
