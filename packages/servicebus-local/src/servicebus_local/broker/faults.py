"""Faults that tests and chaos runs inject. They are active until they are used up or removed."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from servicebus_local.errors import ServerBusyError


class QueueFaultKind(StrEnum):
    """Faults that last: until they fired a number of times, or until they are removed."""

    SERVER_BUSY = "server-busy"
    #: Sends and settlements are carried out, but acknowledged late.
    DELAY_ACKNOWLEDGEMENTS = "delay-acknowledgements"
    DELAY_DELIVERIES = "delay-deliveries"
    #: A message is delivered again although its completion was acknowledged.
    DELIVER_TWICE = "deliver-twice"


@dataclass(slots=True)
class ActiveFault:
    """One fault on one queue."""

    kind: QueueFaultKind
    queue: str
    delay_ms: int = 0
    #: Remaining number of times that it fires; None: until it is removed.
    remaining: int | None = None
    fired: int = 0
    #: Ids of the messages that were delivered twice already: none is delivered three times.
    repeated: set[int] = field(default_factory=set, repr=False)

    @property
    def used_up(self) -> bool:
        """Return whether it has fired as often as requested."""
        return self.remaining == 0

    def fire(self) -> None:
        """Count one use of the fault."""
        self.fired += 1
        if self.remaining is not None:
            self.remaining -= 1


class FaultBoard:
    """The faults of a broker, at most one of a kind for each queue. Queue names are lower-case."""

    def __init__(self) -> None:
        self._faults: dict[tuple[QueueFaultKind, str], ActiveFault] = {}

    def activate(self, fault: ActiveFault) -> None:
        """Activate a fault; it replaces one of its kind on the same queue."""
        self._faults[fault.kind, fault.queue] = fault

    def clear(self) -> int:
        """Remove all faults, and return how many were still active."""
        active = sum(not fault.used_up for fault in self._faults.values())
        self._faults.clear()
        return active

    def known(self) -> list[ActiveFault]:
        """Return all faults that were not removed, including those that are used up."""
        return list(self._faults.values())

    def check_busy(self, queue: str) -> None:
        """Raise ServerBusyError if a fault refuses an operation on this queue."""
        if self._fire(QueueFaultKind.SERVER_BUSY, queue):
            raise ServerBusyError

    def delay_ms(self, kind: QueueFaultKind, queue: str) -> int:
        """Return the delay of an operation in milliseconds; 0 for none."""
        fault = self._fire(kind, queue)
        return fault.delay_ms if fault else 0

    def repeats(self, queue: str, message_id: int) -> bool:
        """Return whether a message that was just completed is delivered again."""
        fault = self._faults.get((QueueFaultKind.DELIVER_TWICE, queue)) if self._faults else None
        if fault is None or fault.used_up or message_id in fault.repeated:
            return False
        fault.fire()
        fault.repeated.add(message_id)
        return True

    def _fire(self, kind: QueueFaultKind, queue: str) -> ActiveFault | None:
        fault = self._faults.get((kind, queue)) if self._faults else None
        if fault is None or fault.used_up:
            return None
        fault.fire()
        return fault
