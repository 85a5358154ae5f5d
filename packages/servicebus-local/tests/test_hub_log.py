"""Accepted events survive a kill, old events are read from the log, and retention deletes them in time."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from servicebus_local.config import BrokerConfig
from servicebus_local.hubs import hub, partition
from servicebus_local.hubs.settings import HubSettings
from servicebus_local.testing import RunningBroker, running_broker
from tests.broker_process import BrokerProcess, command
from tests.hub_wire import HUBS, Wired, attach_reader, marks_of, numbers, read_events, send_events, wired
from tests.wire import WireClient, data_message, transfer

pytestmark = pytest.mark.process


def _partition(broker: RunningBroker) -> dict[str, object]:
    partition: dict[str, object] = broker.admin("GET", "/hubs")[1][0]["partitions"][0]
    return partition


def test_a_killed_broker_loses_no_event(tmp_path: Path) -> None:
    """Each that was accepted is read after the start, with its number; the next one follows."""
    queues, hubs, data = tmp_path / "queues.json", tmp_path / "hubs.json", tmp_path / "data"
    queues.write_text(json.dumps({"queues": []}))
    hubs.write_text(json.dumps({"hubs": [{"name": "orders", "partitionCount": 1}]}))
    words = [*command(queues, data), "--hubs", str(hubs)]
    with BrokerProcess(words) as broker, WireClient(broker.port) as wire:
        send_events(wire, *(str(number).encode() for number in range(50)))
        broker.kill()
    with BrokerProcess(words) as broker, WireClient(broker.port) as wire:
        send_events(wire, b"after")
        wire.send(attach_reader())
        assert numbers(read_events(wire, 51)) == list(range(51))


def test_numbers_and_times_go_on_after_retention_has_emptied_a_partition(tmp_path: Path) -> None:
    """Also over a restart: an old checkpoint must never name a new event."""
    with wired(data=tmp_path) as (broker, wire):
        send_events(wire, b"a", b"b")
        broker.inject(kind="expire-events", hub="orders")
        before = _partition(broker)
        assert (before["begin_sequence_number"], before["bytes"]) == (2, 0)
    with wired(data=tmp_path) as (broker, wire):
        assert _partition(broker) == before
        send_events(wire, b"c")
        wire.send(attach_reader(0, f"amqp.annotation.x-opt-offset > '{before['last_offset']}'"))
        (event,) = read_events(wire, 1)
        assert numbers([event]) == [2]
        assert int(marks_of(event)["x-opt-offset"]) > int(str(before["last_offset"]))


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wired]:
    """Run a broker that keeps five events in memory."""
    monkeypatch.setattr(partition.Tail, "__init__", _small(partition.Tail.__init__))
    with wired() as connected:
        yield connected


def _small(init: object) -> object:
    assert callable(init)
    return lambda self: init(self, max_events=5)


def test_a_reader_far_behind_reads_from_the_log(little_memory: Wired) -> None:
    """In order and without a gap, over several reads and into memory, while events still come."""
    _, wire = little_memory
    send_events(wire, *(b"x" for _ in range(320)))
    wire.send(attach_reader())
    wire.send(*(transfer(number, data_message(b"y"), 5) for number in range(10)))
    assert numbers(read_events(wire, 330)) == list(range(330))


def test_positions_are_found_in_the_log(little_memory: Wired) -> None:
    """By offset and by time, too."""
    _, wire = little_memory
    send_events(wire, *(b"x" for _ in range(20)))
    wire.send(attach_reader(0))
    marks = [marks_of(event) for event in read_events(wire, 20)]
    wire.send(attach_reader(1, f"amqp.annotation.x-opt-offset > '{marks[3]['x-opt-offset']}'"))
    wire.send(attach_reader(2, f"amqp.annotation.x-opt-enqueued-time >= '{marks[4]['x-opt-enqueued-time']}'"))
    assert numbers(read_events(wire, 1, 1)) == [4]
    (found,) = numbers(read_events(wire, 1, 2))
    same = [mark["x-opt-enqueued-time"] for mark in marks].index(marks[4]["x-opt-enqueued-time"])
    assert found == same


@pytest.mark.parametrize(
    "settings", [HubSettings(1, retention_ms=1), HubSettings(1, max_bytes=400)], ids=["by time", "by size"]
)
def test_retention_drops_the_oldest(
    settings: HubSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In parts; what is kept is the newest, in one piece, in the log as well."""
    monkeypatch.setattr(hub, "_LOOK_MS", 20)
    monkeypatch.setattr(hub, "_PART", 2)
    monkeypatch.setattr(hub, "_PAUSE_MS", 1)
    with wired(BrokerConfig({}, hubs={"orders": settings}), tmp_path) as (broker, wire):
        send_events(wire, *(b"x" for _ in range(20)))
        for _ in range(500):
            kept = _partition(broker)
            if int(str(kept["bytes"])) <= (400 if settings.max_bytes == 400 else 0):
                break
        assert kept["last_sequence_number"] == 19
        begin = kept["begin_sequence_number"]
        assert isinstance(begin, int)
        assert begin > 10
    with closing(sqlite3.connect(tmp_path / "messages.sqlite")) as log:
        assert log.execute("SELECT count(*) FROM event").fetchone() == (20 - begin,)


def test_time_never_goes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start by time must find one place."""
    with ExitStack() as stack:
        broker = stack.enter_context(running_broker(HUBS, tmp_path))
        wire = stack.enter_context(WireClient(broker.endpoints.port))
        send_events(wire, b"a")
        monkeypatch.setattr("servicebus_local.hubs.partition.now_ms", lambda: 5)
        wire.send(transfer(1, data_message(b"b"), 5), attach_reader())
        first, second = [marks_of(event)["x-opt-enqueued-time"] for event in read_events(wire, 2)]
        assert first == second
