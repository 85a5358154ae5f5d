"""How a client settles a message: its outcome on the wire, the queue's settlement, and the answer.

The client compares the answer with what it sent: a different one raises an exception, and no answer at all
costs the client a minute.
"""

from __future__ import annotations

from dataclasses import dataclass

from servicebus_local.amqp import replies
from servicebus_local.amqp.performatives import Fields, Performative
from servicebus_local.broker.message import Settlement
from servicebus_local.codec.values import Described, Encoded, Value

_INFO_FIELD = 2


@dataclass(frozen=True, slots=True)
class SettlementRequest:
    """What the client asks for, and the outcome that it expects as the answer."""

    settlement: Settlement
    answer: Encoded
    reason: str | None = None
    description: str | None = None


def read_settlement(state: Described | None) -> SettlementRequest:
    """Read a delivery state; an unknown outcome releases the message. Raises AmqpError."""
    code = state.descriptor if state else None
    if state is None or code == Performative.RELEASED:
        return SettlementRequest(Settlement.RELEASE, replies.RELEASED)
    if code == Performative.ACCEPTED:
        return SettlementRequest(Settlement.COMPLETE, replies.ACCEPTED)
    if code == Performative.REJECTED:
        return _dead_letter(state)
    if code == Performative.MODIFIED:
        return _modified(state)
    return SettlementRequest(Settlement.RELEASE, replies.RELEASED)


def _dead_letter(state: Described) -> SettlementRequest:
    error = Fields(state.fields()).described(0)
    info = Fields(error.fields()).value(_INFO_FIELD) if error else None
    texts = info if isinstance(info, dict) else {}
    return SettlementRequest(
        Settlement.DEAD_LETTER,
        replies.REJECTED,
        reason=_text(texts.get("DeadLetterReason")),
        description=_text(texts.get("DeadLetterErrorDescription")),
    )


def _modified(state: Described) -> SettlementRequest:
    fields = Fields(state.fields())
    failed, undeliverable_here = bool(fields.value(0)), bool(fields.value(1))
    settlement = Settlement.DEFER if undeliverable_here else Settlement.ABANDON
    answer = replies.modified(delivery_failed=failed, undeliverable_here=undeliverable_here)
    return SettlementRequest(settlement, answer)


def _text(value: Value) -> str | None:
    return value if isinstance(value, str) else None
