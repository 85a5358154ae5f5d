"""Bodies of `POST /faults`, distinguished by their `kind`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from servicebus_local.broker.faults import ActiveFault, QueueFaultKind

_MAX_DELAY_MS = 60_000
_MAX_COUNT = 100_000


class _Fault(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DropConnections(_Fault):
    """Cut all connections now, without notice."""

    kind: Literal["drop-connections"]


class DetachLinks(_Fault):
    """Detach the links of a queue, or of all queues, now, with `amqp:link:detach-forced`."""

    kind: Literal["detach-links"]
    queue: str | None = None


class ExpireLocks(_Fault):
    """End all locks of a queue and its dead letters now, as if they had expired."""

    kind: Literal["expire-locks"]
    queue: str


class _CountedFault(_Fault):
    queue: str
    count: int = Field(ge=1, le=_MAX_COUNT)


class _DelayFault(_Fault):
    queue: str
    milliseconds: int = Field(ge=1, le=_MAX_DELAY_MS)


class AnswerBusy(_CountedFault):
    """Refuse the next attaches, sends, settlements and requests with `com.microsoft:server-busy`."""

    kind: Literal["server-busy"]

    def active(self, queue_key: str) -> ActiveFault:
        """Return the fault for the fault board."""
        return ActiveFault(QueueFaultKind.SERVER_BUSY, queue_key, remaining=self.count)


class DeliverTwice(_CountedFault):
    """Deliver the next messages again although their completion was acknowledged."""

    kind: Literal["deliver-twice"]

    def active(self, queue_key: str) -> ActiveFault:
        """Return the fault for the fault board."""
        return ActiveFault(QueueFaultKind.DELIVER_TWICE, queue_key, remaining=self.count)


class DelayAcknowledgements(_DelayFault):
    """Acknowledge sends and settlements late; they are committed at once."""

    kind: Literal["delay-acknowledgements"]

    def active(self, queue_key: str) -> ActiveFault:
        """Return the fault for the fault board."""
        return ActiveFault(QueueFaultKind.DELAY_ACKNOWLEDGEMENTS, queue_key, delay_ms=self.milliseconds)


class DelayDeliveries(_DelayFault):
    """Deliver messages late."""

    kind: Literal["delay-deliveries"]

    def active(self, queue_key: str) -> ActiveFault:
        """Return the fault for the fault board."""
        return ActiveFault(QueueFaultKind.DELAY_DELIVERIES, queue_key, delay_ms=self.milliseconds)


type FaultRequest = Annotated[
    DropConnections
    | DetachLinks
    | ExpireLocks
    | AnswerBusy
    | DeliverTwice
    | DelayAcknowledgements
    | DelayDeliveries,
    Field(discriminator="kind"),
]

FAULT_REQUEST: TypeAdapter[FaultRequest] = TypeAdapter(FaultRequest)
