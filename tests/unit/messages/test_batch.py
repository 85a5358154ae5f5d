"""A message of a batch that fails, fails alone: the others are settled with the batch."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from types import SimpleNamespace

import azure.functions as func
import pytest

from functions.messages import batch
from functions.messages.batch import Batches
from functions.messages.reading import QueueMessage
from functions.pattern.errors import TransientError
from functions.pattern.rejected import Content, Labels
from functions.pattern.sent_again import Counts, resent
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

    async def work(self, message: QueueMessage) -> None:
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
    """Each message is tried once: the wait before a second try is longer than the patience."""
    monkeypatch.setattr("functions.messages.blueprint.patience_of", lambda _: 0.05)
    monkeypatch.setattr("functions.messages.queues._random", SimpleNamespace(random=lambda: 1.0))


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
    assert (queue, content.body, message_id != "m-7") == ("submissions", b"bad", True)
    assert (content.labels.subject, content.labels.correlation_id) == ("line", "c-1")
    assert content.labels.properties == {"tenant": "blue", "counted.attempts": 1}
    assert not_before == desk.clock.now() + timedelta(seconds=2)


async def test_attempts_are_counted_and_their_delays_grow() -> None:
    """On the message itself."""
    desk = Desk({b"bad": TransientError("away")})
    bad, delays = received(b"bad", "m-7"), []
    for _ in range(9):
        await desk.take(received(), bad)
        bad, not_before = _as_received(desk), desk.postbox.sent[-1][3]
        assert not_before is not None
        delays.append((not_before - desk.clock.now()).total_seconds())
    assert delays == [2, 4, 8, 16, 32, 60, 60, 60, 60]
    await desk.take(received(), bad)
    assert len({message_id for _, message_id, _, _ in desk.postbox.sent}) == 9
    last = desk.postbox.sent[-1][1]
    assert desk.given_up == [("submissions", last, b"bad", "failed 10 times: TransientError: away")]


async def test_defect_is_given_up_without_its_text() -> None:
    """It may quote a secret of the payload, and would be kept, alerted and shown."""
    desk = Desk({b"bad": RuntimeError("no card c4n4ry-card")})
    bad = received(b"bad", "m-7", properties={"counted.attempts": 9})
    await desk.take(received(), bad)
    assert desk.given_up == [("submissions", "m-7", b"bad", "failed 10 times: RuntimeError")]


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
    _, failed = Counts(attempts=9).sent_with("m-7", Content(b"bad", Labels()))
    await desk.postbox.put("submissions", *resent("m-7", failed, 1))
    await desk.take(received(), _as_received(desk))
    assert Counts.of(desk.postbox.sent[-1][2]) == Counts(attempts=1)
    assert desk.given_up == []


@pytest.mark.parametrize("message_id", ["invoice-2026.a9", "m-1.p55.a9"])
async def test_id_of_any_sender_counts_for_nothing(message_id: str) -> None:
    """The counts are properties of the message."""
    desk = Desk({b"bad": TransientError("away for a second")})
    await desk.take(received(b"one"), received(b"bad", message_id))
    assert (len(desk.postbox.sent), desk.given_up) == (1, [])


async def test_messages_without_an_id_are_put_back_each_by_itself() -> None:
    """A queue with duplicate detection would take the second for the first."""
    desk = Desk({b"bad": ZeroDivisionError(), b"worse": ZeroDivisionError()})
    await desk.take(received(), received(b"bad", None), received(b"worse", None))
    assert len({message_id for _, message_id, _, _ in desk.postbox.sent} - {""}) == 2


def _as_received(desk: Desk) -> func.ServiceBusMessage:
    """Take the message off the queue on which it was put last."""
    _, message_id, content, _ = desk.postbox.sent[-1]
    return received(content.body, message_id, properties=content.labels.properties)
