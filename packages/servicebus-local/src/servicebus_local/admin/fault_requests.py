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


class CountedFault(_Fault):
    """Let a fault happen a number of times."""

    kind: Literal[QueueFaultKind.SERVER_BUSY, QueueFaultKind.DELIVER_TWICE]
    queue: str
    count: int = Field(ge=1, le=_MAX_COUNT)

    def active(self, queue_key: str) -> ActiveFault:
        """Return the fault for the fault board."""
        return ActiveFault(self.kind, queue_key, remaining=self.count)


class DelayFault(_Fault):
    """Delay what happens on a queue until the fault is removed."""

    kind: Literal[QueueFaultKind.DELAY_ACKNOWLEDGEMENTS, QueueFaultKind.DELAY_DELIVERIES]
    queue: str
    milliseconds: int = Field(ge=1, le=_MAX_DELAY_MS)

    def active(self, queue_key: str) -> ActiveFault:
        """Return the fault for the fault board."""
        return ActiveFault(self.kind, queue_key, delay_ms=self.milliseconds)


type FaultRequest = Annotated[
    DropConnections | DetachLinks | ExpireLocks | CountedFault | DelayFault, Field(discriminator="kind")
]

FAULT_REQUEST: TypeAdapter[FaultRequest] = TypeAdapter(FaultRequest)
