"""The performatives that the broker sends, in the exact shapes that the azure-servicebus client reads.

The client decodes by position: every field is written, nulls too, and an error always has three fields.
"""

from __future__ import annotations

from collections.abc import Sequence

from servicebus_local.amqp.frames import MAX_FRAME_BYTES
from servicebus_local.amqp.performatives import Attach, Performative
from servicebus_local.codec.encoding import (
    FALSE,
    NULL,
    TRUE,
    composite,
    encode,
    symbol_array,
    ubyte,
    uint,
    ulong,
    ushort,
)
from servicebus_local.codec.values import Encodable, Encoded, Symbol

#: Service Bus limit of the standard tier; the client sizes its batches by it.
MAX_MESSAGE_BYTES = 256 * 1024
#: The client passes every disposition to all links: these ids must not overlap its own, which start at 0.
FIRST_DELIVERY_ID = 0x40000000
MAX_WINDOW = 0x7FFFFFFF
#: For outgoing messages: the broker adds annotations, and an answer can have several messages.
NO_LIMIT = (1 << 64) - 1
_MAX_CHANNEL = 4999
_MAX_HANDLE = 255

#: Offers the mechanisms that Service Bus clients request; the broker checks no credentials.
SASL_MECHANISMS = composite(
    Performative.SASL_MECHANISMS, [symbol_array(["ANONYMOUS", "PLAIN", "EXTERNAL", "MSSBCBS"])]
)
#: Accepts the client's authentication.
SASL_OUTCOME = composite(Performative.SASL_OUTCOME, [ubyte(0), None])
#: Answers an end.
END_SESSION = composite(Performative.END, [None])
ACCEPTED = composite(Performative.ACCEPTED, [])
RELEASED = composite(Performative.RELEASED, [])
REJECTED = composite(Performative.REJECTED, [])


def open_connection(container_id: str) -> Encoded:
    """Answer an open. No idle time-out: only the client closes an idle connection."""
    fields: list[Encodable] = [container_id, None, uint(MAX_FRAME_BYTES), ushort(_MAX_CHANNEL)]
    return composite(Performative.OPEN, fields + [None] * 6)


def close_connection(error: Encoded | None = None) -> Encoded:
    """Close a connection, or answer a close."""
    return composite(Performative.CLOSE, [error])


def begin_session(channel: int) -> Encoded:
    """Answer a begin on the same channel number."""
    windows = [uint(FIRST_DELIVERY_ID), uint(MAX_WINDOW), uint(MAX_WINDOW), uint(_MAX_HANDLE)]
    return composite(Performative.BEGIN, [ushort(channel), *windows, None, None, None])


def attach_link(attach: Attach, max_message_bytes: int, capabilities: Sequence[str]) -> Encoded:
    """Answer an attach: the same name, handle, modes, source and target, the other role."""
    receives = attach.client_receives
    return composite(
        Performative.ATTACH,
        [
            attach.name,
            uint(attach.handle),
            not receives,
            ubyte(attach.sender_settle_mode),
            ubyte(attach.receiver_settle_mode),
            attach.source_bytes,
            attach.target_bytes,
            None,
            None,
            uint(0) if receives else None,
            ulong(max_message_bytes),
            symbol_array(capabilities) if capabilities else None,
            None,
            None,
        ],
    )


def refuse_link(attach: Attach) -> Encoded:
    """Answer an attach that a detach will follow: no source and no target (AMQP 1.0 §2.6.3)."""
    first_count = uint(0) if attach.client_receives else None
    nothing: list[Encodable] = [None] * 6
    fields: list[Encodable] = [attach.name, uint(attach.handle), not attach.client_receives, *nothing]
    return composite(Performative.ATTACH, [*fields, first_count, None, None, None, None])


def detach_link(handle: int, error: Encoded | None = None) -> Encoded:
    """Close a link, or answer a detach."""
    return composite(Performative.DETACH, [uint(handle), True, error])


def flow(
    next_incoming_id: int,
    next_outgoing_id: int,
    handle: int,
    delivery_count: int,
    credit: int,
    *,
    drain: bool,
) -> Encoded:
    """Set the credit of a link."""
    session: list[Encodable] = [uint(next_incoming_id), uint(MAX_WINDOW), uint(next_outgoing_id)]
    link: list[Encodable] = [uint(handle), uint(delivery_count), uint(credit), uint(0), drain, False, None]
    return composite(Performative.FLOW, [*session, uint(MAX_WINDOW), *link])


def transfer_head(handle: int, delivery_id: int | None, tag: bytes, *, settled: bool, more: bool) -> bytes:
    """Begin a transfer; the payload follows. Only a delivery's first frame has a delivery id."""
    encoded_id = NULL if delivery_id is None else b"\x70" + delivery_id.to_bytes(4, "big")
    fields = b"".join(
        (
            uint(handle),
            encoded_id,
            encode(tag),
            b"\x43",
            TRUE if settled else FALSE,
            TRUE if more else FALSE,
            NULL * 5,
        )
    )
    return b"\x00\x53\x14\xc0" + bytes((len(fields) + 1, 11)) + fields


def disposition(delivery_id: int, state: Encoded, *, from_receiver: bool, settled: bool) -> Encoded:
    """Report the outcome of one delivery; unsettled, the client may send another one."""
    number = uint(delivery_id)
    return composite(Performative.DISPOSITION, [from_receiver, number, number, settled, state, False])


def modified(*, delivery_failed: bool, undeliverable_here: bool) -> Encoded:
    """Return the outcome of an abandoned or deferred message."""
    return composite(Performative.MODIFIED, [delivery_failed, undeliverable_here, None])


def rejected(error: Encoded) -> Encoded:
    """Return the outcome of a message or settlement that the broker refused."""
    return composite(Performative.REJECTED, [error])


def error(condition: str, text: str) -> Encoded:
    """Return an error with the three fields that the client indexes."""
    return composite(Performative.ERROR, [Symbol(condition), text, None])
