"""Deferred messages, properties that a receiver changes, and numbers that stand twice."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusQuotaExceededError

from servicebus_local.amqp.performatives import Performative
from servicebus_local.codec.encoding import composite, int32, long_array, uint
from servicebus_local.codec.values import Encodable, Symbol
from servicebus_local.content import Section
from servicebus_local.testing import RunningBroker
from tests.clients import Links, take
from tests.wire import WireClient, attach_receiver, credit, detach, performative, read_sections, verdict

pytestmark = pytest.mark.process


def _deferred(links: Links, queue: str, message: ServiceBusMessage) -> int:
    sender, receiver = links.sender(queue), links.receiver(queue)
    sender.send_messages(message)
    (received,) = take(receiver)
    receiver.defer_message(received)
    return received.sequence_number or 0


def test_deferred_message_carries_its_token_inside(broker: RunningBroker, links: Links) -> None:
    """Go reads the lock token only there; it settles the message."""
    number = _deferred(links, "solo", ServiceBusMessage("deferred"))
    with WireClient(broker.endpoints.port) as wire:
        status, body = wire.request("solo", "receive-by-sequence-number", _numbers(number))
        (received,) = body["messages"]
        annotations = read_sections(received["message"])[Section.DELIVERY_ANNOTATIONS]
        assert (status, annotations) == (200, {"x-opt-lock-token": received["lock-token"]})
        token = annotations["x-opt-lock-token"]
        settled = {"disposition-status": "completed", "lock-tokens": [token, token]}
        assert wire.request("solo", "update-disposition", settled)[0] == 200
    assert broker.figures("solo")["deferred"] == 0


@pytest.mark.parametrize("ending", [Performative.DETACH, Performative.END])
def test_deleted_deferred_message_is_answered_or_stays(
    broker: RunningBroker, links: Links, ending: Performative
) -> None:
    """The link for answers, or its session, ends in the same write as the request that deletes."""
    number = _deferred(links, "solo", ServiceBusMessage("deferred"))
    with WireClient(broker.endpoints.port) as wire:
        asked = wire.question("solo", "receive-by-sequence-number", _numbers(number, mode=0))
        wire.send(asked, detach(9) if ending is Performative.DETACH else performative(ending))
        received = wire.transfers_until(ending)
    left = broker.figures("solo")
    assert len(received) + left["deferred"] == 1


def _numbers(*numbers: int, mode: int = 1) -> dict[str, Encodable]:
    return {"sequence-numbers": long_array(numbers), "receiver-settle-mode": uint(mode)}


def test_repeated_number_counts_once(links: Links) -> None:
    """A deferred message is received once, and a cancelled one frees its bytes once."""
    number = _deferred(links, "small", ServiceBusMessage(b"z" * 200))
    sender, receiver = links.sender("small"), links.receiver("small")
    (received,) = receiver.receive_deferred_messages([number, number])
    receiver.complete_message(received)
    due = datetime.now(UTC) + timedelta(hours=1)
    for _ in range(2):
        (number,) = sender.schedule_messages(ServiceBusMessage(b"z" * 500), due)
        sender.cancel_scheduled_messages([number, number])
    sender.schedule_messages(ServiceBusMessage(b"z" * 500), due)
    with pytest.raises(ServiceBusQuotaExceededError):
        sender.schedule_messages(ServiceBusMessage(b"z" * 500), due)


@pytest.mark.parametrize("token", ["no token", ["nested"], uuid.uuid4()])
def test_unknown_token_settles_nothing(broker: RunningBroker, links: Links, token: Encodable) -> None:
    """A request is carried out for all of its tokens, or refused."""
    links.sender("solo").send_messages(ServiceBusMessage("locked"))
    with WireClient(broker.endpoints.port) as wire:
        wire.send(attach_receiver("solo"), credit(1))
        delivery = read_sections(wire.until(Performative.TRANSFER).payload)
        known = delivery[Section.DELIVERY_ANNOTATIONS]["x-opt-lock-token"]
        asked: dict[str, Encodable] = {"disposition-status": "completed", "lock-tokens": [known, token]}
        assert wire.request("solo", "update-disposition", asked)[0] == 410
    assert broker.figures("solo")["locked"] == 1


_CHANGED: dict[str, Encodable] = {"changed": int32(7), "added": "yes"}
#: How clients name the properties: as symbols on a link, as strings in a request.
_SYMBOLS: dict[str, Encodable] = {Symbol(key): value for key, value in _CHANGED.items()}
_DEAD: dict[str, Encodable] = {Symbol("DeadLetterReason"): "bad"} | _SYMBOLS
_ON_A_LINK = {
    "abandon": composite(Performative.MODIFIED, [True, False, _SYMBOLS]),
    "defer": composite(Performative.MODIFIED, [True, True, _SYMBOLS]),
    "dead-letter": composite(Performative.REJECTED, [composite(Performative.ERROR, ["bad", None, _DEAD])]),
}
_IN_A_REQUEST = {"abandon": "abandoned", "defer": "defered", "dead-letter": "suspended"}


@pytest.mark.parametrize("way", ["link", "request"])
@pytest.mark.parametrize("settlement", ["abandon", "defer", "dead-letter"])
def test_changed_properties_are_kept(broker: RunningBroker, links: Links, settlement: str, way: str) -> None:
    """They are added and replaced with their exact types; the others stay."""
    properties: Any = {"changed": "old", "kept": 1}
    links.sender("solo").send_messages(ServiceBusMessage("", application_properties=properties))
    with WireClient(broker.endpoints.port) as wire:
        wire.send(attach_receiver("solo"), credit(1))
        delivery = wire.until(Performative.TRANSFER)
        before = _properties(delivery.payload)
        if way == "link":
            wire.send(verdict(delivery.fields[1], _ON_A_LINK[settlement]))
            wire.until(Performative.DISPOSITION)
        else:
            token = read_sections(delivery.payload)[Section.DELIVERY_ANNOTATIONS]["x-opt-lock-token"]
            arguments: dict[str, Encodable] = {
                "disposition-status": _IN_A_REQUEST[settlement],
                "lock-tokens": [token],
                "properties-to-modify": _CHANGED,
            }
            assert wire.request("solo", "update-disposition", arguments)[0] == 200
        place = "solo/$deadletterqueue" if settlement == "dead-letter" else "solo"
        after = _peeked(wire, place)
    assert after.items() >= {"changed": 7, "added": "yes", "kept": before["kept"]}.items()
    assert broker.figures("solo")["locked"] == 0
    assert ("DeadLetterReason" in after) == (settlement == "dead-letter" and way == "link")


def _properties(message: bytes) -> dict[str, Any]:
    properties: dict[str, Any] = read_sections(message)[Section.APPLICATION_PROPERTIES]
    return properties


def _peeked(wire: WireClient, address: str) -> dict[str, Any]:
    arguments: dict[str, Encodable] = {"from-sequence-number": 1, "message-count": int32(1)}
    _, body = wire.request(address, "peek-message", arguments)
    return _properties(body["messages"][0]["message"])
