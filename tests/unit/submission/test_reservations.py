"""The admission of an order completes the reservation of its id; a rejection is recorded there."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from functions.core.definition.workflow_definition import Workflow, WorkflowRegistry
from functions.messaging.message_format import SubmissionMessage, read_message
from functions.messaging.reservations import IdRecord, find_reservation
from functions.messaging.reservations import reserve as reserve_id
from functions.storage.table_contract import RowChange, TransientStorageError
from functions.storage.table_maintenance import delete_finished
from functions.submission.admission import AdmissionResult
from tests.fakes.simulated_table import TableFault
from tests.fakes.storage_process import START
from tests.fakes.virtual_time import in_virtual_time
from tests.unit.submission.bench import Bench, Purchase, body, workflow

#: Another order, and one that its model does not accept.
OTHER, UNFIT = {"payload": {"weight": 4}}, {"payload": {"weight": "much"}}


@pytest.fixture
def bench() -> Bench:
    """Return an admission that has admitted nothing."""
    return Bench()


async def reserve(bench: Bench, **changes: Any) -> bytes:
    """Reserve the id of an order, and return its message."""
    found = await reserve_id(bench.storage, read_message(SubmissionMessage, body(**changes)))
    return body(reservation=found.etag, **changes)


async def found(bench: Bench) -> IdRecord:
    """Return what is recorded under the id."""
    reservation = await find_reservation(bench.storage, "t-1")
    assert reservation is not None
    return reservation


async def test_reserved_order_is_recorded_without_a_read(bench: Bench) -> None:
    """In one transaction, which replaces the reservation."""
    message = await reserve(bench)
    reads, sent = bench.table.reads, len(bench.table.transactions)
    assert await bench.take(message) is AdmissionResult.RECORDED
    [changes] = [each for each in bench.table.transactions[sent:] if each[0].key == "t-1|task"]
    seen = ([each.kind for each in changes if each.key == "t-1|order"], bench.table.reads)
    assert seen == (["update"], reads)
    assert (await found(bench)).is_admitted
    assert bench.runs == ["t-1.1.1"]


@pytest.mark.parametrize("etag", ["*", 'W/"1"\r\n\r\n{}\r\n--changeset_rows\r\n'])
async def test_reservation_that_is_no_version_of_a_row_is_rejected(bench: Bench, etag: str) -> None:
    """It takes no reserved id, and adds nothing to a transaction."""
    message = await reserve(bench)
    assert await bench.take(body(reservation=etag, payload={"weight": 4}), "m-1") is AdmissionResult.REJECTED
    assert await bench.take(message, "m-2") is AdmissionResult.RECORDED


async def test_message_that_arrives_twice_is_one_task(bench: Bench) -> None:
    """At the same moment, and later in another process."""
    message = await reserve(bench)
    taken = await asyncio.gather(bench.take(message), bench.take(message, "m-2"))
    assert sorted(taken) == [AdmissionResult.KNOWN, AdmissionResult.RECORDED]
    bench.restart()
    assert await bench.take(message) is AdmissionResult.KNOWN
    assert await bench.rejections() == []


@pytest.mark.parametrize("is_first", [True, False], ids=["hub first", "hub second"])
@pytest.mark.parametrize(
    ("changes", "second"), [({}, AdmissionResult.KNOWN), (OTHER, AdmissionResult.REJECTED)], ids=["=", "!="]
)
async def test_order_of_a_hub_and_one_with_a_reservation(
    bench: Bench, changes: dict[str, Any], second: AdmissionResult, *, is_first: bool
) -> None:
    """An equal order of a hub completes the reservation, a different one is rejected."""
    reserved = await reserve(bench)
    messages = [body(**changes), reserved] if is_first else [reserved, body(**changes)]
    taken = [await bench.take(message, f"m-{number}") for number, message in enumerate(messages)]
    is_reversed = second is AdmissionResult.REJECTED and is_first
    results = [AdmissionResult.RECORDED, second]
    assert taken == (results[::-1] if is_reversed else results)
    assert (await bench.record()).order.payload == '{"weight":3}'
    assert [each.reason for each in await bench.rejections()] == (
        ["another order is recorded as t-1"] if second is AdmissionResult.REJECTED else []
    )


async def test_rejection_is_recorded_with_its_public_reason(bench: Bench) -> None:
    """A message without a reservation writes no row."""
    assert await bench.take(await reserve(bench, **UNFIT)) is AdmissionResult.REJECTED
    assert (await found(bench)).rejected == (await bench.rejections())[0].reason != ""
    assert await bench.take(body("t-2", **UNFIT)) is AdmissionResult.REJECTED
    assert bench.table.keys("t") == ["t-1|order"]


async def test_reason_of_rows_that_the_service_refuses_is_not_public(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator reads it in `Rejected`."""
    message, keys = await reserve(bench), [f"key {number}" for number in range(100)]
    monkeypatch.setattr(Workflow, "search_keys", lambda *_: keys)
    assert await bench.take(message) is AdmissionResult.REJECTED
    assert (await found(bench)).rejected == "It cannot be recorded."
    assert "do not fit" in (await bench.rejections())[0].reason


