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
    """Detach the links of a queue or hub, or of all, now, with `amqp:link:detach-forced`."""

    kind: Literal["detach-links"]
    queue: str | None = None


class ExpireLocks(_Fault):
    """End all locks of a queue and its dead letters now, as if they had expired."""

    kind: Literal["expire-locks"]
    queue: str


class ExpireEvents(_Fault):
    """Drop all events of a hub, or of one partition, now, as if their retention had passed."""

    kind: Literal["expire-events"]
    hub: str
    partition: int | None = Field(default=None, ge=0)


class StealPartition(_Fault):
    """Detach the readers of a partition now, as if another reader had connected with their epoch."""

    kind: Literal["steal-partition"]
    hub: str
    partition: int = Field(ge=0)
    consumer_group: str = "$Default"


class CountedFault(_Fault):
    """Inject a fault a number of times. Only `server-busy` applies to a hub."""

    kind: Literal[QueueFaultKind.SERVER_BUSY, QueueFaultKind.DELIVER_TWICE]
    queue: str
    count: int = Field(ge=1, le=_MAX_COUNT)

    def active(self, key: str) -> ActiveFault:
        """Return the fault for the fault board."""
        return ActiveFault(self.kind, key, remaining=self.count)


class DelayFault(_Fault):
    """Delay a queue's operations until the fault is removed."""

    kind: Literal[QueueFaultKind.DELAY_ACKNOWLEDGEMENTS, QueueFaultKind.DELAY_DELIVERIES]
    queue: str
    milliseconds: int = Field(ge=1, le=_MAX_DELAY_MS)

    def active(self, key: str) -> ActiveFault:
        """Return the fault for the fault board."""
        return ActiveFault(self.kind, key, delay_ms=self.milliseconds)


type FaultRequest = Annotated[
    DropConnections | DetachLinks | ExpireLocks | ExpireEvents | StealPartition | CountedFault | DelayFault,
    Field(discriminator="kind"),
]

FAULT_REQUEST: TypeAdapter[FaultRequest] = TypeAdapter(FaultRequest)
