"""What the payment service was asked and what it did: evidence that the application cannot influence."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum


class CallDirection(StrEnum):
    """What a call requests."""

    #: Make the payment.
    DO = "do"
    #: Undo it, whether or not it was made.
    UNDO = "undo"


class Effect(StrEnum):
    """What a call has changed."""

    #: Nothing: it failed before that, or has not been carried out yet.
    NONE = "none"
    #: The payment was made, or undone, by this call.
    PERFORMED = "performed"
    #: Nothing: it had been carried out under the same key before.
    REPEATED = "repeated"
    #: Nothing: it came after the undo, and was refused.
    TOMBSTONED = "tombstoned"


@dataclass(slots=True)
class PaymentCall:
    """One request, recorded on arrival; its effect is recorded when it is carried out. Times are UTC."""

    order: str
    key: str
    direction: CallDirection
    arrived: datetime
    effect: Effect = Effect.NONE
    carried_out: datetime | None = None


class Ledger:
    """Keeps all calls. An effect is identified by its idempotency key: the same key twice is one effect."""

    def __init__(self) -> None:
        self._calls: list[PaymentCall] = []
        self._keys: set[str] = set()
        self._undone: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    @property
    def calls(self) -> Sequence[PaymentCall]:
        """All calls, in the order in which they arrived."""
        return self._calls

    def arrive(self, order: str, key: str, direction: CallDirection) -> PaymentCall:
        """Record a call that arrives now."""
        call = PaymentCall(order, key, direction, datetime.now(UTC))
        self._calls.append(call)
        return call

    def carry_out(self, call: PaymentCall) -> Effect:
        """Make the payment, or undo it and leave a tombstone; return the effect."""
        call.effect = self._effect_of(call)
        call.carried_out = datetime.now(UTC)
        self._keys.add(call.key)
        if call.direction is CallDirection.UNDO:
            self._undone[call.order].set()
        return call.effect

    async def until_undone(self, order: str) -> None:
        """Wait until the order's payment was undone, made or not."""
        await self._undone[order].wait()

    def _effect_of(self, call: PaymentCall) -> Effect:
        if call.direction is CallDirection.DO and self._undone[call.order].is_set():
            return Effect.TOMBSTONED
        return Effect.REPEATED if call.key in self._keys else Effect.PERFORMED
