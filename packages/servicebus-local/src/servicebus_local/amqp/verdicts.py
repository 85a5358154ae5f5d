"""A receiver's verdict on a message: from the outcomes on the wire to those of a queue, and back as an echo.

The client compares the echo with what it sent; another one is an exception, none at all costs it a minute.
"""

from __future__ import annotations

from dataclasses import dataclass

from servicebus_local.broker.message import Outcome

from . import replies
from .performatives import Fields, Performative
from .values import Described, Encoded, Value

_INFO_FIELD = 2


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to become of a message, and what the client wants to hear when it has."""

    outcome: Outcome
    echo: Encoded
    reason: str | None = None
    description: str | None = None


def read_verdict(state: Described | None) -> Verdict:
    """Read a delivery state; what is no known outcome releases the message. Raises AmqpError."""
    code = state.descriptor if state else None
    if state is None or code == Performative.RELEASED:
        return Verdict(Outcome.RELEASE, replies.RELEASED)
    if code == Performative.ACCEPTED:
        return Verdict(Outcome.COMPLETE, replies.ACCEPTED)
    if code == Performative.REJECTED:
        return _dead_letter(state)
    if code == Performative.MODIFIED:
        return _modified(state)
    return Verdict(Outcome.RELEASE, replies.RELEASED)


def _dead_letter(state: Described) -> Verdict:
    error = Fields(state.fields()).described(0)
    info = Fields(error.fields()).value(_INFO_FIELD) if error else None
    texts = info if isinstance(info, dict) else {}
    return Verdict(
        Outcome.DEAD_LETTER,
        replies.REJECTED,
        reason=_text(texts.get("DeadLetterReason")),
        description=_text(texts.get("DeadLetterErrorDescription")),
    )


def _modified(state: Described) -> Verdict:
    fields = Fields(state.fields())
    failed, undeliverable_here = bool(fields.value(0)), bool(fields.value(1))
    outcome = Outcome.DEFER if undeliverable_here else Outcome.ABANDON
    return Verdict(outcome, replies.modified(delivery_failed=failed, undeliverable_here=undeliverable_here))


def _text(value: Value) -> str | None:
    return value if isinstance(value, str) else None
