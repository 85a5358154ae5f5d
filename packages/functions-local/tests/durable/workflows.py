"""Orchestrators and activities that several tests use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from datetime import timedelta
from typing import Any

import azure.durable_functions as df

from functions_local.durable import DurableEngine
from functions_local.durable.events import RuntimeStatus
from functions_local.durable.store import InstanceRow
from tests.durable.sdk import SdkApp

type Steps = Generator[Any, Any, Any]


def standard_app() -> SdkApp:
    """Return an app with all of the functions below."""
    app = SdkApp()
    for activity in (add_one, slow, boom):
        app.activity(activity)
    for orchestrator in (chain, event, race, fan_out, counting, fails):
        app.orchestrator(orchestrator)
    return app


def add_one(number: int) -> int:
    """Return the next number."""
    return number + 1


async def slow(seconds: float) -> str:
    """Take some time."""
    await asyncio.sleep(seconds)
    return f"slept {seconds}"


def boom(text: str) -> str:
    """Raise."""
    raise ValueError(f"boom {text}")


def chain(context: df.DurableOrchestrationContext) -> Steps:
    """Run `add_one` as often as the input says."""
    number = 0
    for _ in range(context.get_input() or 2):
        number = yield context.call_activity("add_one", number)
    return number


def event(context: df.DurableOrchestrationContext) -> Steps:
    """Wait for the event `go`."""
    context.set_custom_status("waiting")
    value = yield context.wait_for_external_event("go")
    context.set_custom_status({"got": value})
    return {"event": value}


def race(context: df.DurableOrchestrationContext) -> Steps:
    """Race `slow` against a timer: the input has their seconds, and whether to cancel the timer."""
    wanted = context.get_input()
    activity = context.call_activity("slow", wanted["slow"])
    timer = context.create_timer(context.current_utc_datetime + timedelta(seconds=wanted["timer"]))
    winner = yield context.task_any([activity, timer])
    if winner == activity and wanted["cancel"]:
        timer.cancel()
    return "activity" if winner == activity else "timer"


def fan_out(context: df.DurableOrchestrationContext) -> Steps:
    """Run as many concurrent `add_one` as the input says."""
    results = yield context.task_all(
        [context.call_activity("add_one", n) for n in range(context.get_input())]
    )
    return sum(results)


def counting(context: df.DurableOrchestrationContext) -> Steps:
    """Count up to 3, continuing as new each time."""
    number = yield context.call_activity("add_one", context.get_input() or 0)
    if number < 3:
        context.continue_as_new(number)
        return None
    return number


def fails(context: df.DurableOrchestrationContext) -> Steps:
    """Call an activity that fails, keep its error text, and raise."""
    try:
        yield context.call_activity("boom", "x")
    except Exception as error:  # noqa: BLE001 - the SDK raises nothing more precise
        context.set_custom_status({"seen": str(error)[:60]})
    raise ValueError("orchestrator failed")


async def result(engine: DurableEngine, instance: str) -> InstanceRow:
    """Return an instance when it has ended."""
    row = await engine.client.wait(instance, 60)
    assert row.status.is_terminal, row
    return row


async def until_status(engine: DurableEngine, instance: str, status: RuntimeStatus) -> None:
    """Wait until an instance has that status."""
    await until(lambda: engine.client.find(instance).status is status)


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition is true, at most a minute."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)
