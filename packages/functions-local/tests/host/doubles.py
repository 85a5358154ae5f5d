"""Stand-ins for the worker and for output bindings, and functions to run with them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from functions_local.app import Function, ServiceBusOutput, Trigger
from functions_local.invocations import Invocations
from functions_local.protos import TypedData
from functions_local.worker import Call, Outcome, Succeeded

NOTHING = Succeeded(None, {})


@dataclass
class FakeWorker:
    """Answers each call with the result of `behave`, and records the calls."""

    behave: Callable[[Call], Outcome] = lambda _call: NOTHING
    calls: list[Call] = field(default_factory=list)
    hold: asyncio.Event | None = None

    async def invoke(self, call: Call) -> Outcome:
        """Answer, after `hold` if it is set."""
        self.calls.append(call)
        if self.hold is not None:
            await self.hold.wait()
        return self.behave(call)

    def replay(self, invocation_id: str, function_id: str, parameter: str, context: str) -> Outcome:
        """Answer at once."""
        call = Call(invocation_id, function_id, {parameter: TypedData(string=context)})
        self.calls.append(call)
        return self.behave(call)


@dataclass
class FakeOutputs:
    """Records what would be sent, or fails."""

    sent: list[Mapping[str, TypedData]] = field(default_factory=list)
    error: Exception | None = None

    async def send(self, _function: Function, outputs: Mapping[str, TypedData]) -> None:
        """Record the values."""
        if self.error is not None:
            raise self.error
        self.sent.append(outputs)


def invocations(worker: FakeWorker, outputs: FakeOutputs | None = None) -> Invocations:
    """Make the invocations of a host with this worker."""
    return Invocations(worker, outputs or FakeOutputs(), timeout=None)


def function(
    trigger: Trigger, *, name: str = "f", clients: tuple[str, ...] = (), output: str | None = None
) -> Function:
    """Make a function of the app, with an output binding of that name."""
    outputs = () if output is None else (ServiceBusOutput(output, "Bus", "q"),)
    return Function(name, f"id-{name}", trigger, clients, outputs, None)
