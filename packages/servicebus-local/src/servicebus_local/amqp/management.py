"""The operations of `$management`: renew, peek, schedule, receive deferred messages, settle by lock token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import cast

from servicebus_local.amqp.links import check_size
from servicebus_local.amqp.requests import Request
from servicebus_local.amqp.wire_message import wire_message
from servicebus_local.broker.entity import Entity
from servicebus_local.broker.message import Settlement, StoredMessage, Verdict
from servicebus_local.codec.decoding import decode, split_map
from servicebus_local.codec.encoding import int32, long_array, timestamp_array
from servicebus_local.codec.values import Encodable, Scalar, Symbol, Value
from servicebus_local.content import Content, parse_content, property_pairs
from servicebus_local.errors import ArgumentError, NotSupportedError, OperationError

_VENDOR = "com.microsoft:"
_RECEIVE_AND_DELETE = 0
#: Maximum size of the answer to a peek: it has fewer messages if they are larger together.
_MAX_PEEK_BYTES = 1 << 20
#: `defered` is spelt as the service spells it.
_SETTLEMENTS = {
    "completed": Settlement.COMPLETE,
    "abandoned": Settlement.ABANDON,
    "defered": Settlement.DEFER,
    "suspended": Settlement.DEAD_LETTER,
}


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, its text, and the result."""

    status: int
    description: str
    body: Encodable = None
    #: Deleted messages, which are lost unless the client receives the answer.
    deleted: list[StoredMessage] = field(default_factory=list)
    #: Error condition, if it was refused.
    condition: Symbol | None = None

    @classmethod
    def refusal(cls, error: OperationError) -> Answer:
        """Return the answer to a refused request."""
        return cls(error.status, str(error), condition=Symbol(error.condition))

    def properties(self) -> dict[str, Encodable]:
        """Return the properties of the message that answers."""
        said: dict[str, Encodable] = {"statusCode": int32(self.status), "statusDescription": self.description}
        return said | {"errorCondition": self.condition} if self.condition else said


def perform(entity: Entity, request: Request) -> Answer:
    """Carry out a request. Raises OperationError, and AmqpError for a malformed message in it."""
    operation = request.properties.get("operation")
    handler = _OPERATIONS.get(operation) if isinstance(operation, str) else None
    if handler is None:
        raise NotSupportedError(f"The operation {operation!r} is not supported by the local broker.")
    return handler(entity, _Arguments(request))


class _Arguments:
    """Typed reading of a request's map. Each method raises ArgumentError."""

    def __init__(self, request: Request) -> None:
        self._values: dict[Scalar, Value] = request.body if isinstance(request.body, dict) else {}
        self._encoded = request.encoded_body

    def number(self, name: str) -> int:
        value = self._values.get(name)
        if not isinstance(value, int):
            raise ArgumentError(f"The argument '{name}' must be a whole number.")
        return value

    def text(self, name: str) -> str | None:
        value = self._values.get(name)
        return value if isinstance(value, str) else None

    def items(self, name: str) -> list[Value]:
        value = self._values.get(name)
        if not isinstance(value, list):
            raise ArgumentError(f"The argument '{name}' must be a list.")
        return value

    def numbers(self, name: str) -> list[int]:
        """Return the distinct numbers of a list."""
        items = self.items(name)
        if not all(isinstance(item, int) for item in items):
            raise ArgumentError(f"The argument '{name}' must be a list of whole numbers.")
        return list(dict.fromkeys(cast("list[int]", items)))

    def properties(self, name: str) -> dict[bytes, bytes]:
        if not self._values.get(name):
            return {}
        encoded = {decode(key, 0)[0]: value for key, value in split_map(self._encoded, 0)}
        return property_pairs(encoded[name])


def _done(body: Encodable = None) -> Answer:
    return Answer(HTTPStatus.OK, "OK", body)


def _renew_lock(entity: Entity, arguments: _Arguments) -> Answer:
    locks = [entity.locks.held(token) for token in arguments.items("lock-tokens")]
    return _done({"expirations": timestamp_array([entity.locks.renew(lock) for lock in locks])})


def _peek_message(entity: Entity, arguments: _Arguments) -> Answer:
    found: list[Encodable] = []
    size = 0
    for message in entity.peek(arguments.number("from-sequence-number"), arguments.number("message-count")):
        encoded = wire_message(message)
        size += len(encoded)
        if found and size > _MAX_PEEK_BYTES:
            break
        found.append({"message": encoded})
    if not found:
        return Answer(HTTPStatus.NO_CONTENT, "No Content")
    return _done({"messages": found})


def _schedule_message(entity: Entity, arguments: _Arguments) -> Answer:
    contents = [_scheduled(item) for item in arguments.items("messages")]
    return _done({"sequence-numbers": long_array(entity.send(contents))})


def _scheduled(item: Value) -> Content:
    message = item.get("message") if isinstance(item, dict) else None
    if not isinstance(message, bytes):
        raise ArgumentError("The argument 'messages' must be a list of messages.")
    check_size(message)
    return parse_content(message)


def _cancel_scheduled_message(entity: Entity, arguments: _Arguments) -> Answer:
    entity.cancel_scheduled(arguments.numbers("sequence-numbers"))
    return _done()


def _receive_by_sequence_number(entity: Entity, arguments: _Arguments) -> Answer:
    deletes = arguments.number("receiver-settle-mode") == _RECEIVE_AND_DELETE
    deferred = entity.find_deferred(arguments.numbers("sequence-numbers"))
    received: list[Encodable] = []
    for message in deferred:
        if deletes:
            received.append({"message": wire_message(message)})
            entity.remove(message)
        else:
            lock = entity.locks.lock(message)
            received.append({"lock-token": lock.token, "message": wire_message(message, lock)})
    return Answer(HTTPStatus.OK, "OK", {"messages": received}, deferred if deletes else [])


def _update_disposition(entity: Entity, arguments: _Arguments) -> Answer:
    settlement = _SETTLEMENTS.get(arguments.text("disposition-status") or "")
    if settlement is None:
        raise ArgumentError("The argument 'disposition-status' is not known.")
    verdict = Verdict(
        settlement,
        arguments.text("deadletter-reason"),
        arguments.text("deadletter-description"),
        arguments.properties("properties-to-modify"),
    )
    # A repeated token counts once.
    for lock in dict.fromkeys([entity.locks.held(token) for token in arguments.items("lock-tokens")]):
        entity.settle(lock, verdict)
    return _done()


_OPERATIONS: dict[str, Callable[[Entity, _Arguments], Answer]] = {
    _VENDOR + "renew-lock": _renew_lock,
    _VENDOR + "peek-message": _peek_message,
    _VENDOR + "schedule-message": _schedule_message,
    _VENDOR + "cancel-scheduled-message": _cancel_scheduled_message,
    _VENDOR + "receive-by-sequence-number": _receive_by_sequence_number,
    _VENDOR + "update-disposition": _update_disposition,
}
