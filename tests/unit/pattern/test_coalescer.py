"""Group commit never makes an idle sender wait, and never mixes what must not be mixed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.pattern.coalescer import Coalescer


@dataclass(frozen=True)
class Letter:
    """Something to send: what it takes of an envelope, and whom it is for."""

    text: str
    share: float = 0.1
    addressee: str | None = None

    @property
    def key(self) -> str:
        """Two letters to one addressee never share an envelope."""
        return self.addressee or self.text


@dataclass
class Post:
    """Sends envelopes, each when the test lets it."""

    envelopes: list[list[str]] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    failures: dict[str, BaseException] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.office = Coalescer[Letter, str](self._flush)

    async def _flush(self, letters: Sequence[Letter]) -> list[str]:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.envelopes.append([letter.text for letter in letters])
        await self.gate.wait()
        self.at_once -= 1
        for letter in letters:
            if letter.text in self.failures:
                raise self.failures[letter.text]
        return [f"{letter.text} sent" for letter in letters]

    @asynccontextmanager
    async def one_on_its_way(self) -> AsyncIterator[asyncio.Task[str]]:
        """Keep an envelope with the letter `first` on its way until the block ends."""
        self.gate.clear()
        first = asyncio.create_task(self.office.submit(Letter("first")))
        while not self.envelopes:
            await asyncio.sleep(0)
        yield first
        await asyncio.sleep(0)  # what the block has submitted waits in the office now
        self.gate.set()


@pytest.fixture
def post() -> Post:
    """Make a post that sends at once until it is told to wait."""
    return Post()


async def test_idle_sender_sends_at_once(post: Post) -> None:
    """Nothing is waited for: a single item is a flush of its own."""
    async with asyncio.timeout(60):
        assert await post.office.submit(Letter("a")) == "a sent"
        assert await post.office.submit(Letter("b")) == "b sent"
    assert post.envelopes == [["a"], ["b"]]


async def test_what_arrives_meanwhile_goes_together(post: Post) -> None:
    """One flush is under way at a time; the next takes all that has collected, each with its own result."""
    async with post.one_on_its_way() as first, asyncio.TaskGroup() as group:
        tasks = [group.create_task(post.office.submit(Letter(text))) for text in "abc"]
        await asyncio.sleep(0)
        assert post.envelopes == [["first"]]
        post.gate.set()
    assert post.envelopes == [["first"], ["a", "b", "c"]]
    assert await first == "first sent"
    assert [task.result() for task in tasks] == ["a sent", "b sent", "c sent"]
    assert post.most_at_once == 1


async def _all_behind_the_first(post: Post, *letters: Letter) -> list[str | BaseException]:
    async with post.one_on_its_way():
        tasks = [asyncio.create_task(post.office.submit(letter)) for letter in letters]
    return await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize(
    ("letters", "envelopes"),
    [
        ([Letter(text, share=0.5) for text in "abc"], [["a", "b"], ["c"]]),
        ([Letter("a"), Letter("large", share=1.0), Letter("b")], [["a"], ["large"], ["b"]]),
        ([Letter("a", addressee="A"), Letter("b", addressee="A"), Letter("c")], [["a"], ["b", "c"]]),
    ],
    ids=["three halves", "one that fills a flush", "two of one key"],
)
async def test_flush_is_filled_to_its_limit_and_not_beyond(
    post: Post, letters: list[Letter], envelopes: list[list[str]]
) -> None:
    """Nor has it a key twice; each item keeps its place in the row."""
    await _all_behind_the_first(post, *letters)
    assert post.envelopes == [["first"], *envelopes]


async def test_error_reaches_each_of_its_flush_and_nobody_else(post: Post) -> None:
    """The flush before it and the flush after it succeed."""
    async with post.one_on_its_way() as first:
        post.failures["b"] = OSError("no road")
        broken = [asyncio.create_task(post.office.submit(Letter(text))) for text in "ab"]
    assert await first == "first sent"
    assert await asyncio.gather(*broken, return_exceptions=True) == [post.failures["b"]] * 2
    assert await post.office.submit(Letter("c")) == "c sent"


async def test_cancelled_waiter_harms_nobody(post: Post) -> None:
    """The others get their results, and an item that nobody waits for any more is not sent."""
    async with post.one_on_its_way() as first:
        tasks = [asyncio.create_task(post.office.submit(Letter(text))) for text in "abc"]
        await asyncio.sleep(0)
        first.cancel()
        tasks[1].cancel()
        await asyncio.wait([first, tasks[1]])
    assert [await tasks[0], await tasks[2]] == ["a sent", "c sent"]
    assert await post.office.submit(Letter("d")) == "d sent"
    assert post.envelopes == [["first"], ["a", "c"], ["d"]]


async def test_cancelled_waiter_of_a_failing_flush_harms_nobody(post: Post) -> None:
    """The error reaches who is still there."""
    post.failures["a"] = OSError("no road")
    post.gate.clear()
    gone, other = (asyncio.create_task(post.office.submit(Letter(text))) for text in "ab")
    while not post.envelopes:
        await asyncio.sleep(0)
    assert post.envelopes == [["a", "b"]]
    gone.cancel()
    await asyncio.wait([gone])
    post.gate.set()
    with pytest.raises(OSError, match="no road"):
        await other
    assert await post.office.submit(Letter("c")) == "c sent"


async def test_cancelled_flush_leaves_no_waiter_without_an_answer(post: Post) -> None:
    """When the process stops, whoever waits for this flush is told."""
    post.failures["a"] = asyncio.CancelledError()
    async with asyncio.timeout(60):
        with pytest.raises(asyncio.CancelledError):
            await post.office.submit(Letter("a"))


@given(
    st.lists(
        st.tuples(st.floats(min_value=0.01, max_value=1.0), st.sampled_from("ABCDEF")),
        min_size=1,
        max_size=30,
    )
)
def test_every_item_is_sent_once_and_in_order(drawn: list[tuple[float, str]]) -> None:
    """However large the items are and whomever they are for: no flush is too full, none has a key twice."""
    letters = [Letter(str(n), share, addressee) for n, (share, addressee) in enumerate(drawn)]
    by_text = {letter.text: letter for letter in letters} | {"first": Letter("first")}

    async def send() -> Post:
        post = Post()
        results = await _all_behind_the_first(post, *letters)
        assert results == [f"{letter.text} sent" for letter in letters]
        return post

    envelopes = asyncio.run(send()).envelopes
    assert [text for envelope in envelopes[1:] for text in envelope] == [letter.text for letter in letters]
    for envelope in envelopes:
        assert sum(by_text[text].share for text in envelope) <= 1.0 + 1e-9
        assert len({by_text[text].key for text in envelope}) == len(envelope)


async def test_another_flush_begins_while_few_items_are_on_their_way() -> None:
    """At a low rate nobody waits for a running flush; at a high one, flushes grow."""
    post = Post()
    post.office = Coalescer[Letter, str](post._flush, few=2)
    async with post.one_on_its_way() as first:
        second = asyncio.create_task(post.office.submit(Letter("second")))
        while len(post.envelopes) < 2:
            await asyncio.sleep(0)
        others = [asyncio.create_task(post.office.submit(Letter(text))) for text in ("a", "b", "c")]
        for _ in range(20):
            await asyncio.sleep(0)
        assert post.envelopes == [["first"], ["second"]]
    async with asyncio.timeout(60):
        await asyncio.gather(first, second, *others)
    assert post.envelopes == [["first"], ["second"], ["a", "b", "c"]]


async def test_what_is_ready_at_the_same_moment_leaves_together(post: Post) -> None:
    """Even from an idle start."""
    async with asyncio.timeout(60):
        await asyncio.gather(*(post.office.submit(Letter(text)) for text in ("a", "b", "c")))
    assert post.envelopes == [["a", "b", "c"]]


async def test_flush_that_nobody_waits_for_any_more_is_not_sent(post: Post) -> None:
    """The only sender gave up before it began."""
    given_up = asyncio.create_task(post.office.submit(Letter("given up")))
    await asyncio.sleep(0)
    given_up.cancel()
    async with asyncio.timeout(60):
        assert await post.office.submit(Letter("a")) == "a sent"
        await asyncio.gather(given_up, return_exceptions=True)
        only = asyncio.create_task(post.office.submit(Letter("only")))
        await asyncio.sleep(0)
        only.cancel()
        await asyncio.sleep(0.01)
        assert await post.office.submit(Letter("b")) == "b sent"
    assert post.envelopes == [["a"], ["b"]]
