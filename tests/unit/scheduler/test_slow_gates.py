"""Calls while the rows of the gates cannot be read: each waits two seconds for one read."""

from __future__ import annotations

import asyncio
from typing import Any

from functions.agents.agent_call import Call
from functions.core.gate_rules import Circuit
from functions.storage.gates import Gates
from functions.storage.table_contract import RowPage, RowQuery
from tests.fakes.storage_process import virtual_now
from tests.unit.scheduler.test_slow_messages import _scene
from tests.unit.storage.virtual import virtual


async def _hang_for(gates: Gates, seconds: float) -> None:
    """Let each query of the gates' partition hang, as Azure does while it moves a partition."""
    table, until = gates.storage.table, asyncio.get_running_loop().time() + seconds
    query = table.query

    async def hanging(partition: str, asked: RowQuery) -> RowPage:
        if partition == Gates.partition:
            await asyncio.sleep(max(0.0, until - asyncio.get_running_loop().time()))
        return await query(partition, asked)

    table.query = hanging  # type: ignore[method-assign, assignment]


async def _calls(tasks: int, *, seconds: float) -> tuple[Any, list[float]]:
    began: list[float] = []
    start = virtual_now()

    async def answer(_call: Call) -> str:
        began.append((virtual_now() - start).total_seconds())
        return '{"number":7}'

    world, gates = await _scene(answer, 0, seconds)
    await gates.refresh()
    await asyncio.sleep(3)
    await _hang_for(gates, 60)
    start = virtual_now()
    await asyncio.gather(*(world.admit(f"t{number}") for number in range(tasks)))
    await asyncio.sleep(60)
    return world, began


@virtual
async def test_each_call_waits_for_one_read_of_the_gates() -> None:
    """Not two seconds for each other call."""
    _, began = await _calls(16, seconds=20)
    assert len(began) == 16, began
    assert max(began) < 10, began


@virtual
async def test_call_of_two_seconds_is_made() -> None:
    """One task alone: the read after its start takes all of its time."""
    _, began = await _calls(1, seconds=2)
    assert began, began


@virtual
async def test_table_that_cannot_be_read_opens_no_circuit_of_a_service() -> None:
    """The service is well, and was not asked: the calls waited for the gates until their deadlines."""
    world, _ = await _calls(16, seconds=20)
    gate = world.process.gates.of("pay")
    assert gate is None or gate.circuit is Circuit.CLOSED, gate
