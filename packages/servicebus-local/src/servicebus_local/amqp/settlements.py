"""How a client settles a message: its outcome on the wire, the queue's settlement, and the answer.

The client compares the answer with its own outcome: a different answer raises an exception, and a missing
answer blocks the client for a minute.
"""

from __future__ import annotations

from dataclasses import dataclass

from servicebus_local.amqp import replies
from servicebus_local.amqp.performatives import Disposition, Fields, Performative, described_list
from servicebus_local.broker.message import Settlement, Verdict
from servicebus_local.codec.encoding import encode
from servicebus_local.codec.values import Described, Encoded, Value
from servicebus_local.content import property_pairs

_INFO_FIELD = _ANNOTATIONS_FIELD = 2
_REASON, _DESCRIPTION = "DeadLetterReason", "DeadLetterErrorDescription"


@dataclass(frozen=True, slots=True)
class SettlementRequest:
    """The client's settlement, and the outcome that it expects as the answer."""

    verdict: Verdict
    answer: Encoded


_COMPLETE = SettlementRequest(Verdict(Settlement.COMPLETE), replies.ACCEPTED)
_RELEASE = SettlementRequest(Verdict(Settlement.RELEASE), replies.RELEASED)


def read_settlement(disposition: Disposition) -> SettlementRequest:
    """Read the delivery state; an unknown outcome releases the message. Raises AmqpError."""
    state = disposition.state
    code = state.descriptor if state else None
    if code == Performative.ACCEPTED:
        return _COMPLETE
    if state is not None and code == Performative.REJECTED:
        return _dead_letter(state, disposition)
    if state is not None and code == Performative.MODIFIED:
        return _modified(state, disposition)
    return _RELEASE


def _dead_letter(state: Described, disposition: Disposition) -> SettlementRequest:
    error = Fields(state.fields()).described(0)
    info = Fields(error.fields()).value(_INFO_FIELD) if error else None
    texts = info if isinstance(info, dict) else {}
    properties = {}
    if texts.keys() - {_REASON, _DESCRIPTION}:
        properties = property_pairs(described_list(disposition.encoded_state()[0])[_INFO_FIELD])
        for name in (_REASON, _DESCRIPTION):
            properties.pop(encode(name), None)
    reason, description = _text(texts.get(_REASON)), _text(texts.get(_DESCRIPTION))
    verdict = Verdict(Settlement.DEAD_LETTER, reason, description, properties)
    return SettlementRequest(verdict, replies.REJECTED)


def _modified(state: Described, disposition: Disposition) -> SettlementRequest:
    fields = Fields(state.fields())
    failed, undeliverable_here = bool(fields.value(0)), bool(fields.value(1))
    properties = {}
    if fields.value(_ANNOTATIONS_FIELD):
        properties = property_pairs(disposition.encoded_state()[_ANNOTATIONS_FIELD])
    settlement = Settlement.DEFER if undeliverable_here else Settlement.ABANDON
    answer = replies.modified(delivery_failed=failed, undeliverable_here=undeliverable_here)
    return SettlementRequest(Verdict(settlement, properties=properties), answer)


def _text(value: Value) -> str | None:
    return value if isinstance(value, str) else None