async def test_rejection_of_an_old_message_leaves_the_newer_reservation(bench: Bench) -> None:
    """It is of another order, which is recorded then."""
    old = await reserve(bench, **UNFIT)
    await bench.take(old)
    new = await reserve(bench, **OTHER)
    taken = [await bench.take(message, f"m-{number}") for number, message in enumerate((old, new, old))]
    assert taken == [AdmissionResult.REJECTED, AdmissionResult.RECORDED, AdmissionResult.REJECTED]
    assert (await bench.record()).order.payload == '{"weight":4}'


@pytest.mark.parametrize("changes", [{}, OTHER], ids=["the same order", "another order"])
async def test_rejected_reservation_is_free(changes: dict[str, Any]) -> None:
    """An operator sends the message again after a repair, or a hub has another order; or it was deleted."""
    bench = Bench(workflow(payload=Purchase))
    message = await reserve(bench)
    assert await bench.take(message) is AdmissionResult.REJECTED
    bench.registry = WorkflowRegistry([workflow()])
    bench.restart()
    for _ in range(2):
        assert await bench.take(body(**changes) if changes else message, "m-2") is AdmissionResult.RECORDED
        bench.table.rows.clear()


@pytest.mark.parametrize("pause", [0, 10])
@pytest.mark.parametrize("fault", [TableFault.NO_ANSWER, TableFault.REPEATED, TableFault.LATE])
def test_lost_answer_of_the_insertion_records_the_order_once(fault: TableFault, pause: float) -> None:
    """The message is delivered again, maybe before the first transaction is carried out."""

    async def deliver() -> None:
        bench = Bench()
        message = await reserve(bench)
        bench.table.fail_next(fault)
        if fault is TableFault.REPEATED:
            assert await bench.take(message) is AdmissionResult.RECORDED
        else:
            with pytest.raises(TransientStorageError):
                await bench.take(message)
        await asyncio.sleep(pause)
        is_late = fault is TableFault.LATE and not pause
        assert await bench.take(message) is (AdmissionResult.RECORDED if is_late else AdmissionResult.KNOWN)
        run_id = (await bench.record()).order.run_id
        await asyncio.sleep(10)
        bench.restart()
        assert (await bench.record()).order.run_id == run_id
        assert await bench.rejections() == []

    in_virtual_time(deliver())


async def test_retention_leaves_the_reservation_of_an_id_that_is_used_again(bench: Bench) -> None:
    """An index row of the earlier task may be left."""
    bench.table.write("000", [RowChange("insert", "!done|9|t-1", {})])
    message = await reserve(bench)
    assert (await delete_finished(bench.storage, 0, START + timedelta(days=1))).deleted == 1
    assert bench.table.keys() == ["t-1|order"]
    assert await bench.take(message) is AdmissionResult.RECORDED
