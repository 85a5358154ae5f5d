"""Rejected messages on the real table: kept whole, listed, and handed out to be sent again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from azure.data.tables import TableEntity
from azure.data.tables.aio import TableClient

from functions.pattern.identity import StepName, TaskId
from functions.pattern.rejected import About, Content, Labels, SentByAnotherError
from functions.pattern.request_figures import StoreFigures
from functions.store.entity_groups import EntityGroups
from functions.store.rejected import TableRejectedMessages
from tests.fakes.clock import FakeClock
from tests.fakes.tasks import after
from tests.integration.processes import Loss, LossyGroups

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
    [kept] = (await rejected.listed(queues=(), most=10)).messages
    return kept.id


@pytest.mark.parametrize("size", [0, 1, 48 * 1024, 60 * 1024, 60 * 1024 + 1, 256 * 1024, 600 * 1024])
async def test_message_is_kept_whole(rejected: TableRejectedMessages, size: int) -> None:
    """Up to the largest that a queue of ours takes, and more; with all that is needed to send it again."""
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
    assert await rejected.body(kept.id) == (kept, b"x" * 600 * 1024)
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
    [kept] = (await rejected.listed(queues=("submissions",), most=10)).messages
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
    page = await rejected.listed(queues=(), most=4)
    assert [each.message_id for each in page.messages] == ["m-5", "m-4", "m-3", "m-2"]
    assert (page.count, page.next, page.more) == (6, page.messages[-1].place, False)
    page = await rejected.listed(queues=("submissions",), most=4)
    assert ([each.message_id for each in page.messages], page.next) == (["m-5", "m-3", "m-1"], None)
    page = await rejected.listed(queues=("submissions",), most=4, until=after(4))
    assert ([each.message_id for each in page.messages], page.count) == (["m-3", "m-1"], 2)


async def test_list_has_those_of_several_queues(rejected: TableRejectedMessages) -> None:
    """And of no other."""
    queues = ("submissions", "submissions/$DeadLetterQueue")
    for queue in (*queues, "agent-replies"):
        await rejected.reject(queue, "m-1", b"{", "why")
    page = await rejected.listed(queues=queues, most=9)
    assert sorted(each.queue for each in page.messages) == [*queues]


async def test_those_of_a_task_are_found_by_it(rejected: TableRejectedMessages, clock: FakeClock) -> None:
    """Whatever ids are similar; the same message is kept once, and can be sent again by its name."""
    about = About(task=TaskId("task-1"), step=StepName("pay"), agent="payment")
    others = [About(task=TaskId(other)) for other in ("task-10", "task-1-b", "task")]
    for number, named in enumerate([about, about, *others, About()]):
        clock.advance(1)
        await rejected.reject("agent-replies", f"m-{number // 2}", b"{", "why", about=named)
    [kept] = (await rejected.of_task(TaskId("task-1"), most=10)).messages
    assert (kept.message_id, kept.about) == ("m-0", about)
    assert (await rejected.resending(kept.id, "olga", "mended")) is not None
    assert len((await rejected.listed(queues=(), most=10)).messages) == 5


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
        assert (await rejected.listed(queues=(), most=9)).count == 0
    assert (await rejected.of_task(TaskId("task-1"), most=9)).count == 0
    page = await rejected.listed(queues=("submissions",), most=9, discarded=True)
    assert [each.discarded_at for each in page.messages] == [after(2), after(1)]
    assert {(each.about, each.size, each.whole, each.reason) for each in page.messages} == {
        (about, 80_000, True, "why")
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
    [recorded] = (await rejected.listed(queues=(), most=9, discarded=True)).messages
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
    assert (await rejected.listed(queues=(), most=9)).count == 0


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
    assert (await rejected.listed(queues=(), most=9, discarded=True)).messages == (discarded,)


async def test_pages_follow_each_other(rejected: TableRejectedMessages, clock: FakeClock) -> None:
    """Also where many were rejected at the same time; what comes meanwhile shifts nothing."""
    for number in range(7):
        clock.advance(number % 2)
        await rejected.reject("submissions", f"m-{number}", b"{", "why")
    found: list[str] = []
    place = None
    while True:
        page = await rejected.listed(queues=(), most=3, after=place)
        found += [each.message_id for each in page.messages]
        place = page.next
        if place is None:
            break
        clock.advance(1)
        await rejected.reject("submissions", f"late-{len(found)}", b"{", "why")
    assert sorted(found) == [f"m-{number}" for number in range(7)]
