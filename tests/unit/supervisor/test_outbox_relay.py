"""The outbox relay: recorded messages that were not sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest

from functions.core.record import Message, MessageKind
from functions.storage.record_rows import message_change
from functions.storage.row_keys import shard_name
from functions.storage.table_contract import RowChange
from functions.supervisor.sweep_progress import SUPERVISOR
from tests.fakes.indexed_table import IndexedTable
from tests.fakes.simulated_table import TableFault
from tests.fakes.storage_process import START, virtual_now
from tests.unit.storage.virtual import virtual
from tests.unit.supervisor.supervised import Supervised


def add(
    table: IndexedTable,
    count: int,
    kind: MessageKind = MessageKind.COMPLETED,
    *,
    to: str = "",
    partition: str = "000",
    start: str = "m",
) -> None:
    """Add messages to the outbox of a partition, as of the start of the test."""
    for number in range(count):
        name = f"{start}{number:03d}.{kind}"
        message = Message(kind=kind, id=name, task=f"{start}{number:03d}", at=START, to=to)
        table.write(partition, [message_change(message)])


def to(*receivers: str) -> Callable[[Message], bool]:
    """Return whether a message has one of these receivers."""
    return lambda message: message.to in receivers


@virtual
async def test_unsent_message_is_sent_and_its_row_deleted() -> None:
    """In all partitions. A message younger than ten seconds is still being sent by its process."""
    table = IndexedTable()
    process = Supervised(table, shards=2)
    for partition in ("000", "001", "gates", SUPERVISOR):
        add(table, 1, MessageKind.ALERT, partition=partition, start=partition)
    await asyncio.sleep(9)
    assert (await process.sweep()).sent == 0
    await asyncio.sleep(1)
    assert (await process.sweep()).sent == 4
    assert {message.task for message in process.sent} == {"000000", "001000", "gates000", "supervisor000"}
    assert table.keys("!send") == []
    assert (await process.sweep()).sent == 0


@virtual
async def test_receiver_that_accepts_nothing_delays_no_other() -> None:
    """However much it is owed: it is tried three times in a sweep, and the others get their messages."""
    table = IndexedTable()
    process = Supervised(table, shards=4)
    for shard in range(4):
        add(table, 300, to="a-dead", partition=shard_name(shard), start=f"d{shard}-")
        add(table, 150, to="b-good", partition=shard_name(shard), start=f"g{shard}-")
        add(table, 5, MessageKind.ALERT, partition=shard_name(shard), start=f"x{shard}-")
        add(table, 5, MessageKind.CHILD_ENDED, to="c-1", partition=shard_name(shard), start=f"c{shard}-")
    await asyncio.sleep(10)
    process.accepts = to("b-good", "", "c-1")
    began, reads = virtual_now(), table.reads
    report = await process.sweep()
    assert virtual_now() - began < timedelta(seconds=60)
    assert table.reads - reads <= 35  # the further messages of the receiver are not read
    assert (report.sent, report.dropped) == (4 * 160, 0)
    assert 3 <= report.failed <= 6
    assert len(table.keys("!send|a-dead")) == len(table.keys("!send")) - 4 * 5 == 1200
    process.accepts = lambda message: message.to == "a-dead"
    assert (await process.sweep()).sent == 1200


@virtual
async def test_corrupt_row_at_the_end_of_a_page_hides_no_receiver() -> None:
    """The other rows of the page belong to a queue that accepts nothing. A time without a zone is corrupt."""
    process = Supervised(table := IndexedTable())
    add(table, 99, to="a-dead")
    table.write("000", [RowChange("insert", "!send|b-good|a", {"Message": "{"})])
    add(table, 5, to="b-good")
    row = table.rows["000", table.keys("!send|b-good|m")[1]]
    row["Message"] = row["Message"].replace('Z"', '"')
    await asyncio.sleep(10)
    process.accepts = to("b-good")
    report = await process.sweep()
    assert (report.sent, len(report.corrupt)) == (4, 2)


@virtual
async def test_slow_queue_delays_no_other() -> None:
    """However many notices it is owed: it takes nearly the longest time of one send for each."""
    process = Supervised(table := IndexedTable())
    add(table, 3_000, to="a-slow")
    add(table, 5, MessageKind.ALERT)
    process.supervisor._send = lambda message: asyncio.sleep(9 if message.to else 0.01)
    await asyncio.sleep(10)
    await asyncio.wait_for(process.sweep(), timeout=300)
    assert table.keys("!send|alert") == []


@virtual
async def test_send_that_its_client_cancels_ends_no_sweep() -> None:
    """The send counts as a failure."""
    process = Supervised(table := IndexedTable())
    add(table, 2)
    await asyncio.sleep(10)
    cancelled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    cancelled.cancel()
    process.supervisor._send = lambda message: cancelled if message.task == "m000" else asyncio.sleep(0)
    report = await process.sweep()
    assert (report.sent, report.failed) == (1, 1)


@virtual
async def test_failing_queue_of_the_application_is_tried_a_few_times_for_all_receivers() -> None:
    """Each child task is a receiver of its own, but all their messages go to one queue."""
    table = IndexedTable()
    process = Supervised(table)
    for number in range(250):
        add(table, 1, MessageKind.CHILD_ENDED, to=f"c-{number:03d}", start=f"p{number:03d}-")
    add(table, 3, to="replies")
    await asyncio.sleep(10)
    process.accepts = to("replies")
    report = await process.sweep()
    assert (report.sent, report.failed) == (3, 3)
    assert len(table.keys("!send")) == 250


@virtual
async def test_notice_is_dropped_after_a_day_and_an_alert_never() -> None:
    """A notice that can be sent is sent, whatever its age."""
    table = IndexedTable()
    process = Supervised(table)
    add(table, 150, to="dead")
    add(table, 2, MessageKind.ALERT)
    add(table, 2, MessageKind.START_CHILD, to="c-1")
    process.accepts = to()
    await asyncio.sleep(86_000)
    assert (await process.sweep()).dropped == 0
    add(table, 2, to="good", start="g")
    process.accepts = to("good")
    await asyncio.sleep(3600)
    dropped = [(await process.sweep()).dropped for _ in range(3)]
    assert sum(dropped) == 150
    assert [message.to for message in process.sent] == ["good", "good"]
    assert len(table.keys("!send")) == 4
    await asyncio.sleep(30 * 86_400)
    await process.sweep()
    assert len(table.keys("!send")) == 4


@pytest.mark.parametrize(
    ("notices", "failures", "figures"),
    [
        (1, 1, {"failed": 1, "sent": 1}),
        (1, 2, {"failed": 2, "sent": 1}),
        (1, 3, {"failed": 3, "dropped": 1}),
        (9, 1, {"failed": 1, "sent": 8}),
        (9, 3, {"failed": 3, "dropped": 9}),
    ],
)
@virtual
async def test_old_notice_is_dropped_only_if_its_queue_accepts_nothing(
    notices: int, failures: int, figures: dict[str, int]
) -> None:
    """It is tried three times, and it stays in the outbox if the queue accepts another notice."""
    process = Supervised(table := IndexedTable())
    add(table, notices, to="replies")
    tries = iter(range(99))
    process.accepts = lambda _message: next(tries) >= failures
    await asyncio.sleep(90_000)
    assert (await process.sweep()).figures == figures
    left = notices - figures.get("sent", 0) - figures.get("dropped", 0)
    assert len(table.keys("!send")) == left


@virtual
async def test_message_of_a_child_is_sent_for_a_day_until_it_is_handled() -> None:
    """Its queue drops copies; after some deliveries that failed it gives the message up."""
    table = IndexedTable()
    process = Supervised(table)
    for number, kind in enumerate(
        (MessageKind.START_CHILD, MessageKind.CANCEL_CHILD, MessageKind.CHILD_ENDED)
    ):
        add(table, 1, kind, to="c-1", start=f"m{number}-")
    await asyncio.sleep(10)
    assert [(await process.sweep()).sent for _ in range(2)] == [3, 3]
    table.write("000", [RowChange("delete", table.keys("!send")[0])])
    await asyncio.sleep(86_400)
    assert [(await process.sweep()).sent for _ in range(2)] == [2, 0]


@virtual
async def test_message_whose_row_stays_is_sent_again_with_its_id() -> None:
    """The deletion failed, or the process ended before it."""
    table = IndexedTable(seconds=0.01)
    add(table, 3, to="replies")
    await asyncio.sleep(10)
    process = Supervised(table)
    table.fail_next(TableFault.NOT_SENT)
    report = await process.sweep()
    assert (report.sent, report.failed) == (3, 1)
    other = Supervised(table)
    assert (await other.sweep()).sent == 3
    assert [message.id for message in process.sent] == [message.id for message in other.sent]
    assert table.keys("!send") == []


@virtual
async def test_two_relays_at_once_leave_no_row() -> None:
    """One finds a row deleted by the other one, and deletes the rest."""
    table = IndexedTable(seconds=0.01)
    add(table, 30, to="replies")
    await asyncio.sleep(10)
    process = Supervised(table)

    def other(_message: Message) -> bool:
        for key in table.keys("!send|replies|m000"):
            table.write("000", [RowChange("delete", key)])
        return True

    process.accepts = other
    report = await process.sweep()
    assert (report.sent, report.failed) == (30, 0)
    assert table.keys("!send") == []
    add(table, 30, to="replies")
    await asyncio.gather(process.sweep(), Supervised(table).sweep())
    assert table.keys("!send") == []
