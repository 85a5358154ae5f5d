"""The full sweep deletes reservations that no order has followed."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import pytest

from functions.core.rules import admit
from functions.messaging.intake_measurement import record_intake
from functions.messaging.message_format import SubmissionMessage
from functions.messaging.queue_depths import Backlog
from functions.messaging.reservations import Reservation, find_reservation, reject_reservation
from functions.messaging.reservations import reserve as reserve_id
from functions.storage.table_contract import RowPage, RowQuery
from tests.fakes.simulated_table import SimulatedTable
from tests.fakes.storage_process import order, virtual_now
from tests.unit.storage.virtual import virtual
from tests.unit.supervisor.test_table_sweep import Maintained

HOUR = 3600


def message(task: str) -> SubmissionMessage:
    """Return an order that is submitted now."""
    return SubmissionMessage(
        schema_version=1, task_id=task, workflow="w", payload={}, submitter="me", submitted_at=virtual_now()
    )


async def reserve(process: Maintained, *tasks: str) -> list[Reservation]:
    """Reserve ids."""
    return [await reserve_id(process.storage, message(task)) for task in tasks]


async def reject(process: Maintained, reserved: Reservation) -> None:
    """Reject the order of the reservation of `t1`."""
    rejected = message("t1").model_copy(update={"reservation": reserved.etag})
    await reject_reservation(process.storage, rejected, "why")


async def measure(process: Maintained, oldest_at: datetime | None = None) -> None:
    """Measure a queue, which is empty or has an oldest message."""
    await record_intake(process.storage.table, Backlog(0, 0, oldest_at), virtual_now())


async def sweep(process: Maintained, oldest_at: datetime | None = None) -> list[str]:
    """Measure the queue, sweep, and return the tasks that have rows."""
    await measure(process, oldest_at)
    assert (await process.full.run()).failed == 0
    assert isinstance(process.storage.table, SimulatedTable)
    return [key.partition("|")[0] for key in process.storage.table.keys("t")]


@virtual
async def test_reservation_without_a_task_is_deleted_after_its_time() -> None:
    """Not before, and no younger one. The message of a rejected order stays in `Rejected`."""
    process = Maintained(SimulatedTable(), shards=2)
    [rejected, _] = await reserve(process, "t1", "t2")
    await reject(process, rejected)
    await asyncio.sleep(HOUR)
    await reserve(process, "t3")
    await asyncio.sleep(47 * HOUR - 1)
    assert await sweep(process) == ["t1", "t2", "t3"]
    await asyncio.sleep(2)
    await measure(process)
    assert (await process.full.run()).purged == 2
    assert await sweep(process) == ["t3"]


@virtual
async def test_reservation_stays_while_its_message_may_be_in_the_queue() -> None:
    """While an older message waits, or the measurement is old or missing."""
    process = Maintained(SimulatedTable())
    await reserve(process, "t1")
    reserved_at = virtual_now()
    await asyncio.sleep(48 * HOUR + 1)
    assert (await process.full.run()).purged == 0
    assert await sweep(process, reserved_at) == ["t1"]
    await measure(process)
    await asyncio.sleep(181)
    assert (await process.full.run()).purged == 0
    assert await sweep(process, virtual_now() - timedelta(hours=47)) == []


@pytest.mark.parametrize("is_admitted", [True, False])
@virtual
async def test_reservation_that_changes_at_this_moment_stays(*, is_admitted: bool) -> None:
    """Its order is recorded, or another order reserves the id after a rejection."""
    table = SimulatedTable()
    process = Maintained(table)
    [reserved] = await reserve(process, "t1")
    query = table.query
    if not is_admitted:
        await reject(process, reserved)
    await asyncio.sleep(48 * HOUR + 1)

    async def then_change(partition: str, asked: RowQuery) -> RowPage:
        page = await query(partition, asked)
        if asked.having == "Reserved":
            table.query = query  # type: ignore[method-assign]
            if is_admitted:
                record = admit(order("t1"), virtual_now(), process.settings)
                await process.storage.admit(record, reserved=reserved.etag)
            else:
                await reserve(process, "t1")
        return page

    table.query = then_change  # type: ignore[method-assign, assignment]
    assert set(await sweep(process)) == {"t1"}
    assert table.query == query
    assert (await find_reservation(process.storage, "t1") or reserved).is_admitted is is_admitted


@virtual
async def test_many_reservations_are_deleted_page_by_page() -> None:
    """Between tasks, whose rows stay. A sweep without time left continues at its cursor."""
    table = SimulatedTable(page=7)
    process = Maintained(table)
    await reserve(process, *(f"t{number:03d}" for number in range(100)))
    await asyncio.sleep(47 * HOUR)
    for number in range(100, 130):
        await process.admit(f"t{number:03d}")
    await asyncio.sleep(HOUR + 1)
    table.seconds, sweeps = 5.0, 1
    while len({*await sweep(process)}) > 30:
        sweeps += 1
    assert 2 < sweeps < 20
    tasks = {key.partition("|")[0] for key in table.keys("t")}
    assert tasks == {f"t{number:03d}" for number in range(100, 130)}
