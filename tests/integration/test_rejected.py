"""Rejected messages, the tables at start, and the depths of queues."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from azure.data.tables import TableEntity, TableServiceClient
from azure.data.tables.aio import TableClient
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient
from azure.storage.blob.aio import ContainerClient

from functions.bus import queue_depths
from functions.bus.queue_depths import PeekedLine, PeekedQueues
from functions.connections import Connection
from functions.pattern.errors import SettingsError, TransientError
from functions.pattern.identity import StepName, TaskId
from functions.pattern.intake import Line
from functions.pattern.ports import Pile, QueueDepth
from functions.pattern.rejected import About, Content, Labels, SentByAnotherError
from functions.pattern.request_figures import StoreFigures
from functions.store.connect import connect_at_start
from functions.store.entity_groups import EntityGroups
from functions.store.rejected import REJECTED_TABLE, TableRejectedMessages
from functions.store.tables import TASKS_TABLE, prepare_tables
from local.hub_positions import BlobPositions, connect_checkpoints
from servicebus_local.config import queues_named
from servicebus_local.testing import running_broker
from tests.fakes.clock import START, FakeClock
from tests.fakes.tasks import after
from tests.integration.processes import Loss, LossyGroups, Process

pytestmark = pytest.mark.process


LABELS = Labels(subject="line", correlation_id="c-7", properties={"tenant": "blau ü", "weight": 2})


@pytest.fixture
def clock() -> FakeClock:
    """Make a clock for the test to set."""
    return FakeClock()


@pytest.fixture
def rejected(table: TableClient, groups: EntityGroups, clock: FakeClock) -> TableRejectedMessages:
    """Keep messages in the test's table."""
    return TableRejectedMessages(table, groups, clock=clock, figures=StoreFigures())


async def _only_id(rejected: TableRejectedMessages) -> str:
    [kept] = (await rejected.listed((), 10)).messages
    return kept.id


@pytest.mark.parametrize("size", [0, 1, 48 * 1024, 64 * 1024, 64 * 1024 + 1, 256 * 1024])
async def test_message_is_kept_whole(rejected: TableRejectedMessages, size: int) -> None:
    """Up to the largest that a queue of ours takes, with all that is needed to send it again."""
    body = bytes(number % 251 for number in range(size))
    await rejected.reject("submissions/$DeadLetterQueue", "m-1", body, "why", LABELS)
    found = await rejected.resending(await _only_id(rejected), "olga", "fixed")
    assert found is not None
    kept, content = found
    assert content == Content(body, LABELS)
    assert (kept.queue, kept.size, kept.whole) == ("submissions/$DeadLetterQueue", size, True)
    assert await rejected.body(kept.id) == (kept, body)


async def test_what_no_row_can_hold_is_kept_in_part(rejected: TableRejectedMessages) -> None:
    """It is recorded all the same, says so, and is never sent again."""
    await rejected.reject("submissions", "m" * 500, b"x" * 700 * 1024, "\u8a9e" * 100_000)
    found = await rejected.resending(await _only_id(rejected), "olga", "fixed")
    assert found is not None
    kept, content = found
    assert (kept.size, kept.whole, content, kept.resends) == (700 * 1024, False, None, 0)
    assert await rejected.body(kept.id) == (kept, b"x" * 256 * 1024)
    assert (len(kept.message_id), len(kept.reason.encode()) <= 4096) == (128, True)


async def test_who_sends_again_and_when_is_recorded_each_time(
    rejected: TableRejectedMessages, clock: FakeClock
) -> None:
    """A redelivery of the rejected message does not wipe that out."""
    await rejected.reject("submissions", "m-1", b"{}", "why")
    name = await _only_id(rejected)
    for number in (1, 2):
        clock.advance(1)
        await rejected.resending(name, f"operator-{number}", "fixed")
    await rejected.reject("submissions", "m-1", b"{}", "why")
    [kept] = (await rejected.listed(("submissions",), 10)).messages
    assert (kept.resends, kept.resent_by, kept.resent_why) == (2, "operator-2", "fixed")
    assert (kept.rejected_at, kept.resent_at) == (after(0), after(2))


async def test_unknown_message_is_none(rejected: TableRejectedMessages) -> None:
    """Housekeeping deleted it."""
    assert await rejected.resending("0" * 64, "olga", "fixed") is None
    assert await rejected.body("0" * 64) is None


