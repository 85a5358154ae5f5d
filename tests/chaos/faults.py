"""What can be made to go wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class FaultKind(StrEnum):
    """The kinds of faults; a run in which one of them never happened proves nothing about it."""

    #: `kill -9` of the Functions host, which is started again after a while.
    HOST_KILLED = "host killed"
    #: The host stands still, as in a long collection of garbage, and goes on.
    HOST_PAUSED = "host paused"
    #: The host is stopped gently and started again, as at a deployment.
    HOST_RESTARTED = "host restarted"
    #: `kill -9` of the broker, which is started again after a while.
    BROKER_KILLED = "broker killed"
    #: The broker stands still and goes on.
    BROKER_PAUSED = "broker paused"
    #: Azurite stands still and goes on.
    AZURITE_PAUSED = "azurite paused"
    #: Azurite is stopped gently and started again; it would lose what it has not saved if it were killed.
    AZURITE_RESTARTED = "azurite restarted"
    #: Connections to the tables are cut, again and again.
    TABLES_CUT = "table connections cut"
    #: What is sent to the tables, and their answers, are held back.
    TABLES_HELD = "table connections held"
    #: Everything between host and tables takes longer.
    TABLES_SLOW = "table connections slow"
    #: The tables do what they are asked to, and their answer is lost.
    TABLE_ANSWERS_LOST = "table answers lost"
    #: All connections to the broker are cut.
    CONNECTIONS_DROPPED = "broker connections dropped"
    #: The broker detaches all links.
    LINKS_DETACHED = "broker links detached"
    #: Messages lose their locks while they are worked on.
    LOCKS_EXPIRED = "message locks expired"
    #: The broker answers that it is busy.
    SERVER_BUSY = "broker busy"
    #: Completed messages are delivered a second time.
    DELIVERED_TWICE = "messages delivered twice"
    #: Messages are delivered late.
    DELIVERED_LATE = "messages delivered late"
    #: The broker acknowledges sends and settlements late.
    ACKNOWLEDGED_LATE = "messages acknowledged late"
    #: The payment service answers late, some of the time after complete-by.
    PAYMENT_SLOW = "payment slow"
    #: The payment service answers 503.
    PAYMENT_FAILING = "payment failing"
    #: The payment service answers 429 with `Retry-After`.
    PAYMENT_THROTTLED = "payment throttled"
    #: The payment service takes the request and never answers.
    PAYMENT_HANGING = "payment hanging"
    #: The payment service does it, and cuts the connection instead of saying so.
    PAYMENT_FORGETFUL = "payment forgetful"
    #: The payment service does it, and answers what is not JSON.
    PAYMENT_MALFORMED = "payment malformed"
    #: The payment service refuses a payment, for good or until it is mended.
    PAYMENT_REFUSED = "payment refused"
    #: The payment service does a payment only after it was undone.
    PAYMENT_BELATED = "payment after undo"
    #: The payment service fails an undo, in a way that passes.
    UNDO_FAILING = "undo failing"
    #: The payment service refuses an undo for good.
    UNDO_REFUSED = "undo refused"
    #: A caller submits the same order a second time.
    SUBMITTED_TWICE = "order submitted twice"
    #: A message that nobody can understand is put on the submissions queue.
    POISON_MESSAGE = "poison message"


class Lane(StrEnum):
    """Faults of one lane happen one after the other; those of different lanes overlap."""

    #: Parts of the platform, and the way to the tables.
    OUTAGES = "outages"
    #: The broker's own faults.
    BROKER = "broker"
    #: The payment service, towards everybody.
    PAYMENTS = "payments"


LANES: Mapping[Lane, tuple[FaultKind, ...]] = {
    Lane.OUTAGES: (
        FaultKind.HOST_KILLED,
        FaultKind.HOST_PAUSED,
        FaultKind.HOST_RESTARTED,
        FaultKind.BROKER_KILLED,
        FaultKind.BROKER_PAUSED,
        FaultKind.AZURITE_PAUSED,
        FaultKind.AZURITE_RESTARTED,
        FaultKind.TABLES_CUT,
        FaultKind.TABLES_HELD,
        FaultKind.TABLES_SLOW,
        FaultKind.TABLE_ANSWERS_LOST,
    ),
    Lane.BROKER: (
        FaultKind.CONNECTIONS_DROPPED,
        FaultKind.LINKS_DETACHED,
        FaultKind.LOCKS_EXPIRED,
        FaultKind.SERVER_BUSY,
        FaultKind.DELIVERED_TWICE,
        FaultKind.DELIVERED_LATE,
        FaultKind.ACKNOWLEDGED_LATE,
    ),
    Lane.PAYMENTS: (
        FaultKind.PAYMENT_SLOW,
        FaultKind.PAYMENT_FAILING,
        FaultKind.PAYMENT_THROTTLED,
        FaultKind.PAYMENT_HANGING,
        FaultKind.PAYMENT_FORGETFUL,
    ),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: so many seconds of quiet `before`, then it `lasts` so many seconds."""

    kind: FaultKind
    before: float
    lasts: float
