"""Runs the app's functions for every trigger: ids, counters, logged failures, output bindings."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import defaultdict
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import Any, Protocol

from functions_local.app import Function, OrchestrationTrigger
from functions_local.protos import TypedData
from functions_local.worker import Call, FunctionFailed, Outcome, Succeeded, current_invocation_id


@dataclass(slots=True)
class _Running:
    """One invocation."""

    function: str
    #: When it started, on the loop's clock.
    started: float
    #: The task that runs it, or that waits for its thread.
    task: asyncio.Task[Any] | None
    #: Whether it has run for too long and its task has been cancelled.
    overdue: bool = False


class InFlight:
    """Every invocation between its start and its end, in the order of the starts."""

    def __init__(self, timeout: timedelta | None) -> None:
        self._timeout = timeout.total_seconds() if timeout else None
        self._running: dict[str, _Running] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._watch: asyncio.TimerHandle | None = None
        self._any_overdue = False
        # Has the form of a UUID: a prefix for the process and a counter, which is faster than random ids.
        self._id_prefix = str(uuid.uuid4())[:24]
        self._numbers = count(1)

    def __len__(self) -> int:
        return len(self._running)

    def begin(self, function: str) -> str:
        """Add an invocation of the function, and return its id."""
        invocation_id = f"{self._id_prefix}{next(self._numbers):012x}"
        now = asyncio.get_running_loop().time()
        self._running[invocation_id] = _Running(function, now, asyncio.current_task())
        self._idle.clear()
        if self._timeout is not None and self._watch is None:
            self._watch_until(now + self._timeout)
        return invocation_id

    def end(self, invocation_id: str) -> None:
        """Remove an invocation."""
        del self._running[invocation_id]
        if not self._running:
            self._idle.set()

    def was_overdue(self, invocation_id: str) -> bool:
        """Whether only the timeout cancelled the invocation's task; uncancels the task."""
        running = self._running[invocation_id]
        return running.overdue and running.task is not None and running.task.uncancel() == 0

    def name_of(self, invocation_id: str) -> str:
        """Return the function that the invocation runs, or `ended`."""
        running = self._running.get(invocation_id)
        return "ended" if running is None else running.function

    async def drain(self, seconds: float) -> bool:
        """Wait at most `seconds` until no invocation is in flight.

        Return whether no invocation is still running: a thread may outlive its invocation.
        """
        try:
            await asyncio.wait_for(self._idle.wait(), seconds)
        except TimeoutError:
            names = sorted({running.function for running in self._running.values()})
            _log.warning("stopped after %g s without waiting for: %s", seconds, ", ".join(names))
            return False
        return not self._any_overdue

    def _watch_until(self, moment: float) -> None:
        self._watch = asyncio.get_running_loop().call_at(moment, self._end_overdue)

    def _end_overdue(self) -> None:
        """Cancel overdue invocations. One timer serves all: the oldest is first, and most end in time."""
        assert self._timeout is not None  # noqa: S101 - nothing is watched without one
        self._watch = None
        now = asyncio.get_running_loop().time()
        for running in self._running.values():
            if running.overdue:
                continue
            if running.started + self._timeout > now:
                self._watch_until(running.started + self._timeout)
                return
            running.overdue = self._any_overdue = True
            if running.task is not None:
                running.task.cancel()


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