async def test_list_has_the_latest_of_one_queue_or_of_all(
    rejected: TableRejectedMessages, clock: FakeClock, table: TableClient
) -> None:
    """A row that can't be read hides no other."""
    for number in range(6):
        clock.advance(1)
        await rejected.reject("submissions" if number % 2 else "agent-replies", f"m-{number}", b"{", "why")
    await table.create_entity({"PartitionKey": "rejected", "RowKey": "0", "Queue": "submissions"})
    page = await rejected.listed((), 4)
    assert [each.message_id for each in page.messages] == ["m-5", "m-4", "m-3", "m-2"]
    assert page.more
    page = await rejected.listed(("submissions",), 4)
    assert ([each.message_id for each in page.messages], page.more) == (["m-5", "m-3", "m-1"], False)
    page = await rejected.listed(("submissions",), 4, until=after(4))
    assert ([each.message_id for each in page.messages], page.more) == (["m-3", "m-1"], False)


async def test_list_has_those_of_several_queues(rejected: TableRejectedMessages) -> None:
    """And of no other."""
    queues = ("submissions", "submissions/$DeadLetterQueue")
    for queue in (*queues, "agent-replies"):
        await rejected.reject(queue, "m-1", b"{", "why")
    page = await rejected.listed(queues, 9)
    assert sorted(each.queue for each in page.messages) == [*queues]


async def test_those_of_a_task_are_found_by_it(rejected: TableRejectedMessages, clock: FakeClock) -> None:
    """Whatever ids are similar; the same message is kept once, and can be sent again by its name."""
    about = About(task=TaskId("task-1"), step=StepName("pay"), agent="payment")
    others = [About(task=TaskId(other)) for other in ("task-10", "task-1-b", "task")]
    for number, named in enumerate([about, about, *others, About()]):
        clock.advance(1)
        await rejected.reject("agent-replies", f"m-{number // 2}", b"{", "why", about=named)
    [kept] = (await rejected.of_task(TaskId("task-1"), 10)).messages
    assert (kept.message_id, kept.task, kept.step, kept.agent) == ("m-0", "task-1", "pay", "payment")
    assert (await rejected.resending(kept.id, "olga", "mended")) is not None
    assert len((await rejected.listed((), 10)).messages) == 5


async def test_two_operators_at_once_send_under_two_ids(rejected: TableRejectedMessages) -> None:
    """Or one of them is told of the other; never is one number given twice."""
    await rejected.reject("submissions", "m-1", b"{}", "why")
    name = await _only_id(rejected)
    found = await asyncio.gather(
        *(rejected.resending(name, f"operator-{number}", "fixed") for number in range(5)),
        return_exceptions=True,
    )
    numbers = [each[0].resends for each in found if isinstance(each, tuple)]
    assert numbers
    assert len(numbers) == len(set(numbers))
    assert all(isinstance(each, tuple | SentByAnotherError) for each in found)


class _LossyTable:
    """A table that writes a row while its answer is lost; then the SDK repeats the write."""

    def __init__(self, table: TableClient) -> None:
        self._table = table

    async def update_entity(self, row: Any, **how: Any) -> Any:
        """Write it."""
        await self._table.update_entity(row, **how)
        return await self._table.update_entity(row, **how)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)


async def test_message_is_sent_though_the_answer_of_its_record_was_lost(
    table: TableClient, groups: EntityGroups, clock: FakeClock
) -> None:
    """The record says that it was sent again: the conflict is with our own write."""
    lossy: Any = _LossyTable(table)
    rejected = TableRejectedMessages(lossy, groups, clock=clock, figures=StoreFigures())
    await rejected.reject("submissions", "m-1", b"{}", "why")
    found = await rejected.resending(await _only_id(rejected), "olga", "fixed")
    assert found is not None
    assert (found[0].resends, found[1]) == (1, Content(b"{}", Labels()))


