"""Operators see all rejected messages in one list, wherever each is kept."""

from __future__ import annotations

from datetime import timedelta

from functions.pattern.identity import TaskId
from functions.pattern.rejected import About
from functions.store.every_rejected import EveryRejected
from tests.fakes.clock import FakeClock
from tests.fakes.rejected import MemoryRejected

_ABOUT = About(task=TaskId("o-1"))
_HOUR = 3600


class Kept:
    """Messages `0`, `2`, `4` … of the state store, and `1`, `3`, `5` … of Agents, each an hour later."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.own, self.agents = MemoryRejected(self.clock), MemoryRejected(self.clock)
        self.every = EveryRejected(self.own, self.agents)

    async def reject(self, count: int) -> None:
        """Reject so many."""
        for number in range(count):
            keeps = self.agents if number % 2 else self.every
            await keeps.reject("q", str(number), b"x", "unreadable", about=_ABOUT)
            self.clock.advance(_HOUR)

    async def ids(self) -> dict[str, str]:
        """Give the messages' ids by what their senders have named them."""
        page = await self.every.listed(queues=(), most=100)
        return {each.message_id: each.id for each in page.messages}


async def test_pages_lead_through_both_in_the_order_of_time() -> None:
    """Each message is on one page; a page is no longer than it is asked for."""
    kept = Kept()
    await kept.reject(7)
    pages, after = [], None
    while True:
        page = await kept.every.listed(queues=("q",), most=3, after=after)
        pages.append([each.message_id for each in page.messages])
        assert (page.count, page.more) == (7, False)
        if (after := page.next) is None:
            break
    assert pages == [["6", "5", "4"], ["3", "2", "1"], ["0"]]
    of_task = await kept.every.of_task(TaskId("o-1"), most=2)
    assert [each.message_id for each in of_task.messages] == ["6", "5"]


async def test_list_without_messages_ends() -> None:
    """Of one of them, too."""
    kept = Kept()
    assert (await kept.every.listed(queues=(), most=3)).next is None
    await kept.reject(1)
    page = await kept.every.listed(queues=(), most=1)
    assert (len(page.messages), page.next) == (1, None)


async def test_message_is_shown_sent_again_and_discarded_where_it_is() -> None:
    """An Agent's as one of the state store."""
    kept = Kept()
    await kept.reject(2)
    for name in (await kept.ids()).values():
        found = await kept.every.body(name)
        assert found is not None
        assert found[1] == b"x"
        again = await kept.every.resending(name, "ada", "mended")
        assert again is not None
        assert again[0].resends == 1
        gone = await kept.every.discard(name, "ada", "of no use")
        assert gone is not None
        assert await kept.every.body(name) is None
    discarded = await kept.every.listed(queues=(), most=9, discarded=True)
    assert {each.message_id for each in discarded.messages} == {"0", "1"}
    assert await kept.every.discard("unknown", "ada", "of no use") is None


async def test_old_ones_of_both_are_deleted_up_to_a_number() -> None:
    """A run deletes some at a time."""
    kept = Kept()
    await kept.reject(8)
    before = kept.clock.now() + timedelta(hours=1)
    counts = [await kept.every.delete_before(before, 3) for _ in range(4)]
    assert counts == [3, 3, 2, 0]
