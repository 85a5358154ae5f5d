"""The admin endpoint shows correct figures, and refuses web pages."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import MessageLockLostError

from servicebus_local.testing import RunningBroker
from tests.clients import Links, open_links, take

pytestmark = pytest.mark.process


def test_figures_follow_the_messages(broker: RunningBroker, links: Links) -> None:
    """Messages by state, dead letters, locks, the oldest age and the counters are correct."""
    sender, receiver = links.sender("orders"), links.receiver("orders")
    before, began = broker.figures("orders"), time.monotonic()
    sender.send_messages([ServiceBusMessage(str(number)) for number in range(5)])
    completed, abandoned, deferred, dead = take(receiver, 4)
    receiver.complete_message(completed)
    receiver.abandon_message(abandoned)
    receiver.defer_message(deferred)
    receiver.dead_letter_message(dead)
    take(receiver)
    after = broker.figures("orders")
    states = ("active", "locked", "deferred", "scheduled", "dead_lettered")
    assert {state: after[state] for state in states} == {
        "active": 2,
        "locked": 1,
        "deferred": 1,
        "scheduled": 0,
        "dead_lettered": 1,
    }
    counted = {name: after[name] - before[name] for name in ("sent", "completed", "abandoned")}
    assert counted == {"sent": 5, "completed": 1, "abandoned": 1}
    assert 0 <= after["oldest_age_seconds"] < time.monotonic() - began + 1


def test_purge_empties_queue_and_dead_letters(broker: RunningBroker, links: Links) -> None:
    """Purging deletes everything; the holder of a locked message is refused afterwards."""
    receiver = links.receiver("solo")
    links.sender("solo").send_messages([ServiceBusMessage("dead"), ServiceBusMessage("held")])
    dead, held = take(receiver, 2)
    receiver.dead_letter_message(dead)
    answer = broker.admin("POST", "/queues/solo/purge")
    assert answer == (200, {"deleted": 1, "dead_letters_deleted": 1})
    with pytest.raises(MessageLockLostError):
        receiver.complete_message(held)
    figures = broker.figures("solo")
    assert (figures["active"], figures["locked"], figures["dead_lettered"]) == (0, 0, 0)
    assert figures["oldest_age_seconds"] is None
    assert broker.admin("POST", "/queues/nowhere/purge")[0] == 404


def test_attached_receivers_are_counted(broker: RunningBroker) -> None:
    """One that is closed, or whose connection is, does not count any more."""
    with open_links(broker.endpoints.port) as links:
        closed = links.receiver("handover")
        with open_links(broker.endpoints.port) as others:
            others.receiver("handover")
            assert broker.figures("handover")["receivers"] == 2
            closed.close()
            _wait_until(
                lambda: broker.figures("handover")["receivers"] == 1, "it counts, though it is closed"
            )
    _wait_until(lambda: broker.figures("handover")["receivers"] == 0, "it counts without its connection")


def test_health_counts_connections(broker: RunningBroker, links: Links) -> None:
    """Health answers, with the number of connected clients."""
    links.sender("orders")
    status, health = broker.admin("GET", "/health")
    assert (status, health["status"]) == (200, "ok")
    assert health["connections"] >= 1


def test_web_pages_are_refused(broker: RunningBroker) -> None:
    """A request by another host name, or from a web page, is refused before anything happens."""
    assert broker.admin("GET", "/queues", headers={"Host": "attacker.example"})[0] == 403
    assert (
        broker.admin("POST", "/queues/orders/purge", headers={"Origin": "http://attacker.example"})[0] == 403
    )


def _wait_until(condition: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.05)