async def test_discarded_message_leaves_what_is_known_of_it(
    rejected: TableRejectedMessages, clock: FakeClock, table: TableClient
) -> None:
    """Without its body; rejected once more, it is there again, and both can be told apart."""
    about = About(task=TaskId("task-1"), step=StepName("pay"), agent="payment")
    for _ in range(2):
        clock.advance(1)
        await rejected.reject("submissions", "m-1", b"{}" * 40_000, "why", LABELS, about=about)
        discarded = await rejected.discard(await _only_id(rejected), "olga", "a test")
        assert discarded is not None
        assert (discarded.discarded_by, discarded.discarded_why) == ("olga", "a test")
        assert not (await rejected.listed((), 9)).messages
    assert not (await rejected.of_task(TaskId("task-1"), 9)).messages
    page = await rejected.listed(("submissions",), 9, discarded=True)
    assert [each.discarded_at for each in page.messages] == [after(2), after(1)]
    assert {(each.task, each.agent, each.size, each.whole, each.reason) for each in page.messages} == {
        ("task-1", "payment", 80_000, True, "why")
    }
    assert not [name async for row in table.list_entities() for name in row if name.startswith("Body0")]


async def test_of_several_operators_one_discards_a_message(
    rejected: TableRejectedMessages, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others hear that it is gone, and it stays on record who it was."""
    await rejected.reject("submissions", "m-1", b"{}", "why")
    name = await _only_id(rejected)
    read, all_have_read = rejected._row, asyncio.Barrier(3)

    async def read_together(key: str) -> TableEntity | None:
        row = await read(key)
        if key == name and not done:
            await all_have_read.wait()
            done.append(key)
        return row

    done: list[str] = []
    monkeypatch.setattr(rejected, "_row", read_together)
    found = await asyncio.gather(*(rejected.discard(name, who, "a test") for who in ("ann", "bob", "eve")))
    [recorded] = (await rejected.listed((), 9, discarded=True)).messages
    assert [each for each in found if each] == [recorded]
    assert await rejected.discard(name, "olga", "again") is None


async def test_message_that_is_sent_again_meanwhile_is_discarded_as_it_is_then(
    rejected: TableRejectedMessages, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who had it sent again is kept, too."""
    await rejected.reject("submissions", "m-1", b"{}", "why")
    name, read = await _only_id(rejected), rejected._row

    async def sent_again_then(key: str) -> TableEntity | None:
        row = await read(key)
        monkeypatch.setattr(rejected, "_row", read)
        await rejected.resending(key, "bert", "fixed")
        return row

    monkeypatch.setattr(rejected, "_row", sent_again_then)
    discarded = await rejected.discard(name, "olga", "a test")
    assert discarded is not None
    assert (discarded.resent_by, discarded.discarded_by) == ("bert", "olga")
    assert not (await rejected.listed((), 9)).messages


async def test_discard_whose_answer_was_lost_is_told_as_done(
    table: TableClient, groups: EntityGroups, clock: FakeClock
) -> None:
    """The repeat finds the message gone, and its own row."""
    lossy = LossyGroups(groups)
    rejected = TableRejectedMessages(table, lossy, clock=clock, figures=StoreFigures())
    await rejected.reject("submissions", "m-1", b"{}", "why")
    lossy.lose_next_answer(Loss.REPEATED)
    discarded = await rejected.discard(await _only_id(rejected), "olga", "a test")
    assert discarded is not None
    assert (await rejected.listed((), 9, discarded=True)).messages == [discarded]


async def test_earlier_page_begins_where_the_later_one_ends(
    rejected: TableRejectedMessages, clock: FakeClock
) -> None:
    """Also of discarded messages; what comes meanwhile shifts nothing."""
    for number in range(7):
        clock.advance(1)
        await rejected.reject("submissions", f"m-{number}", b"{", "why")
    first = await rejected.listed((), 3)
    await rejected.reject("submissions", "late", b"{", "why")
    second = await rejected.listed((), 5, until=first.messages[-1].rejected_at)
    for each in [*first.messages, *second.messages]:
        await rejected.discard(each.id, "olga", "a test")
    gone = await rejected.listed((), 3, until=second.messages[1].rejected_at, discarded=True)
    names = [[each.message_id for each in page.messages] for page in (first, second, gone)]
    assert names == [["m-6", "m-5", "m-4"], ["m-4", "m-3", "m-2", "m-1", "m-0"], ["m-3", "m-2", "m-1"]]
    assert [page.more for page in (first, second, gone)] == [True, False, True]


NAMES = (TASKS_TABLE, REJECTED_TABLE)


@pytest.fixture
def at_start(connection: Connection) -> Iterator[TableServiceClient]:
    """Connect as the application does when it starts, and delete the tables afterwards."""
    with connect_at_start(connection) as service:
        yield service
        for name in NAMES:
            service.delete_table(name)


def test_tables_are_created_once(at_start: TableServiceClient) -> None:
    """A second start finds them."""
    for _ in range(2):
        prepare_tables(at_start, NAMES, shards=16)
    assert set(NAMES) <= {table.name for table in at_start.list_tables()}


def test_other_number_of_shards_is_refused(at_start: TableServiceClient) -> None:
    """Tasks would be looked up in the wrong shards; the error names the setting and the fix."""
    prepare_tables(at_start, NAMES, shards=16)
    with pytest.raises(
        SettingsError, match=r"^setting STATE_SHARDS is 8, but the table has 16: set it to 16$"
    ):
        prepare_tables(at_start, NAMES, shards=8)
    prepare_tables(at_start, NAMES, shards=16)


@pytest.mark.parametrize(("columns", "known"), [({"Format": 2}, 2), ({}, 0)])
def test_table_of_another_format_is_refused(
    at_start: TableServiceClient, columns: dict[str, int], known: int
) -> None:
    """Before any row is misread; one line names the table, its format and what to do."""
    settings = {"PartitionKey": "!settings", "RowKey": "shards", "Shards": 16, **columns}
    at_start.create_table(TASKS_TABLE).create_entity(settings)
    at_start.create_table(REJECTED_TABLE)
    with pytest.raises(SettingsError) as refusal:
        prepare_tables(at_start, NAMES, shards=16)
    assert str(refusal.value) == (
        f"setting StateStore: the table Tasks holds rows of format {known}, and this version reads"
        " format 1: finish its tasks with the version that wrote them, then set a new storage account or"
        " delete the tables (locally: python -m local reset)"
    )


# The SDK tests the truth value of an XML element when it reads a 403.
@pytest.mark.filterwarnings("ignore:Testing an element's truth value:DeprecationWarning")
def test_storage_that_does_not_answer_stops_the_start(connection: Connection) -> None:
    """With one line that names the setting."""
    address = str(connection.connection_string).replace("AccountKey=", "AccountKey=AAAA")
    with (
        connect_at_start(Connection(address, None, None)) as service,
        pytest.raises(SettingsError, match=r"^setting StateStore: Table Storage does not answer") as refusal,
    ):
        prepare_tables(service, NAMES, shards=16)
    assert "\n" not in str(refusal.value)


async def test_store_is_checked_by_reading(process: Process) -> None:
    """Every prepared table has the row with the number of shards; without it the check fails."""
    with pytest.raises(TransientError):
        await process.store.check()
    await process.table.create_entity({"PartitionKey": "!settings", "RowKey": "shards", "Shards": 1})
    await process.store.check()


async def test_rejected_message_is_recorded_once(table: TableClient, groups: EntityGroups) -> None:
    """It can be redelivered before it is completed."""
    rejected = TableRejectedMessages(table, groups, clock=FakeClock(), figures=StoreFigures())
    for _ in range(2):
        await rejected.reject("submissions", "m-1", b"{", "message: Invalid JSON")
    [row] = [row async for row in table.list_entities()]
    assert (row["Queue"], row["MessageID"], row["Body0"]) == ("submissions", "m-1", b"{")
    assert (row["Reason"], row["BodyBytes"], row["RejectedAt"]) == ("message: Invalid JSON", 1, START)


async def test_different_messages_are_recorded_separately(table: TableClient, groups: EntityGroups) -> None:
    """They differ by id, content or queue, whatever characters these contain."""
    rejected = TableRejectedMessages(table, groups, clock=FakeClock(), figures=StoreFigures())
    for queue, message_id, body in (
        ("submissions", "m-1", b"{"),
        ("submissions", "m-1", b"["),
        ("submissions", "m/2\\#?\t", b"{"),
        ("submissions/$deadletterqueue", "m-1", b"{"),
    ):
        await rejected.reject(queue, message_id, body, "why")
    assert len([row async for row in table.list_entities()]) == 4


#: Seconds, more than a busy machine needs for anything here.
_PATIENCE = 60

_NOTHING = Pile(count=0, more=False, oldest_at=None)


@pytest.fixture
async def client(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ServiceBusClient]:
    """Run a broker, and connect to it as the application does; no look at it is given up."""
    for seconds in ("_LOOK_SECONDS", "_LINE_SECONDS"):
        monkeypatch.setattr(queue_depths, seconds, _PATIENCE)
    with running_broker(queues_named(["orders", "solo"])) as broker:
        async with ServiceBusClient.from_connection_string(broker.connection_string, retry_total=0) as client:
            yield client


async def _put(client: ServiceBusClient, queue: str, count: int) -> None:
    async with client.get_queue_sender(queue) as sender:
        await sender.send_messages([ServiceBusMessage(str(number)) for number in range(count)])


async def test_messages_are_counted_and_the_age_of_the_oldest_is_given(client: ServiceBusClient) -> None:
    """Dead letters separately; a scheduled message is not counted; nothing is removed."""
    await _put(client, "orders", 3)
    async with (
        client.get_queue_sender("orders") as sender,
        client.get_queue_receiver("orders") as receiver,
    ):
        await sender.schedule_messages(ServiceBusMessage("later"), datetime.now(UTC) + timedelta(hours=1))
        [first] = await receiver.receive_messages(1, _PATIENCE)
        await receiver.dead_letter_message(first, reason="bad")
    queues = PeekedQueues(lambda: client, ["orders", "solo"])
    for _ in range(2):
        orders, solo = await queues.depths()
        assert orders.waiting is not None
        assert orders.dead is not None
        assert (orders.waiting.count, orders.waiting.scheduled, orders.waiting.more) == (2, 1, False)
        assert orders.waiting.oldest_at is not None
        assert timedelta(0) <= datetime.now(UTC) - orders.waiting.oldest_at < timedelta(minutes=1)
        assert orders.dead.count == 1
        assert solo == QueueDepth("solo", _NOTHING, _NOTHING)


async def test_long_queue_is_not_counted_to_its_end(client: ServiceBusClient) -> None:
    """The result says that there are more."""
    await _put(client, "solo", 101)
    [solo] = await PeekedQueues(lambda: client, ["solo"]).depths()
    assert solo.waiting is not None
    assert (solo.waiting.count, solo.waiting.more) == (100, True)


async def test_long_line_is_measured_by_few_peeks(client: ServiceBusClient) -> None:
    """As nearly as it has to be, as often as one looks; nothing is removed, and a short line has no age."""
    line = PeekedLine(lambda: client, "solo")
    assert await line.look() == Line(0, None)
    await _put(client, "solo", 5)
    assert await line.look() == Line(1, None)
    await _put(client, "solo", 995)
    for _ in range(2):
        measured = await line.look()
        assert 850 <= measured.count <= 1_000
        assert measured.since is not None
        assert timedelta(0) <= datetime.now(UTC) - measured.since < timedelta(minutes=1)


async def test_queue_that_cannot_be_read_hides_no_other(
    client: ServiceBusClient, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, and the others are still read."""
    missing, solo = await PeekedQueues(lambda: client, ["missing", "solo"]).depths()
    assert missing == QueueDepth("missing", None, None)
    assert solo == QueueDepth("solo", _NOTHING, _NOTHING)
    ours = [each.getMessage() for each in caplog.records if each.name == "functions.bus.queue_depths"]
    assert len(ours) == 2
    assert ours[0].startswith("queue missing can't be looked at: ")


_FOLDER = "127.0.0.1/order-events/ingestion"


@pytest.fixture
async def blobs(connection: Connection) -> AsyncIterator[Callable[[], ContainerClient]]:
    """Connect to the host's container, which is not there yet."""
    container = connect_checkpoints(connection)
    yield container
    await container().close()


async def test_checkpoints_are_read_with_their_numbers(blobs: Callable[[], ContainerClient]) -> None:
    """All in one listing; before the first one there is not even a container."""
    positions = BlobPositions(
        cast("Any", None), blobs, namespace="127.0.0.1", name="order-events", consumer_group="ingestion"
    )
    assert await positions.checkpoints() == {}
    await blobs().create_container()
    for partition, number in (("0", "17"), ("31", "2147483648")):
        metadata = {"offset": "880", "sequencenumber": number, "clientidentifier": "x"}
        await blobs().upload_blob(f"{_FOLDER}/checkpoint/{partition}", b"", metadata=metadata)
        await blobs().upload_blob(f"{_FOLDER}/ownership/{partition}", b"", metadata={"ownerid": "x"})
    await blobs().upload_blob("127.0.0.1/other/ingestion/checkpoint/0", b"", metadata={"sequencenumber": "3"})
    assert await positions.checkpoints() == {"0": 17, "31": 2_147_483_648}
