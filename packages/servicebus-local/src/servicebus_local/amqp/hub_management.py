"""The node `$management` of event hubs: the properties of a hub and its partitions."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from servicebus_local.amqp.links import IncomingMessage, LinkChannel
from servicebus_local.amqp.performatives import Attach
from servicebus_local.amqp.request_links import RequestLink
from servicebus_local.amqp.requests import Request, answer_message
from servicebus_local.codec.encoding import int32, string_array, timestamp
from servicebus_local.codec.values import Encodable, Symbol
from servicebus_local.errors import ArgumentError, NotSupportedError, OperationError
from servicebus_local.hubs.hub import Hub
from servicebus_local.namespace import Namespace

_HUB, _PARTITION = "com.microsoft:eventhub", "com.microsoft:partition"


class HubManagementLink(RequestLink):
    """Answers requests to read the properties of a hub or of a partition."""

    def __init__(self, channel: LinkChannel, attach: Attach, namespace: Namespace) -> None:
        super().__init__(channel, attach)
        self._namespace = namespace

    def take(self, message: IncomingMessage) -> None:
        """Answer a request. Raises AmqpError for a message that is not a request."""
        request = Request.read(message.payload)
        self.accept(message)
        body: Encodable = None
        try:
            body = self._read(request)
            said = _status(HTTPStatus.OK, "OK")
        except OperationError as error:
            said = _status(error.status, str(error)) | {"error-condition": Symbol(error.condition)}
        self.send_answer(request.reply_to, answer_message(request, said, body))

    def _read(self, request: Request) -> Mapping[str, Encodable]:
        operation, kind = request.properties.get("operation"), request.properties.get("type")
        if operation != "READ":
            raise NotSupportedError(f"The operation {operation!r} is not supported by the local broker.")
        name = request.properties.get("name")
        hub = self._namespace.existing_hub(name if isinstance(name, str) else "")
        hub.check_busy()
        if kind == _HUB:
            return _hub_properties(hub)
        if kind == _PARTITION:
            return _partition_properties(hub, str(request.properties.get("partition")))
        raise ArgumentError(f"The type {kind!r} is not one that can be read.")


def _status(code: int, description: str) -> dict[str, Encodable]:
    return {"status-code": int32(code), "status-description": description}


def _hub_properties(hub: Hub) -> Mapping[str, Encodable]:
    return {
        "name": hub.name,
        "type": _HUB,
        "created_at": timestamp(min(partition.created_ms for partition in hub.partitions)),
        "partition_count": int32(len(hub.partitions)),
        "partition_ids": string_array([str(partition.number) for partition in hub.partitions]),
    }


def _partition_properties(hub: Hub, number: str) -> Mapping[str, Encodable]:
    partition = hub.partitions[hub.partition_number(number)]
    return {
        "name": hub.name,
        "type": _PARTITION,
        "partition": number,
        "begin_sequence_number": partition.begin,
        "last_enqueued_sequence_number": partition.last_number,
        "last_enqueued_offset": str(partition.last_offset),
        "last_enqueued_time_utc": timestamp(partition.last_enqueued_ms),
        "is_partition_empty": partition.is_empty,
    }
