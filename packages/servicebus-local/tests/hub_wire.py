"""Frames that a client of Event Hubs sends, and what it reads, without the client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from servicebus_local.amqp.hub_links import RUNTIME_METRIC
from servicebus_local.amqp.performatives import SELECTOR_FILTER, Performative
from servicebus_local.codec.encoding import composite, encode, encode_map, symbol_array, ubyte, uint
from servicebus_local.codec.values import Encodable, Encoded, Symbol
from servicebus_local.config import BrokerConfig
from servicebus_local.content import Section
from servicebus_local.hubs.settings import HubSettings
from servicebus_local.testing import RunningBroker, running_broker
from tests.wire import (
    Seen,
    WireClient,
    attach_sender,
    credit,
    data_message,
    performative,
    read_sections,
    section,
    transfer,
)

PATH = "orders/ConsumerGroups/{}/Partitions/{}"
#: One partition, so that a test knows where its events are.
HUBS = BrokerConfig({}, hubs={"orders": HubSettings(1, consumer_groups=("Ingestion",))})


type Wired = tuple[RunningBroker, WireClient]


@contextmanager
def wired(config: BrokerConfig = HUBS, data: Path | None = None) -> Iterator[Wired]:
    """Run a broker with hubs, and connect a client."""
    with running_broker(config, data) as broker, WireClient(broker.endpoints.port) as wire:
        yield broker, wire


def attach_reader(
    handle: int = 0,
    selector: str | None = None,
    *,
    epoch: int | None = None,
    tracks: bool = False,
    address: str = PATH.format("$Default", 0),
) -> bytes:
    """Return the frame that attaches a reader."""
    described = b"\x00" + encode(Symbol(SELECTOR_FILTER)) + encode(selector)
    filters = encode_map({Symbol(SELECTOR_FILTER): Encoded(described)}) if selector is not None else None
    source = composite(0x28, [f"amqps://here:1/{address}", *[None] * 6, filters])
    properties: Encodable = {"com.microsoft:epoch": epoch} if epoch is not None else None
    desired = symbol_array([RUNTIME_METRIC]) if tracks else None
    ends: list[Encodable] = [source, composite(0x29, ["here"]), *[None] * 5, desired, properties]
    fields: list[Encodable] = [f"in-{handle}", uint(handle), True, ubyte(0), ubyte(0), *ends]
    return performative(Performative.ATTACH, *fields)


def send_events(wire: WireClient, *bodies: bytes, handle: int = 5) -> None:
    """Send events one by one, each after the other was accepted."""
    wire.send(attach_sender("orders", handle))
    for number, body in enumerate(bodies):
        wire.send(transfer(number, data_message(body), handle))
        state = wire.until(Performative.DISPOSITION).fields[4]
        assert "36" in str(state), state


def batch(*events: bytes, key: str | None = None) -> bytes:
    """Return the envelope of a batch."""
    marks = section(Section.MESSAGE_ANNOTATIONS, {Symbol("x-opt-partition-key"): key}) if key else b""
    return marks + b"".join(section(Section.DATA, event) for event in events)


def read_events(wire: WireClient, count: int, handle: int = 0) -> list[dict[int, Any]]:
    """Request events, and return their sections."""
    wire.send(credit(count, handle))
    return [read_sections(wire.until(Performative.TRANSFER).payload) for _ in range(count)]


def refusal(wire: WireClient) -> tuple[str, str]:
    """Return condition and text with which a link is detached."""
    return error_of(wire.until(Performative.DETACH))


def error_of(seen: Seen) -> tuple[str, str]:
    """Return condition and text of a detach."""
    error: Any = seen.fields[2]
    return error.value[0], error.value[1]


def marks_of(event: Mapping[int, Any]) -> dict[str, Any]:
    """Return an event's message annotations."""
    found: dict[str, Any] = event[Section.MESSAGE_ANNOTATIONS]
    return found


def numbers(events: list[dict[int, Any]]) -> list[int]:
    """Return the sequence numbers of events."""
    return [marks_of(event)["x-opt-sequence-number"] for event in events]
