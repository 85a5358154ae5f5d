"""What can become of a request on its way to a service and back."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Protocol


class Place(StrEnum):
    """A service outside of a host."""

    #: Table Storage.
    TABLES = "tables"
    #: Service Bus: sends, and the settlement of what was delivered.
    BUS = "bus"
    #: Durable Functions: starts, events, and the ends of episodes and activities.
    DURABLE = "durable"
    #: Remote services and the alert webhook.
    REMOTE = "remote"


class Mishap(Enum):
    """A fault of one request."""

    #: It never arrives.
    NOT_SENT = "request not sent"
    #: It is carried out, but its sender does not hear of it.
    ANSWER_LOST = "answer lost"
    #: The service is busy and refuses it.
    BUSY = "service busy"
    #: The host crashes before it is sent.
    CRASH_BEFORE = "crash before"
    #: The host crashes when it was carried out.
    CRASH_AFTER = "crash after"


@dataclass(frozen=True, slots=True)
class Fate:
    """How long a request takes there and back, in seconds, and what goes wrong: a mishap of a kind."""

    there: float = 0.002
    back: float = 0.002
    mishap: Mishap | None = None
    kind: str | None = None


class Fates(Protocol):
    """Decides."""

    def of(self, host: str, place: Place, what: str) -> Fate:
        """Decide what becomes of a request."""


class NotSentFault(Exception):  # noqa: N818 - each service's client has an error of its own for it
    """A request that never arrived."""


class AnswerLostFault(Exception):  # noqa: N818 - as above
    """A request that was carried out, or not: its sender can't know."""


class BusyFault(Exception):  # noqa: N818 - as above
    """A service that refuses for now."""
