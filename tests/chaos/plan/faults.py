"""The faults that a run injects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class InjectedFault(StrEnum):
    """All faults; a run in which one of them never happened proves nothing about it."""

    #: `kill -9` of the Functions host, which starts again after some seconds.
    HOST_KILLED = "host killed"
    #: The host is frozen for some seconds, as by a long garbage collection.
    HOST_PAUSED = "host paused"
    #: The host is stopped gently and started again, as in a deployment.
    HOST_RESTARTED = "host restarted"
    #: `kill -9` of the broker, which starts again after some seconds.
    BROKER_KILLED = "broker killed"
    #: The broker is frozen for some seconds.
    BROKER_PAUSED = "broker paused"
    #: Azurite is frozen for some seconds.
    AZURITE_PAUSED = "azurite paused"
    #: Azurite is stopped gently and started again; a kill would lose what it has not saved.
    AZURITE_RESTARTED = "azurite restarted"
    #: Connections to the tables are closed as soon as they are opened.
    TABLES_CUT = "table connections closed"
    #: Requests to the tables, and their responses, are held back.
    TABLES_HELD = "table connections held"
    #: Requests to the tables, and their responses, are delayed.
    TABLES_SLOW = "table connections slow"
    #: The tables carry out a request, and the response is lost.
    TABLE_ANSWERS_LOST = "table responses lost"
    #: The broker closes all connections.
    CONNECTIONS_DROPPED = "broker connections dropped"
    #: The broker detaches all links.
    LINKS_DETACHED = "broker links detached"
    #: Messages lose their locks while they are processed.
    LOCKS_EXPIRED = "message locks expired"
    #: The broker answers that it is busy.
    SERVER_BUSY = "broker busy"
    #: Completed messages are delivered a second time.
    DELIVERED_TWICE = "messages delivered twice"
    #: Messages are delivered late.
    DELIVERED_LATE = "messages delivered late"
    #: The broker acknowledges sends and settlements late.
    ACKNOWLEDGED_LATE = "messages acknowledged late"
    #: The payment service answers late, sometimes after complete-by.
    PAYMENT_SLOW = "payment slow"
    #: The payment service answers 503.
    PAYMENT_FAILING = "payment failing"
    #: The payment service answers 429 with `Retry-After`.
    PAYMENT_THROTTLED = "payment throttled"
    #: The payment service accepts the request and never answers.
    PAYMENT_HANGING = "payment hanging"
    #: The payment service makes the payment, and closes the connection instead of answering.
    PAYMENT_ANSWER_LOST = "payment answer lost"
    #: The payment service makes the payment, and its answer is not JSON.
    PAYMENT_MALFORMED = "payment malformed"
    #: The payment service refuses a payment, for good or until an operator has fixed it.
    PAYMENT_REFUSED = "payment refused"
    #: The payment service makes a payment only after it was undone.
    PAYMENT_AFTER_UNDO = "payment after undo"
    #: The payment service fails an undo, and a retry succeeds.
    UNDO_FAILING = "undo failing"
    #: The payment service refuses an undo for good.
    UNDO_REFUSED = "undo refused"
    #: A caller submits the same order a second time.
    SUBMITTED_TWICE = "order submitted twice"
    #: A caller cancels an order, by two requests at once.
    ORDER_CANCELLED = "order cancelled"
    #: A message that is no submission is sent to the submissions queue.
    POISON_MESSAGE = "poison message"
    #: Each host in turn is stopped and started with another version of the application.
    ROLLED_OUT = "version rolled out"
    #: One host is cut off from the tables, both ways or one, and the others are not.
    CUT_FROM_TABLES = "one host without tables"
    #: One host is cut off from the broker.
    CUT_FROM_BUS = "one host without broker"
    #: One host is cut off from the remote services.
    CUT_FROM_SERVICES = "one host without services"
    #: One host's clock is ahead of all others.
    CLOCK_AHEAD = "one clock ahead"
    #: One host's clock is behind all others.
    CLOCK_BEHIND = "one clock behind"
    #: One host's clock runs twice as fast as time.
    CLOCK_FAST = "one clock fast"
    #: One host's clock runs half as fast as time.
    CLOCK_SLOW = "one clock slow"


class FaultLane(StrEnum):
    """Faults of one lane follow each other; those of different lanes overlap."""

    #: Faults of the platform's parts, and of the connections to the tables.
    OUTAGES = "outages"
    #: Faults that the broker injects itself.
    BROKER = "broker"
    #: Faults of the payment service, towards all callers.
    PAYMENTS = "payments"
    #: One host cannot reach what the others reach.
    PARTITIONS = "partitions"
    #: One host's clock is wrong.
    CLOCKS = "clocks"


LANES: Mapping[FaultLane, tuple[InjectedFault, ...]] = {
    FaultLane.OUTAGES: (
        InjectedFault.HOST_KILLED,
        InjectedFault.HOST_PAUSED,
        InjectedFault.HOST_RESTARTED,
        InjectedFault.BROKER_KILLED,
        InjectedFault.BROKER_PAUSED,
        InjectedFault.AZURITE_PAUSED,
        InjectedFault.AZURITE_RESTARTED,
        InjectedFault.TABLES_CUT,
        InjectedFault.TABLES_HELD,
        InjectedFault.TABLES_SLOW,
        InjectedFault.TABLE_ANSWERS_LOST,
        InjectedFault.ROLLED_OUT,
    ),
    FaultLane.BROKER: (
        InjectedFault.CONNECTIONS_DROPPED,
        InjectedFault.LINKS_DETACHED,
        InjectedFault.LOCKS_EXPIRED,
        InjectedFault.SERVER_BUSY,
        InjectedFault.DELIVERED_TWICE,
        InjectedFault.DELIVERED_LATE,
        InjectedFault.ACKNOWLEDGED_LATE,
    ),
    FaultLane.PAYMENTS: (
        InjectedFault.PAYMENT_SLOW,
        InjectedFault.PAYMENT_FAILING,
        InjectedFault.PAYMENT_THROTTLED,
        InjectedFault.PAYMENT_HANGING,
        InjectedFault.PAYMENT_ANSWER_LOST,
    ),
    FaultLane.PARTITIONS: (
        InjectedFault.CUT_FROM_TABLES,
        InjectedFault.CUT_FROM_BUS,
        InjectedFault.CUT_FROM_SERVICES,
    ),
    FaultLane.CLOCKS: (
        InjectedFault.CLOCK_AHEAD,
        InjectedFault.CLOCK_BEHIND,
        InjectedFault.CLOCK_FAST,
        InjectedFault.CLOCK_SLOW,
    ),
}


@dataclass(frozen=True, slots=True)
class Injection:
    """One fault at its time, in seconds: it begins after a pause of `before`, and `lasts` so long.

    A host is disturbed alone, or together with all others (`everywhere`), so that nobody is left.
    """

    fault: InjectedFault
    before: float
    lasts: float
    everywhere: bool = False
