"""Behaviour of a queue that depends on timing no client can control, tested without a connection."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from servicebus_local.amqp.client_kinds import ANY_CLIENT
from servicebus_local.amqp.links import LinkChannel
from servicebus_local.amqp.performatives import Attach, Terminus
from servicebus_local.amqp.queue_links import QueueReceiverLink
from servicebus_local.broker.entity import Machinery
from servicebus_local.broker.faults import FaultBoard
from servicebus_local.broker.journal import Journal
from servicebus_local.broker.message import Lock, MessageState, Settlement, StoredMessage, Verdict
from servicebus_local.broker.queue import Queue
from servicebus_local.broker.settings import QueueSettings
from servicebus_local.broker.timers import TimerHeap, now_ms
from servicebus_local.codec.encoding import NULL, encode
from servicebus_local.content import Section, parse_content
from servicebus_local.errors import MessageNotFoundError
from servicebus_local.storage.group_commit import GroupCommit
from servicebus_local.storage.log import MessageLog
from tests.wire import data_message, section


@pytest.fixture
def log(tmp_path: Path) -> Iterator[MessageLog]:
    """Open an empty log."""
    opened = MessageLog(tmp_path)
    yield opened
    opened.close()


def _machinery(log: MessageLog) -> Machinery:
    loop = asyncio.get_running_loop()
    return Machinery(Journal(log, GroupCommit(log, loop, lambda: None)), TimerHeap(loop), FaultBoard())


async def test_deferred_message_expires_when_it_is_asked_for(log: MessageLog) -> None:
    """It is not found any more, and becomes a dead letter if the queue is set so."""
    queue = Queue("orders", QueueSettings(dead_letters_expired=True), _machinery(log))
    (number,) = queue.send([parse_content(data_message(b"old"))])
    message = queue.messages[number]
    queue.settle(queue.locks.lock(message), Verdict(Settlement.DEFER))
    assert queue.find_deferred([number]) == [message]
    message.expires_ms = now_ms() - 1
    with pytest.raises(MessageNotFoundError):
        queue.find_deferred([number])
    assert queue.messages == {}
    (dead,) = queue.dead_letters.messages.values()
    assert (dead, dead.state) == (message, MessageState.ACTIVE)
    assert b"TTLExpiredException" in dead.content.application_properties


async def test_what_a_message_carries_survives_a_restart(log: MessageLog) -> None:
    """The log keeps the annotations for the next hop and the first acquirer, too."""
    header = section(Section.HEADER, [True, None, None, True])
    annotated = header + section(Section.DELIVERY_ANNOTATIONS, {"hop": 1})
    commit = GroupCommit(log, asyncio.get_running_loop(), lambda: None)
    sent = parse_content(data_message(b"kept", annotated))
    machinery = Machinery(Journal(log, commit), TimerHeap(asyncio.get_running_loop()), FaultBoard())
    Queue("orders", QueueSettings(), machinery).send([sent])
    commit.close()
    (restored,) = Journal(log, commit).messages()
    assert restored.content == sent


async def test_properties_changed_in_the_dead_letters_survive_a_restart(log: MessageLog) -> None:
    """An abandoned dead letter stays in its queue, with its receiver's changes."""
    commit = GroupCommit(log, asyncio.get_running_loop(), lambda: None)
    machinery = Machinery(Journal(log, commit), TimerHeap(asyncio.get_running_loop()), FaultBoard())
    queue = Queue("orders", QueueSettings(), machinery)
    (number,) = queue.send([parse_content(data_message(b"dead"))])
    queue.settle(queue.locks.lock(queue.messages[number]), Verdict(Settlement.DEAD_LETTER))
    dead = queue.dead_letters
    changed = Verdict(Settlement.ABANDON, properties={encode("seen"): encode("once")})
    dead.settle(dead.locks.lock(dead.messages[number]), changed)
    commit.close()
    (restored,) = Journal(log, commit).messages()
    assert restored.content == dead.messages[number].content
    assert restored.delivery_count == 0


async def test_disconnected_receivers_are_removed(log: MessageLog) -> None:
    """Those that come and go while another waits at an empty queue leave nothing behind."""
    queue = Queue("orders", QueueSettings(), _machinery(log))
    here, gone = _Idle(), _Idle()
    queue.add_receiver(here)
    queue.add_receiver(gone)
    kept = weakref.ref(gone)
    queue.remove_receiver(gone)
    queue.remove_receiver(gone)  # it is not there any more
    del gone
    assert kept() is None
    assert here.ready


async def test_pause_of_a_disconnected_receiver_does_not_restore_it(log: MessageLog) -> None:
    """It went between two bursts, with credit left, while another waits at the empty queue."""
    queue = Queue("orders", QueueSettings(), _machinery(log))
    queue.add_receiver(_Idle())
    pauses: list[Callable[[], object]] = []
    channel = SimpleNamespace(client=ANY_CLIENT, call_later=lambda _, end_pause: pauses.append(end_pause))
    nowhere = Terminus.read(None)
    attach = Attach("in", 0, True, 0, 1, nowhere, nowhere, NULL, NULL)
    link = QueueReceiverLink(cast("LinkChannel", channel), attach, queue, queue)
    link.credit = 2 * ANY_CLIENT.burst
    for _ in range(ANY_CLIENT.burst):
        link.use_credit()
    link.close()
    pauses.pop()()
    kept = weakref.ref(link)
    del link
    assert kept() is None


class _Idle:
    """A receiver that waits for messages."""

    closed, deletes_on_delivery, ready = False, False, True

    def use_credit(self, size: int) -> None:
        raise NotImplementedError

    def deliver(self, message: StoredMessage, lock: Lock | None) -> None:
        raise NotImplementedError
