"""Idle parts are closed as in Service Bus: links after ten minutes, connections without links sooner."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from servicebus_local.amqp import channel, idleness, links, replies
from servicebus_local.amqp.performatives import Performative
from servicebus_local.codec.encoding import uint
from servicebus_local.codec.values import Described
from servicebus_local.config import queues_named
from servicebus_local.testing import running_broker
from tests.wire import (
    Seen,
    WireClient,
    attach_receiver,
    attach_sender,
    credit,
    data_message,
    detach,
    performative,
    transfer,
    verdict,
)

pytestmark = pytest.mark.process

_RECEIVER, _SENDER = 0, 1


@dataclass
class _Clock:
    """The broker's monotonic clock in seconds, and the number of checks for idle parts."""

    now: float = 0.0
    looks: int = 0

    def time(self) -> float:
        return self.now

    def look(self) -> float:
        self.looks += 1
        return self.now

    def move(self, now: float) -> None:
        """Set the time, and wait until the broker has looked at all links since."""
        self.now = now
        seen = self.looks
        deadline = time.monotonic() + 60
        while self.looks < seen + 2:
            assert time.monotonic() < deadline, "nobody looks"
            time.sleep(0.005)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    """Replace the clock, and read it often."""
    clock = _Clock()
    monkeypatch.setattr(links, "monotonic", clock.time)
    monkeypatch.setattr(channel, "monotonic", clock.time)
    monkeypatch.setattr(idleness, "monotonic", clock.look)
    monkeypatch.setattr(idleness, "_LOOK_SECONDS", 0.01)
    return clock


@pytest.fixture
def wire(clock: _Clock, tmp_path: Path) -> Iterator[WireClient]:  # noqa: ARG001 - before the broker starts
    """Connect to a broker that has no other client."""
    with (
        running_broker(queues_named(["orders"]), tmp_path) as broker,
        WireClient(broker.endpoints.port) as wire,
    ):
        wire.until(Performative.BEGIN)
        yield wire


def _so_far(wire: WireClient, number: int) -> list[Seen]:
    """Return what the broker has sent before it begins another session."""
    windows = [uint(0), uint(5000), uint(5000)]
    wire.send(performative(Performative.BEGIN, None, *windows, channel=number))
    seen: list[Seen] = []
    while (each := wire.next()).code != Performative.BEGIN:
        seen.append(each)
    return seen


def _condition(error: object) -> object:
    assert isinstance(error, Described)
    return error.fields()[0]


@pytest.mark.parametrize(
    ("use", "handle"),
    [("asks", _RECEIVER), ("settles", _RECEIVER), ("gets a message", _RECEIVER), ("sends", _SENDER)],
)
def test_link_is_detached_ten_minutes_after_its_last_use(
    clock: _Clock, wire: WireClient, use: str, handle: int
) -> None:
    """A frame in either direction counts as use."""
    ends = [attach_receiver("orders", _RECEIVER), attach_sender("orders", _SENDER)]
    wire.send(*ends, transfer(0, data_message(b"first"), _SENDER), credit(2))
    delivery = wire.until(Performative.TRANSFER).fields[1]
    clock.move(599)
    if use == "asks":
        wire.send(credit(3))
    elif use == "settles":
        wire.send(verdict(delivery, replies.ACCEPTED))
    else:
        wire.send(transfer(1, data_message(b"second"), _SENDER))
    _so_far(wire, 2)
    clock.move(599 + 599)
    ended = [seen.fields for seen in _so_far(wire, 3) if seen.code == Performative.DETACH]
    assert handle not in [fields[0] for fields in ended]
    clock.move(599 + 600)
    while (seen := wire.until(Performative.DETACH)).fields[0] != handle:
        pass
    assert _condition(seen.fields[2]) == "amqp:link:detach-forced"


@pytest.mark.parametrize(("had_link", "seconds"), [(True, 300), (False, 60)])
def test_connection_without_links_is_closed(
    clock: _Clock,
    wire: WireClient,
    had_link: bool,  # noqa: FBT001 - a table's column
    seconds: int,
) -> None:
    """Five minutes after the last link, or one if it never had one."""
    if had_link:
        wire.send(attach_receiver("orders"), detach())
        wire.until(Performative.DETACH)
    clock.move(seconds - 1)
    assert _so_far(wire, 2) == []
    clock.now = seconds
    assert _condition(wire.until(Performative.CLOSE).fields[0]) == "amqp:connection:forced"
