"""Agents that do what a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from functions.pattern.definition import Json
from functions.pattern.ports import AgentCall


class ScriptedAgent:
    """Stands in for all Agents of a task: keeps its calls, and does what the test says, for all or for one.

    The steps `slow` wait until the test lets them go on.
    """

    def __init__(self) -> None:
        self.calls: list[AgentCall] = []
        self.behaviour: Callable[[], Json] = lambda: {"done": True}
        self.behaviours: dict[str, Callable[[], Json]] = {}
        self._slow: dict[str, asyncio.Event] = {}
        self._called: dict[str, asyncio.Event] = {}

    @property
    def steps(self) -> list[str]:
        """Name the steps that were called, in that order, with the direction of an undo."""
        parts = [call.effect_key.split("/") for call in self.calls]
        return [name if direction == "do" else f"{name} undo" for _, name, direction in parts]

    def slow(self, *steps: str) -> None:
        """Let the calls of these steps take until `let_go`."""
        self._slow |= {step: asyncio.Event() for step in steps}
        self._called |= {step: asyncio.Event() for step in steps}

    async def until_called(self, *steps: str) -> None:
        """Wait for the calls of slow steps."""
        for step in steps:
            await self._called[step].wait()

    def let_go(self, *steps: str) -> None:
        """Let slow calls go on."""
        for step in steps:
            self._slow[step].set()

    async def do(self, call: AgentCall) -> Json:
        """Give the result, or raise."""
        self.calls.append(call)
        step = call.effect_key.split("/")[1]
        if step in self._slow:
            self._called[step].set()
            await self._slow[step].wait()
        return self.behaviours.get(step, self.behaviour)()

    async def undo(self, call: AgentCall) -> None:
        """Undo it, or raise."""
        await self.do(call)


def raising(error: Exception) -> Callable[[], Json]:
    """Let an Agent raise."""

    def behave() -> Json:
        raise error

    return behave
