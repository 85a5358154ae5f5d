"""What the remote services were asked and what they did: evidence that the application cannot influence."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from tests.chaos.app.sending import Sending


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
class ServiceCall:
    """One request, recorded on arrival; its effect is recorded when it is carried out. Times are UTC."""

    order: str
    key: str
    direction: CallDirection
    sending: Sending
    arrived: datetime
    effect: Effect = Effect.NONE
    carried_out: datetime | None = None

    @property
    def is_undo(self) -> bool:
        """Whether it undoes."""
        return self.direction is CallDirection.UNDO

    @property
    def step(self) -> str:
        """The step that it is for, as its key says; empty of what is no key."""
        return self.key.partition("/")[2].partition("/")[0]


class Ledger:
    """Keeps all calls. An effect is identified by its idempotency key: the same key twice is one effect.

    The services of steps that are to be `sent_once` know no keys: each call is carried out.
    """

    def __init__(self, sent_once: Collection[str] = ()) -> None:
        self._sent_once = sent_once
        self._calls: list[ServiceCall] = []
        self._keys: set[str] = set()
        self._undone: defaultdict[tuple[str, str], asyncio.Event] = defaultdict(asyncio.Event)

    @property
    def calls(self) -> Sequence[ServiceCall]:
        """All calls, in the order in which they arrived."""
        return self._calls

    def arrive(self, order: str, key: str, direction: CallDirection, sending: Sending) -> ServiceCall:
        """Record a call that arrives now."""
        call = ServiceCall(order, key, direction, sending, datetime.now(UTC))
        self._calls.append(call)
        return call

    def carry_out(self, call: ServiceCall) -> Effect:
        """Do what is asked, or undo it and leave a tombstone; return the effect."""
        call.effect = self._effect_of(call)
        call.carried_out = datetime.now(UTC)
        self._keys.add(call.key)
        if call.direction is CallDirection.UNDO:
            self._undone[call.order, call.step].set()
        return call.effect

    async def until_undone(self, call: ServiceCall) -> None:
        """Wait until what the call asks for was undone, done or not."""
        await self._undone[call.order, call.step].wait()

    def _effect_of(self, call: ServiceCall) -> Effect:
        if call.direction is CallDirection.DO and self._undone[call.order, call.step].is_set():
            return Effect.TOMBSTONED
        knows_keys = call.is_undo or call.step.partition(".")[0] not in self._sent_once
        return Effect.REPEATED if knows_keys and call.key in self._keys else Effect.PERFORMED
