"""Steps and behaviours of services for the tests of runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from functions.agents.agent_call import Call
from functions.core.definition.step_definition import BaseStep, Step
from functions.core.record import RuleSettings
from tests.unit.scheduler.world import Receipt, World, request

#: With the time in which a run must start what is ready.
PRODUCTION = RuleSettings(start_within=timedelta(seconds=60), skew=timedelta(seconds=5))
#: The first run of the task of most tests.
RUN = "t1.1.1"


def step(name: str, *needs: BaseStep[Any], **options: Any) -> Step[Any]:
    """Return a step whose request differs at each call."""
    fields: dict[str, Any] = {"result": Receipt, "undo": True, "complete_within": 20, **options}
    return Step(name, request=request, needs=needs, **fields)


def once(name: str, *needs: BaseStep[Any], **options: Any) -> Step[Any]:
    """Return a step that must not be repeated."""
    return step(name, *needs, idempotent=False, **options)


def chain(number: int, **options: Any) -> list[Step[Any]]:
    """Return steps that need each other in a row."""
    steps: list[Step[Any]] = []
    for index in range(number):
        steps.append(step(f"s{index}", *steps[-1:], **options))
    return steps


def raising(error: Exception) -> Callable[[Call], Awaitable[str]]:
    """Return a behaviour that raises an error."""

    async def behave(_call: Call) -> str:
        raise error

    return behave


def answering(result: str, seconds: float = 0) -> Callable[[Call], Awaitable[str]]:
    """Return a behaviour that returns a result after some seconds."""

    async def behave(_call: Call) -> str:
        await asyncio.sleep(seconds)
        return result

    return behave


def check_calls(world: World) -> None:
    """Check that each effect key has one body, and that no step is called twice that must not be."""
    assert {key: bodies for key, bodies in world.services.bodies.items() if len(bodies) > 1} == {}
    for key in {call.effect_key for call in world.services.calls if not call.idempotent}:
        assert [call.effect_key for call in world.services.calls].count(key) == 1, key
