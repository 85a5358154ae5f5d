"""Calls beside a gate that closes, and beside messages that Service Bus accepts late."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from functions.agents.agent_call import Call, NotBegunError
from functions.core.definition.step_definition import TimerStep
from functions.core.derive import ProcessState, derive
from functions.core.task_events import Due, OutcomeKind
from functions.messaging.task_messages import SchedulerMessage, WakeRequest
from functions.storage.gate_releases import GateReleases
from functions.storage.gates import Gates
from tests.fakes.storage_process import virtual_now
from tests.unit.scheduler.steps import PRODUCTION, step
from tests.unit.scheduler.world import Process, World, workflow
from tests.unit.storage.virtual import virtual


async def _scene(
    answer: Callable[[Call], Awaitable[str]],
    tasks: int,
    seconds: float,
    *,
    limit: int = 100,
    message: float = 0,
    **options: Any,
) -> tuple[World, Gates]:
    """Return a world with tasks behind gates; a message of a release chain takes `message` seconds."""
    world = World(workflow(step("pay", complete_within=seconds, **options)), settings=PRODUCTION)
    world.services.behaviour["pay"] = answer
    process = world.process

    async def schedule(_name: str, _link: int, _at: datetime) -> None:
        await asyncio.sleep(message)

    gates = Gates(
        process.storage,
        settings=process.settings,
        now=virtual_now,
        schedule_release=schedule,
        calls_at_once={"pay": limit},
    )
    process.gates = gates  # type: ignore[assignment]
    process.runs = replace(process.runs, gates=gates)
    process.receivers = replace(process.receivers, gates=gates, releases=GateReleases(gates))
    for number in range(tasks):
        await world.admit(f"t{number}")
    return world, gates


async def _five_seconds(_call: Call) -> str:
    await asyncio.sleep(5)
    return '{"number":7}'


async def _failures(world: World, tasks: int, *, sweeps: int) -> int:
    """Sweep every five seconds, and return the failures of all tasks."""
    records = []
    for _ in range(sweeps):
        await asyncio.sleep(5)
        records = [await world.record(f"t{number}") for number in range(tasks)]
        due = [each for each in records if (derive(each).due_at or virtual_now()) < virtual_now()]
        for each in due:
            await world.process.change(each.order.task, Due(may_recover=True))
    return sum(each.failures for each in records)


@virtual
async def test_call_that_waits_for_a_slot_does_not_begin_during_a_hold() -> None:
    """The only slot is in use for five seconds at a time."""
    world, gates = await _scene(_five_seconds, 20, 200, limit=1)
    await asyncio.sleep(2)
    await gates.hold("pay", "maintenance", "op")
    await asyncio.sleep(4)
    begun = len(world.services.calls)
    await asyncio.sleep(120)
    assert len(world.services.calls) == begun == 1


@virtual
async def test_call_that_waits_for_a_slot_sees_the_hold_of_another_instance() -> None:
    """The view of an instance without traffic is old when the slot is free."""

    async def answer(_call: Call) -> str:
        await asyncio.sleep(25)
        return '{"number":7}'

    world, _ = await _scene(answer, 5, 200, limit=1)
    await asyncio.sleep(5)
    await Process(world).gates.hold("pay", "maintenance", "op")
    await asyncio.sleep(150)
    assert len(world.services.calls) == 1


@virtual
async def test_calls_that_wait_for_slots_begin_one_by_one_behind_a_half_open_gate() -> None:
    """The circuit opened after their starts."""

    async def answer(_call: Call) -> str:
        await asyncio.sleep(20)
        raise RuntimeError("no answer")

    world, gates = await _scene(answer, 30, 200, limit=10)
    await asyncio.sleep(2)
    await gates.report("pay", OutcomeKind.NOT_BEGUN, virtual_now())
    await world.admit("late")
    await asyncio.sleep(7)
    await GateReleases(gates).release("pay", (await gates.read("pay"))[0].link)
    await asyncio.sleep(2)
    begun = len(world.services.calls)
    await asyncio.sleep(11)
    assert len(world.services.calls) - begun <= 2


@virtual
async def test_new_limit_counts_for_calls_that_wait() -> None:
    """Calls of the old limit end in five seconds."""
    world, gates = await _scene(_five_seconds, 60, 200, limit=10)
    await asyncio.sleep(2)
    await gates.set_calls_at_once("pay", 1)
    await asyncio.sleep(5.1)
    begun = len(world.services.calls)
    await asyncio.sleep(20)
    assert 0 < len(world.services.calls) - begun <= 4


@pytest.mark.parametrize("idempotent", [True, False])
@virtual
async def test_agent_that_raises_cancelled_error_has_an_outcome(*, idempotent: bool) -> None:
    """A future that its library awaits was cancelled."""

    async def answer(_call: Call) -> str:
        raise asyncio.CancelledError

    world, _ = await _scene(answer, 1, 200, idempotent=idempotent)
    await asyncio.sleep(30)
    assert (await world.record("t0")).do("pay").error is not None


@virtual
async def test_slow_message_of_a_release_chain_delays_no_outcome() -> None:
    """All calls but one are answered two seconds before the deadline; that one was not begun before."""

    async def answer(call: Call) -> str:
        left = (call.complete_by - virtual_now()).total_seconds()
        await asyncio.sleep(left - 2 - (call.task == "t0"))
        if call.task == "t0":
            raise NotBegunError("refused")
        return '{"number":7}'

    world, _ = await _scene(answer, 50, 20, message=9)
    await asyncio.sleep(22)
    states = [derive(await world.record(f"t{number}")).state for number in range(50)]
    assert states == [ProcessState.PENDING, *[ProcessState.PROCESSED] * 49]


@virtual
async def test_call_begins_before_the_timer_beside_it_is_announced() -> None:
    """Service Bus accepts the message of the timer after nine seconds."""

    def until(_payload: Any, _results: Any) -> datetime:
        return datetime(2026, 6, 1, tzinfo=UTC)

    steps = TimerStep("later", until=until), step("pay", complete_within=3)
    world = World(workflow(*steps), settings=PRODUCTION)
    send = world.process.announcer.send

    async def slow(message: SchedulerMessage) -> None:
        await asyncio.sleep(9 * isinstance(message, WakeRequest))
        await send(message)

    object.__setattr__(world.process.announcer, "send", slow)
    await world.admit("t0")
    assert await _failures(world, 1, sweeps=4) == 0
    assert world.services.names() == ["pay"]
