"""Rejected messages are kept complete, sent again under other ids, discarded, and deleted after a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from functions.messaging.message_format import QueueMessage
from functions.messaging.received_messages import DeliveryCounts, copy_of
from functions.messaging.rejected_messages import ConcurrentActionError, RejectedMessage, RejectedMessages
from functions.storage.table_contract import RowChange, StorageError, TransientStorageError
from tests.fakes.simulated_table import SimulatedTable, TableFault
from tests.fakes.storage_process import START

PROPERTIES: dict[str, str | int | float | bool] = {
    "tenant": "blau ü",
    "weight": 2,
    "is_new": True,
    "counted.attempts": 9,
}


def message(name: str = "m-1", body: bytes = b"{") -> QueueMessage:
    """Return a message with all its parts."""
    return QueueMessage(
        message_id=name, body=body, subject="line", correlation_id="c-7", properties=PROPERTIES
    )


class Desk:
    """Rejected messages in a table, with a clock."""

    def __init__(self, *, page: int = 1000) -> None:
        self.table, self.time = SimulatedTable(page=page), START
        self.rejected = RejectedMessages(self.table, lambda: self.time)

    async def reject(self, *names: str, queue: str = "submissions", task: str | None = None) -> None:
        """Reject messages, a second after each other."""
        for name in names:
            self.time += timedelta(seconds=1)
            await self.rejected.reject(queue, message(name), "not JSON", task=task)

    async def names(self, *queues: str, most: int = 10, discarded: bool = False) -> list[str]:
        """Return the names of the listed messages."""
        found = await self.rejected.listed(queues, most, discarded=discarded)
        return [each.message_id for each in found.messages]

    async def resend(self) -> tuple[RejectedMessage, QueueMessage | None]:
        """Send the newest message again, if it is whole."""
        resent = await self.rejected.resend(await self.newest(), "olga", "repaired")
        assert resent is not None
        return resent

    async def newest(self) -> str:
        """Return the id of the newest message."""
        return (await self.rejected.listed((), 1)).messages[0].id


@pytest.fixture
def desk() -> Desk:
    """Return an empty desk."""
    return Desk()


@pytest.mark.parametrize("size", [0, 1, 48 * 1024, 64 * 1024 + 1, 256 * 1024])
async def test_message_is_kept_complete(desk: Desk, size: int) -> None:
    """A copy of it has another id, and its failures do not count any more."""
    sent = message(body=bytes(number % 251 for number in range(size)))
    await desk.rejected.reject("submissions/$DeadLetterQueue", sent, "why", task="t-1", step="pay")
    name = await desk.newest()
    found = await desk.rejected.read(name)
    assert found is not None
    kept, body = found
    seen = (kept.queue, kept.message_id, kept.size, kept.whole)
    assert seen == ("submissions/$DeadLetterQueue", "m-1", size, True)
    assert (kept.reason, kept.rejected_at, kept.task, kept.step) == ("why", START, "t-1", "pay")
    _, copy = await desk.resend()
    assert copy is not None
    assert (body, copy) == (sent.body, copy_of(sent, DeliveryCounts(), 1))
    assert copy.properties == {name: each for name, each in PROPERTIES.items() if "counted" not in name}


async def test_message_that_no_row_can_hold_is_kept_in_part(desk: Desk) -> None:
    """It is never sent again, because a part is another message."""
    large = QueueMessage(message_id="m" * 500, body=b"x" * 700 * 1024, properties={"a": "ü" * 100_000})
    await desk.rejected.reject("submissions", large, "\u8a9e\ud800" * 100_000)
    name = await desk.newest()
    kept, copy = await desk.resend()
    assert (kept.size, kept.whole, copy, kept.resends) == (700 * 1024, False, None, 0)
    assert await desk.rejected.read(name) == (kept, b"x" * 256 * 1024)
    assert (len(kept.message_id.encode()), len(kept.reason.encode()) <= 4096) == (128, True)
    await desk.rejected.reject(
        "submissions", QueueMessage(message_id="l", body=b"", properties={"a": "x" * 70_000}), "w"
    )
    assert (await desk.resend())[1] is None


async def test_message_that_is_delivered_again_is_recorded_once(desk: Desk) -> None:
    """Also after a lost answer; messages that differ in queue, id or body are separate."""
    desk.table.fail_next(TableFault.NO_ANSWER)
    with pytest.raises(TransientStorageError):
        await desk.rejected.reject("submissions", message(), "why")
    await desk.reject("m-1")
    await desk.resend()
    await desk.reject("m-1", "m/2\\#?\t")
    await desk.reject("m-1", queue="submissions/$DeadLetterQueue")
    await desk.rejected.reject("submissions", message(body=b"["), "why")
    found = (await desk.rejected.listed((), 10)).messages
    assert len(found) == 4
    assert (found[-1].rejected_at, found[-1].resends) == (START, 1)


async def test_message_that_the_table_refuses_is_an_error(desk: Desk) -> None:
    """It stays in its queue."""
    desk.rejected = RejectedMessages(desk.table, lambda: START)
    with pytest.raises(StorageError, match="cannot be recorded"):
        await desk.rejected.reject("q", message(), "why", task="a/b")


async def test_long_list_ends(desk: Desk) -> None:
    """The caller learns that there is more. A list reads on until it has found a second message.

    The next list begins at the last message of this one.
    """
    desk.table.page = 1
    await desk.reject("other", queue="other")
    await desk.reject(*(f"m-{number}" for number in range(25)))
    found = await desk.rejected.listed(("submissions",), 30)
    assert (len(found.messages), found.more, desk.table.reads) == (20, True, 20)
    assert await desk.names("other") == ["other"]
    await desk.reject("new", queue="other")
    assert await desk.names("other") == ["new", "other"]


async def test_messages_of_a_task_are_found_by_it(desk: Desk) -> None:
    """Not those of similar ids, and also behind an empty page."""
    desk.table.begins_empty = True
    for number, task in enumerate(["t-1", "t-10", "t", "t-1-b", "t-1", "t-1"]):
        await desk.reject(f"m-{number}", queue="agent-replies", task=task)
    found = await desk.rejected.of_task("t-1", 2)
    assert ([each.message_id for each in found.messages], found.more) == (["m-5", "m-4"], True)
    assert not (await desk.rejected.of_task("t-1", 3)).more


async def test_two_operators_never_send_under_one_id(desk: Desk) -> None:
    """All but one get an error."""
    await desk.reject("m-1")
    desk.table.seconds = 1
    name = await desk.newest()
    sends = (desk.rejected.resend(name, f"operator-{number}", "why") for number in range(5))
    found = await asyncio.gather(*sends, return_exceptions=True)
    assert sum(isinstance(each, tuple) for each in found) == 1
    assert sum(isinstance(each, ConcurrentActionError) for each in found) == 4


@pytest.mark.parametrize("action", ["resend", "discard"])
async def test_action_whose_answer_was_lost_is_done(desk: Desk, action: str) -> None:
    """The conflict is one with its own write."""
    await desk.reject("m-1", task="t-1")
    name = await desk.newest()
    desk.table.fail_next(TableFault.REPEATED)
    found = await getattr(desk.rejected, action)(name, "olga", "why")
    kept = found[0] if isinstance(found, tuple) else found
    assert "olga" in (kept.resent_by, kept.discarded_by)


async def test_description_of_a_discarded_message_is_kept(desk: Desk) -> None:
    """Without its body. Rejected once more, it is listed again, and both can be distinguished."""
    for _ in range(2):
        await desk.reject("m-1", task="t-1")
        discarded = await desk.rejected.discard(await desk.newest(), "olga", "a test")
        assert discarded is not None
        assert (discarded.discarded_by, discarded.discarded_why) == ("olga", "a test")
        assert await desk.names() == []
    assert (await desk.rejected.of_task("t-1", 9)).messages == []
    found = (await desk.rejected.listed(("submissions",), 9, discarded=True)).messages
    assert [each.discarded_at for each in found] == [
        START + timedelta(seconds=2),
        START + timedelta(seconds=1),
    ]
    assert {(each.task, each.size, each.reason) for each in found} == {("t-1", 1, "not JSON")}
    assert len(desk.table.keys()) == 2
    assert not [name for row in desk.table.rows.values() for name in row if name.startswith("Body")]


async def test_of_several_operators_one_discards_a_message(desk: Desk) -> None:
    """One who sends it again meanwhile stays on record."""
    await desk.reject("m-1")
    desk.table.seconds = 1
    name = await desk.newest()
    found = await asyncio.gather(*(desk.rejected.discard(name, who, "why") for who in ("ann", "bob", "eve")))
    [recorded] = (await desk.rejected.listed((), 9, discarded=True)).messages
    assert [each for each in found if each is not None] == [recorded]

    await desk.reject("m-2")
    name = await desk.newest()

    def resend_first(changes: Sequence[RowChange]) -> None:
        row = desk.table.rows["rejected", changes[0].key]
        desk.table.before_send = lambda _changes: None
        facts = str(row["Facts"]).replace('"resends"', '"old"')[:-1] + ',"resends":1,"resent_by":"bert"}'
        desk.table.write("rejected", [RowChange("update", changes[0].key, {**row, "Facts": facts})])

    desk.table.before_send = resend_first
    discarded = await desk.rejected.discard(name, "olga", "why")
    assert discarded is not None
    assert (discarded.resent_by, discarded.discarded_by) == ("bert", "olga")


async def test_old_messages_are_deleted_with_all_their_rows(desk: Desk) -> None:
    """A discarded one is kept as long after it was discarded; each run makes progress."""
    await desk.reject("a", "b", "c", task="t-1")
    await desk.reject("late", "kept")
    await desk.rejected.discard(await desk.newest(), "olga", "why")
    old = (await desk.rejected.listed((), 9)).messages[-1]
    await desk.rejected.discard(old.id, "olga", "why")
    await desk.table.send("rejected", [RowChange("insert", "3", {"Facts": "{"})])
    assert await desk.names() == ["late", "c", "b"]  # a corrupt row hides no other
    before = START + timedelta(seconds=4)
    assert [await desk.rejected.delete_before(before, 2) for _ in range(3)] == [2, 1, 0]
    assert await desk.names() == ["late"]
    assert await desk.names(discarded=True) == ["kept", "a"]
    assert await desk.rejected.delete_before(desk.time + timedelta(seconds=1), 100) == 3
    assert desk.table.keys() == []
