"""Runs the app's functions for every trigger: ids, counters, logged failures, output bindings."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from functions_local.app import Function, OrchestrationTrigger
from functions_local.protos import TypedData
from functions_local.worker import Call, FunctionFailed, Outcome, Succeeded, current_invocation_id

_log = logging.getLogger(__name__)


class Runs(Protocol):
    """What runs a call: the worker, or a test's stand-in."""

    async def invoke(self, call: Call) -> Outcome:
        """Run one function."""
        ...


class Sends(Protocol):
    """What sends the values that a function set on its output bindings."""

    async def send(self, function: Function, outputs: Mapping[str, TypedData]) -> None:
        """Send all of them, or raise."""
        ...


@dataclass(slots=True)
class Counters:
    """Invocations of one function since the start."""

    started: int = 0
    succeeded: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Attempt:
    """Which attempt of an invocation this is, counted from 0, and how many retries are allowed."""

    retry_count: int = 0
    max_retry_count: int = 0


_FIRST = Attempt()


class Invocations:
    """Every invocation of the host goes through `run`."""

    def __init__(self, worker: Runs, outputs: Sends, *, timeout: timedelta | None) -> None:
        self._worker = worker
        self._outputs = outputs
        self._timeout = timeout.total_seconds() if timeout else None
        self._running: dict[str, str] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self.counters: dict[str, Counters] = {}
        #: The JSON of a durableClient binding; the host sets it before the first invocation.
        self.durable_client = ""

    async def run(
        self,
        function: Function,
        inputs: Mapping[str, TypedData],
        metadata: Mapping[str, TypedData] | None = None,
        attempt: Attempt = _FIRST,
    ) -> Outcome:
        """Run a function once and send its outputs; an exception is logged and returned as FunctionFailed."""
        call = Call(
            invocation_id=str(uuid.uuid4()),
            function_id=function.function_id,
            inputs=self._with_clients(function, inputs),
            metadata=metadata or {},
            retry_count=attempt.retry_count,
            max_retry_count=attempt.max_retry_count,
        )
        counters = self.counters.setdefault(function.name, Counters())
        counters.started += 1
        overdue = self._watch(function.name, call.invocation_id)
        self._begin(call.invocation_id, function.name)
        try:
            outcome = await self._outcome(function, call)
        finally:
            self._end(call.invocation_id)
            if overdue:
                overdue.cancel()
        if isinstance(outcome, FunctionFailed):
            counters.failed += 1
            _report(function, call.invocation_id, outcome)
        else:
            counters.succeeded += 1
        return outcome

    def label(self, invocation_id: str | None = None) -> str | None:
        """Name the function and invocation of an id, or of the running code; None outside an invocation."""
        invocation_id = invocation_id or current_invocation_id()
        if invocation_id is None:
            return None
        return f"{self._running.get(invocation_id, 'ended')} {invocation_id}"

    @property
    def running(self) -> int:
        """How many invocations are in flight."""
        return len(self._running)

    async def drain(self, seconds: float) -> bool:
        """Wait at most `seconds` until no invocation is in flight; return whether that was reached."""
        try:
            await asyncio.wait_for(self._idle.wait(), seconds)
        except TimeoutError:
            _log.warning(
                "stopped after %g s without waiting for: %s",
                seconds,
                ", ".join(sorted(set(self._running.values()))),
            )
            return False
        return True

    async def _outcome(self, function: Function, call: Call) -> Outcome:
        outcome = await self._worker.invoke(call)
        if isinstance(outcome, Succeeded) and outcome.outputs:
            try:
                await self._outputs.send(function, outcome.outputs)
            except Exception as error:  # noqa: BLE001 - an output that is not sent fails the invocation
                return FunctionFailed(f"{type(error).__name__}: an output could not be sent: {error}", "")
        return outcome

    def _with_clients(self, function: Function, inputs: Mapping[str, TypedData]) -> Mapping[str, TypedData]:
        if not function.durable_clients:
            return inputs
        return {**inputs, **dict.fromkeys(function.durable_clients, TypedData(string=self.durable_client))}

    def _begin(self, invocation_id: str, function: str) -> None:
        self._running[invocation_id] = function
        self._idle.clear()

    def _end(self, invocation_id: str) -> None:
        del self._running[invocation_id]
        if not self._running:
            self._idle.set()

    def _watch(self, function: str, invocation_id: str) -> asyncio.TimerHandle | None:
        if self._timeout is None:
            return None
        message = (
            "function %s has run longer than functionTimeout (%g s); Azure would end it here (invocation %s)"
        )
        return asyncio.get_running_loop().call_later(
            self._timeout, _log.error, message, function, self._timeout, invocation_id
        )


def _report(function: Function, invocation_id: str, failure: FunctionFailed) -> None:
    # An orchestrator's failure has its whole state after the first line; the engine reports what it means.
    if isinstance(function.trigger, OrchestrationTrigger):
        _log.error("[%s %s] failed: %s", function.name, invocation_id, failure.message.partition("\n")[0])
    else:
        _log.error(
            "[%s %s] failed: %s\n%s", function.name, invocation_id, failure.message, failure.stack.rstrip()
        )
