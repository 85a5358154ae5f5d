"""A message of a batch that fails, fails alone: the others are settled with the batch."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta

import azure.functions as func
import pytest

from functions.messages import batch
from functions.messages.batch import Batches
from functions.pattern.errors import TransientError
from functions.pattern.message_ids import resent_as
from functions.pattern.rejected import Content
from tests.fakes.clock import FakeClock
from tests.fakes.messages import RecordedPostbox, received


class Desk:
    """A queue whose messages fail as the test says, by their bodies."""

    def __init__(self, errors: Mapping[bytes, BaseException]) -> None:
        self.errors = errors
        self.done: list[bytes] = []
        self.given_up: list[tuple[str, str, bytes, str]] = []
        self.postbox, self.clock = RecordedPostbox(), FakeClock()
        self.batches = Batches("submissions", self.postbox, self.clock, self.give_up)

    async def give_up(self, queue: str, message_id: str, content: Content, reason: str) -> None:
        """Record what is given up."""
        self.given_up.append((queue, message_id, content.body, reason))

    async def work(self, message: func.ServiceBusMessage) -> None:
        """Fail, or do it."""
        body = message.get_body()
        if body in self.errors:
            raise self.errors[body]
        self.done.append(body)

    async def take(self, *messages: func.ServiceBusMessage) -> None:
        """Take a batch."""
        await self.batches.take(messages, self.work)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functions.messages.blueprint.patience_of", lambda _: 0.05)


@pytest.mark.parametrize(
    "error",
    [ZeroDivisionError("a defect"), TransientError("away"), asyncio.CancelledError(), KeyError("x")],
    ids=lambda error: type(error).__name__,
)
async def test_message_that_fails_is_put_back_alone(error: BaseException) -> None:
    """Whatever it raises: a little later, under a new id, since its own would be taken for a duplicate."""
    desk = Desk({b"bad": error})
    bad = received(b"bad", "m-7", properties={"tenant": "blue"}, subject="line", correlation_id="c-1")
    await desk.take(received(b"one"), bad, received(b"two"))
    assert desk.done == [b"one", b"two"]
    [(queue, message_id, content, not_before)] = desk.postbox.sent
    assert (queue, message_id, content.body) == ("submissions", "m-7.a1", b"bad")
    assert (content.labels.subject, content.labels.correlation_id) == ("line", "c-1")
    assert content.labels.properties == {"tenant": "blue"}
    assert not_before == desk.clock.now() + timedelta(seconds=2)


async def test_attempts_are_counted_and_their_delays_grow() -> None:
    """The id stays short."""
    desk = Desk({b"bad": ZeroDivisionError()})
    message_id = "m-7"
    delays = []
    for _ in range(9):
        await desk.take(received(), received(b"bad", message_id))
        _, message_id, _, not_before = desk.postbox.sent[-1]
        assert not_before is not None
        delays.append((not_before - desk.clock.now()).total_seconds())
    assert (message_id, delays) == ("m-7.a9", [2, 4, 8, 16, 32, 60, 60, 60, 60])
    await desk.take(received(), received(b"bad", message_id))
    assert len(desk.postbox.sent) == 9
    assert desk.given_up == [("submissions", "m-7.a9", b"bad", "failed 10 times: ZeroDivisionError: ")]


async def test_batch_of_which_nothing_could_be_taken_is_redelivered() -> None:
    """An outage: Service Bus keeps what it has, and counts."""
    desk = Desk({b"one": TransientError("away"), b"two": asyncio.CancelledError()})
    with pytest.raises(ExceptionGroup) as raised:
        await desk.take(received(b"one"), received(b"two"))
    assert len(raised.value.exceptions) == 2
    assert desk.postbox.sent == []


async def test_message_that_cannot_be_put_back_has_the_batch_redelivered() -> None:
    """No message is lost; the others are recognised when they come again."""
    desk = Desk({b"bad": ZeroDivisionError()})
    desk.postbox.failing = True
    with pytest.raises(ExceptionGroup):
        await desk.take(received(b"one"), received(b"bad"))


async def test_giving_up_that_hangs_has_the_batch_redelivered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the lock of its messages ends."""
    monkeypatch.setattr(batch, "_RETURN_SECONDS", 0.05)
    desk = Desk({b"bad": ZeroDivisionError()})
    monkeypatch.setattr(desk.postbox, "put", lambda *_, **__: asyncio.sleep(60))
    with pytest.raises(ExceptionGroup):
        await desk.take(received(b"one"), received(b"bad"))


async def test_resent_message_has_its_attempts_again() -> None:
    """Whoever sends it again has mended what was wrong: one hiccup is one hiccup."""
    desk = Desk({b"bad": ZeroDivisionError()})
    await desk.take(received(), received(b"bad", resent_as("m-7.a9", 1)))
    assert [message_id for _, message_id, _, _ in desk.postbox.sent] == ["m-7.a9.r1.a1"]
    assert desk.given_up == []
