"""Killed under load again and again, the broker loses nothing, while receivers come and go.

`FULL_SIZE=1 pytest -s tests/test_kills.py` kills it twenty times, with 100,000 acknowledged messages.
"""

from __future__ import annotations

import gc
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

from servicebus_local.amqp.performatives import Performative
from servicebus_local.content import Section
from servicebus_local.server import Endpoints
from servicebus_local.testing import RunningBroker
from tests.broker_process import BrokerProcess, command
from tests.clients import connect
from tests.wire import WireClient, attach_receiver, credit, detach, read_sections

#: The client forgets to close a socket that was cut.
pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(1200),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

_FULL_SIZE = bool(os.environ.get("FULL_SIZE"))
_KILLS, _ACKNOWLEDGED = (20, 100_000) if _FULL_SIZE else (3, 3_000)
#: The credit of a receive-and-delete receiver, and the number of messages after which it disconnects.
_CREDIT, _ENOUGH = 50, 30
_LOCKED, _DELETED = "locked", "deleted"


@dataclass
class _Ledger:
    """The operations that clients tried on a queue, and their acknowledgements."""

    acknowledged: set[str] = field(default_factory=set)
    received: set[str] = field(default_factory=set)
    completed: set[str] = field(default_factory=set)
    #: Credit of receivers that delete, open when the broker was killed.
    open_credit: int = 0


@dataclass
class _Load:
    """Two clients that send, and receivers that come and go, until the broker is killed."""

    port: int
    prefix: str
    ledgers: dict[str, _Ledger]
    stopping: threading.Event = field(default_factory=threading.Event)

    def send(self, client: ServiceBusClient, queue: str, batch: int) -> None:
        """Send batches to one queue."""
        ledger, number = self.ledgers[queue], 0
        with client.get_queue_sender(queue) as sender:
            while not self.stopping.is_set():
                names = [f"{self.prefix}-{batch}-{number + index}" for index in range(batch)]
                number += batch
                sender.send_messages([ServiceBusMessage(name) for name in names], timeout=30)
                ledger.acknowledged.update(names)

    def complete(self, client: ServiceBusClient) -> None:
        """Complete messages through receivers that come and go."""
        ledger = self.ledgers[_LOCKED]
        while not self.stopping.is_set():
            with client.get_queue_receiver(_LOCKED) as receiver:
                for message in receiver.receive_messages(_CREDIT, 1):
                    ledger.received.add(str(message))
                    receiver.complete_message(message)
                    ledger.completed.add(str(message))

    def delete(self) -> None:
        """Take messages without locks through receivers that come and go."""
        ledger = self.ledgers[_DELETED]
        while not self.stopping.is_set():
            open_credit = 0
            try:
                with WireClient(self.port) as wire:
                    open_credit = _CREDIT
                    wire.send(attach_receiver(_DELETED, deletes=True), credit(_CREDIT))
                    while (seen := wire.next()).code != Performative.DETACH:
                        if seen.code == Performative.TRANSFER:
                            ledger.received.add(_name(seen.payload))
                            open_credit -= 1
                            if open_credit == _CREDIT - _ENOUGH:
                                wire.send(detach())
            except (OSError, EOFError):
                ledger.open_credit += open_credit
                raise


def _name(payload: bytes) -> str:
    body: bytes = read_sections(payload)[Section.DATA]
    return body.decode()


def _until_killed(work: Callable[..., None], *arguments: object) -> threading.Thread:
    def run() -> None:
        try:
            work(*arguments)
        except (ServiceBusError, ValueError, OSError, EOFError):
            return  # the broker was killed

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def _load_until(broker: BrokerProcess, ledgers: dict[str, _Ledger], prefix: str, target: int) -> None:
    """Load the broker until enough is acknowledged, and kill it."""
    with ExitStack() as opened:
        first, second, third = (opened.enter_context(connect(broker.port)) for _ in range(3))
        load = _Load(broker.port, prefix, ledgers)
        threads = [
            _until_killed(load.send, first, _LOCKED, 20),
            _until_killed(load.send, second, _DELETED, 30),
            _until_killed(load.complete, third),
            _until_killed(load.delete),
            _until_killed(load.delete),
        ]
        try:
            _wait_for(ledgers, target)
        finally:
            load.stopping.set()
            broker.kill()
            for thread in threads:
                thread.join()


def _wait_for(ledgers: dict[str, _Ledger], target: int) -> None:
    done = {queue: len(ledger.received) for queue, ledger in ledgers.items()}
    deadline = time.monotonic() + 120
    while _acknowledged(ledgers) < target or any(
        len(ledger.received) - done[queue] < _CREDIT for queue, ledger in ledgers.items()
    ):
        assert time.monotonic() < deadline, "no progress"
        time.sleep(0.005)


def _acknowledged(ledgers: dict[str, _Ledger]) -> int:
    return sum(len(ledger.acknowledged) for ledger in ledgers.values())


def _left(broker: BrokerProcess, queue: str) -> list[str]:
    """Return what is in a queue, which is empty then."""
    count = RunningBroker(Endpoints(broker.port, broker.admin_port)).figures(queue)["active"]
    with WireClient(broker.port) as wire:
        wire.send(attach_receiver(queue, deletes=True), credit(count, window=1 << 30))
        return [_name(wire.until(Performative.TRANSFER).payload) for _ in range(count)]


@pytest.fixture(autouse=True)
def _free_leaked_sockets() -> Iterator[None]:
    """Raise the warnings about them while they are ignored."""
    yield
    gc.collect()


def test_kills_lose_nothing_acknowledged(tmp_path: Path) -> None:
    """With locks nothing is lost or returned; without, at most what was on its way to a receiver."""
    config = tmp_path / "queues.json"
    queues = [{"name": name, "properties": {"lockDuration": "PT5M"}} for name in (_LOCKED, _DELETED)]
    config.write_text(json.dumps({"queues": queues}))
    words = command(config, tmp_path / "data")
    ledgers = {_LOCKED: _Ledger(), _DELETED: _Ledger()}
    lost: set[str] = set()
    for kill in range(_KILLS):
        with BrokerProcess(words) as broker:
            _load_until(broker, ledgers, str(kill), (kill + 1) * _ACKNOWLEDGED // _KILLS)
        lost |= _check_deleted(words, kill, ledgers[_DELETED], lost)
    with BrokerProcess(words) as broker:
        left = _left(broker, _LOCKED)
    locked = ledgers[_LOCKED]
    assert len(left) == len(set(left))
    assert locked.acknowledged - locked.received <= set(left)
    assert not locked.completed & set(left)
    print(  # noqa: T201 - the figures are what it is run for
        f"{_acknowledged(ledgers)} acknowledged, {len(lost)} lost without locks, none with locks"
    )


def _check_deleted(words: list[str], kill: int, ledger: _Ledger, lost: set[str]) -> set[str]:
    with BrokerProcess(words) as broker:
        ledger.received |= set(_left(broker, _DELETED))
    missing = ledger.acknowledged - ledger.received - lost
    print(  # noqa: T201 - the same
        f"kill {kill + 1}: {len(missing)} lost without locks, open credit {ledger.open_credit}"
    )
    assert len(missing) <= ledger.open_credit
    ledger.open_credit = 0
    return missing
