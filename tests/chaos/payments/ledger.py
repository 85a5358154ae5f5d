"""What the payment service was asked and what it did: the evidence that the application can't colour."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum


class Direction(StrEnum):
    """What a call asks for."""

    #: Make the payment.
    DO = "do"
    #: Undo it, whether or not it was made.
    UNDO = "undo"


class Effect(StrEnum):
    """What a call brought about."""

    #: Nothing: it was failed before, or has not been carried out yet.
    NONE = "none"
    #: The payment was made, or undone, by this call.
    PERFORMED = "performed"
    #: It had been done under the same key before.
    REPEATED = "repeated"
    #: It came after the undo, and was refused.
    TOMBSTONED = "tombstoned"


@dataclass(slots=True)
class Call:
    """One request, noted when it arrives; its effect is noted when it is carried out. Times are UTC."""

    order: str
    key: str
    direction: Direction
    arrived: datetime
    effect: Effect = Effect.NONE
    carried_out: datetime | None = None


class Ledger:
    """Keeps all calls. An effect is known by its idempotency key: the same key twice is one effect."""

    def __init__(self) -> None:
        self._calls: list[Call] = []
        self._keys: set[str] = set()
        self._undone: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    @property
    def calls(self) -> Sequence[Call]:
        """All calls, in the order in which they arrived."""
        return self._calls

    def arrive(self, order: str, key: str, direction: Direction) -> Call:
        """Note a call that arrives now."""
        call = Call(order, key, direction, datetime.now(UTC))
        self._calls.append(call)
        return call

    def carry_out(self, call: Call) -> Effect:
        """Make the payment, or undo it and leave a tombstone."""
        call.effect = self._effect_of(call)
        call.carried_out = datetime.now(UTC)
        self._keys.add(call.key)
        if call.direction is Direction.UNDO:
            self._undone[call.order].set()
        return call.effect

    async def until_undone(self, order: str) -> None:
        """Wait until the order's payment was undone, be it before it was made."""
        await self._undone[order].wait()

    def _effect_of(self, call: Call) -> Effect:
        if call.direction is Direction.DO and self._undone[call.order].is_set():
            return Effect.TOMBSTONED
        return Effect.REPEATED if call.key in self._keys else Effect.PERFORMED
