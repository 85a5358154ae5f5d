"""Faults that tests and chaos runs ask for. They stay until they are used up or healed."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from servicebus_local.errors import ServerBusy


class FaultKind(StrEnum):
    """What can go wrong and stay wrong for a while."""

    #: Operations on a queue are answered with server-busy.
    SERVER_BUSY = "server-busy"
    #: Sends and settlements are carried out, but acknowledged late.
    DELAY_ACKNOWLEDGEMENTS = "delay-acknowledgements"
    #: Messages that become available are delivered late.
    DELAY_DELIVERIES = "delay-deliveries"
    #: A message comes again although its completion was acknowledged.
    DELIVER_TWICE = "deliver-twice"


@dataclass(slots=True)
class ActiveFault:
    """One fault on one queue."""

    kind: FaultKind
    queue: str
    delay_ms: int = 0
    #: How often it fires before it is used up; None: until it is healed.
    remaining: int | None = None
    fired: int = 0
    #: Ids of the messages that came twice already: nothing comes three times.
    repeated: set[int] = field(default_factory=set, repr=False)

    @property
    def used_up(self) -> bool:
        """Say whether it has fired as often as it was asked to."""
        return self.remaining == 0

    def fire(self) -> None:
        """Count one more."""
        self.fired += 1
        if self.remaining is not None:
            self.remaining -= 1


class FaultBoard:
    """The faults of a broker, at most one of a kind for each queue. Queue names are lower-case."""

    def __init__(self) -> None:
        self._faults: dict[tuple[FaultKind, str], ActiveFault] = {}

    def activate(self, fault: ActiveFault) -> None:
        """Let a fault happen from now on, in place of one of its kind on the same queue."""
        self._faults[fault.kind, fault.queue] = fault

    def heal(self) -> int:
        """End all faults, and return how many were still active."""
        active = len(self.active())
        self._faults.clear()
        return active

    def active(self) -> list[ActiveFault]:
        """Return the faults that can still fire."""
        return [fault for fault in self._faults.values() if not fault.used_up]

    def known(self) -> list[ActiveFault]:
        """Return all faults since the last healing, those that are used up too."""
        return list(self._faults.values())

    def check_busy(self, queue: str) -> None:
        """Raise ServerBusy if an operation on this queue is to be refused."""
        if self._fire(FaultKind.SERVER_BUSY, queue):
            raise ServerBusy

    def acknowledgement_delay_ms(self, queue: str) -> int:
        """Return how late an acknowledgement is to be; 0 for at once."""
        fault = self._fire(FaultKind.DELAY_ACKNOWLEDGEMENTS, queue)
        return fault.delay_ms if fault else 0

    def delivery_delay_ms(self, queue: str) -> int:
        """Return how late an available message is to be delivered; 0 for at once."""
        fault = self._fire(FaultKind.DELAY_DELIVERIES, queue)
        return fault.delay_ms if fault else 0

    def repeats(self, queue: str, message_id: int) -> bool:
        """Say whether a message that was just completed is to come again."""
        fault = self._faults.get((FaultKind.DELIVER_TWICE, queue)) if self._faults else None
        if fault is None or fault.used_up or message_id in fault.repeated:
            return False
        fault.fire()
        fault.repeated.add(message_id)
        return True

    def _fire(self, kind: FaultKind, queue: str) -> ActiveFault | None:
        fault = self._faults.get((kind, queue)) if self._faults else None
        if fault is None or fault.used_up:
            return None
        fault.fire()
        return fault
