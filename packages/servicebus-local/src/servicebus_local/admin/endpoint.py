"""HTTP on this machine only: `/health`, `/queues`, `/hubs` and `/faults`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Annotated, Literal, assert_never

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from servicebus_local.amqp.service import Service
from servicebus_local.broker.faults import ActiveFault, FaultBoard, QueueFaultKind
from servicebus_local.broker.message import MessageState
from servicebus_local.broker.queue import Queue
from servicebus_local.broker.timers import now_ms
from servicebus_local.errors import OperationError
from servicebus_local.hubs.hub import Hub
from servicebus_local.hubs.partition import Partition

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


_COUNTERS = ("sent", "completed", "abandoned", "expired", "locks_expired", "duplicates_dropped", "receivers")
_LOCAL_HOSTS = frozenset({"127.0.0.1", "localhost"})


class AdminEndpoint:
    """Handlers of the admin endpoint."""

    def __init__(self, service: Service, faults: FaultBoard) -> None:
        self._service = service
        self._faults = faults

    def application(self) -> web.Application:
        """Return the web application."""
        application = web.Application(middlewares=[_guard])
        application.add_routes(
            [
                web.get("/health", self._health),
                web.get("/queues", self._queues),
                web.get("/hubs", self._hubs),
                web.post("/queues/{queue:.+}/purge", self._purge),
                web.get("/faults", self._list_faults),
                web.post("/faults", self._inject),
                web.delete("/faults", self._clear_faults),
            ]
        )
        return application

    async def _health(self, _request: web.Request) -> web.Response:
        return web.json_response({"status": "ok", "connections": len(self._service.connections)})

    async def _queues(self, _request: web.Request) -> web.Response:
        return web.json_response([_queue_figures(queue) for queue in self._service.namespace.queues])

    async def _hubs(self, _request: web.Request) -> web.Response:
        return web.json_response([_hub_figures(hub) for hub in self._service.namespace.hubs])

    async def _purge(self, request: web.Request) -> web.Response:
        queue = self._service.namespace.existing(request.match_info["queue"])
        return web.json_response(
            {"deleted": queue.purge(), "dead_letters_deleted": queue.dead_letters.purge()}
        )

    async def _list_faults(self, _request: web.Request) -> web.Response:
        return web.json_response([_fault_figures(fault) for fault in self._faults.known()])

    async def _inject(self, request: web.Request) -> web.Response:
        fault = FAULT_REQUEST.validate_json(await request.read())
        return web.json_response({"kind": fault.kind, "fired": self._apply(fault)}, status=HTTPStatus.CREATED)

    async def _clear_faults(self, _request: web.Request) -> web.Response:
        return web.json_response({"healed": self._faults.clear()})

    def _apply(self, fault: FaultRequest) -> int:
        """Inject a fault, and return how often it fired at once. Raises OperationError."""
        namespace, fired = self._service.namespace, 0
        match fault:
            case DropConnections():
                fired = self._service.drop_connections()
            case DetachLinks(queue=name):
                fired = self._service.detach_links(None if name is None else namespace.node(name))
            case ExpireLocks(queue=name):
                queue = namespace.existing(name)
                fired = queue.locks.expire_all() + queue.dead_letters.locks.expire_all()
            case ExpireEvents(hub=name, partition=number):
                fired = namespace.existing_hub(name).expire(number)
            case StealPartition(hub=name, partition=number, consumer_group=group):
                fired = namespace.existing_hub(name).steal(group, number)
            case CountedFault(kind=QueueFaultKind.SERVER_BUSY):
                self._faults.activate(fault.active(namespace.node(fault.queue).key))
            case CountedFault() | DelayFault():
                self._faults.activate(fault.active(namespace.existing(fault.queue).key))
            case _:
                assert_never(fault)
        return fired


def _queue_figures(queue: Queue) -> dict[str, object]:
    """Return a queue's messages by state, its receivers, and the counters since the broker started.

    Active messages include locked ones; the age is that of the oldest active message, in seconds.
    """
    messages = queue.messages.values()
    states = Counter(message.state for message in messages)
    active_since = [message.enqueued_ms for message in messages if message.state is MessageState.ACTIVE]
    figures: dict[str, object] = {
        "name": queue.name,
        "active": states[MessageState.ACTIVE],
        "deferred": states[MessageState.DEFERRED],
        "scheduled": states[MessageState.SCHEDULED],
        "dead_lettered": len(queue.dead_letters.messages),
        "locked": len(queue.locks),
        "oldest_age_seconds": (now_ms() - min(active_since)) / 1000 if active_since else None,
    }
    return figures | {name: queue.counters[name] for name in _COUNTERS}


def _hub_figures(hub: Hub) -> dict[str, object]:
    """Return a hub's partitions with sizes and readers, and its counters since the broker started."""
    partitions = [_partition_figures(hub, partition) for partition in hub.partitions]
    return {
        "name": hub.name,
        "partitions": partitions,
        **{name: hub.counters[name] for name in ("received", "expired")},
    }


def _partition_figures(hub: Hub, partition: Partition) -> dict[str, object]:
    return {
        "partition": str(partition.number),
        "begin_sequence_number": partition.begin,
        "last_sequence_number": partition.last_number,
        "last_offset": str(partition.last_offset),
        "bytes": partition.kept_bytes,
        "readers": [
            {"consumer_group": group, "epoch": reader.epoch}
            for (group, number), readers in hub.readers.items()
            for reader in readers
            if number == partition.number
        ],
    }


def _fault_figures(fault: ActiveFault) -> dict[str, object]:
    return {
        "kind": fault.kind,
        "queue": fault.queue,
        "delay_ms": fault.delay_ms or None,
        "remaining": fault.remaining,
        "fired": fault.fired,
        "active": not fault.used_up,
    }


@web.middleware
async def _guard(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Return errors as JSON, and refuse web pages, also those whose host name resolves to 127.0.0.1."""
    if request.url.host not in _LOCAL_HOSTS or "Origin" in request.headers:
        return _error(HTTPStatus.FORBIDDEN, "only programs on this machine, by 127.0.0.1 or localhost")
    try:
        return await handler(request)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False, include_input=False)
        return _error(HTTPStatus.UNPROCESSABLE_ENTITY, "the fault is not valid", details)
    except OperationError as error:
        return _error(HTTPStatus.NOT_FOUND, str(error))


def _error(status: HTTPStatus, text: str, details: object = None) -> web.Response:
    body = {"error": text} if details is None else {"error": text, "details": details}
    return web.json_response(body, status=status)
