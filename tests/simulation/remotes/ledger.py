"""What the remote services were asked, and what they did: evidence that the application cannot influence."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from tests.simulation.world.world import START


class CallEffect(StrEnum):
    """What a call has changed."""

    #: Nothing: it was refused, or has failed before.
    NONE = "none"
    #: It was done, or undone, by this call.
    PERFORMED = "performed"
    #: Nothing: it had been done under the same key before.
    REPEATED = "repeated"
    #: Nothing: it came after the undo, and was refused.
    TOMBSTONED = "tombstoned"


@dataclass(slots=True)
class RemoteCall:
    """One call: its idempotency `key`, its `body`. Times are virtual, but `sent_at` is its sender's."""

    agent: str
    key: str
    arrived: float
    sent_at: datetime = START
    body: bytes = b""
    #: Seconds that the service takes for it.
    takes: float = 0.0
    effect: CallEffect = CallEffect.NONE
    carried_out: float | None = None
    #: It has arrived, and may still be carried out; perhaps when its caller has long gone.
    is_open: bool = True
    is_late: bool = False

    @property
    def is_undo(self) -> bool:
        """Tell whether it undoes."""
        return self.key.endswith("/undo")

    @property
    def step(self) -> str:
        """Name the task's birth and step: what the do and the undo have in common."""
        return self.key.rpartition("/")[0]

    @property
    def task(self) -> str:
        """Name the task."""
        return self.key.partition(".")[0]

    @property
    def step_name(self) -> str:
        """Name the step as its workflow does, without an item's number."""
        return self.step.rpartition("/")[2].partition(".")[0]


@dataclass(slots=True)
class RemoteLedger:
    """All calls, and what each service keeps: the same key twice is one effect, an undo leaves a tombstone.

    The services of `plain` steps know no keys: each call that arrives is carried out.
    """

    calls: list[RemoteCall] = field(default_factory=list)
    plain: set[str] = field(default_factory=set)
    done: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    undone: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    #: What was answered to calls that do something.
    answers: dict[str, set[bytes]] = field(default_factory=lambda: defaultdict(set))
    #: What was done last, and not undone.
    stands: set[str] = field(default_factory=set)

    def carry_out(self, call: RemoteCall, now: float) -> CallEffect:
        """Do it, or undo it; give the effect."""
        call.carried_out = now
        call.effect = self._effect(call)
        if call.effect is CallEffect.PERFORMED or (call.is_undo and not self.undone[call.step]):
            (self.undone if call.is_undo else self.done)[call.step] += 1
            (self.stands.discard if call.is_undo else self.stands.add)(call.step)
        return call.effect

    def _effect(self, call: RemoteCall) -> CallEffect:
        if call.is_undo:
            return CallEffect.REPEATED if self.undone[call.step] else CallEffect.PERFORMED
        if self.undone[call.step]:
            return CallEffect.TOMBSTONED
        is_plain = call.step_name in self.plain
        return CallEffect.REPEATED if self.done[call.step] and not is_plain else CallEffect.PERFORMED
