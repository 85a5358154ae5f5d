"""The operations of `$management`: renew, peek, schedule, receive deferred messages, settle by lock token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import cast

from servicebus_local.amqp.requests import Request
from servicebus_local.amqp.wire_message import wire_message
from servicebus_local.broker.entity import Entity
from servicebus_local.broker.message import Settlement
from servicebus_local.codec.encoding import long_array, timestamp_array
from servicebus_local.codec.values import Encodable, Scalar, Value
from servicebus_local.content import parse_content
from servicebus_local.errors import ArgumentError, NotSupportedError

_VENDOR = "com.microsoft:"
_RECEIVE_AND_DELETE = 0
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


def perform(entity: Entity, request: Request) -> Answer:
    """Carry out a request. Raises OperationError, and AmqpError for a message in it that can't be read."""
    operation = request.properties.get("operation")
    handler = _OPERATIONS.get(operation) if isinstance(operation, str) else None
    if handler is None:
        raise NotSupportedError(f"The operation {operation!r} is not supported by the local broker.")
    return handler(entity, _Arguments(request.body))


class _Arguments:
    """Typed reading of a request's map. Each method raises ArgumentError."""

    def __init__(self, body: Value) -> None:
        self._values: dict[Scalar, Value] = body if isinstance(body, dict) else {}

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
        items = self.items(name)
        if not all(isinstance(item, int) for item in items):
            raise ArgumentError(f"The argument '{name}' must be a list of whole numbers.")
        return cast("list[int]", items)


def _done(body: Encodable = None) -> Answer:
    return Answer(HTTPStatus.OK, "OK", body)


def _renew_lock(entity: Entity, arguments: _Arguments) -> Answer:
    locks = [entity.held_lock(token) for token in arguments.items("lock-tokens")]
    return _done({"expirations": timestamp_array([entity.renew(lock) for lock in locks])})


def _peek_message(entity: Entity, arguments: _Arguments) -> Answer:
    found = entity.peek(arguments.number("from-sequence-number"), arguments.number("message-count"))
    if not found:
        return Answer(HTTPStatus.NO_CONTENT, "No Content")
    return _done({"messages": [{"message": wire_message(message)} for message in found]})


def _schedule_message(entity: Entity, arguments: _Arguments) -> Answer:
    encoded = [item.get("message") for item in arguments.items("messages") if isinstance(item, dict)]
    contents = [parse_content(message) for message in encoded if isinstance(message, bytes)]
    return _done({"sequence-numbers": long_array(entity.send(contents))})


def _cancel_scheduled_message(entity: Entity, arguments: _Arguments) -> Answer:
    entity.cancel_scheduled(arguments.numbers("sequence-numbers"))
    return _done()


def _receive_by_sequence_number(entity: Entity, arguments: _Arguments) -> Answer:
    deferred = entity.find_deferred(arguments.numbers("sequence-numbers"))
    received: list[Encodable] = []
    for message in deferred:
        if arguments.number("receiver-settle-mode") == _RECEIVE_AND_DELETE:
            received.append({"message": wire_message(message)})
            entity.remove(message)
        else:
            lock = entity.lock(message)
            received.append({"lock-token": lock.token, "message": wire_message(message, lock.until_ms)})
    return _done({"messages": received})


def _update_disposition(entity: Entity, arguments: _Arguments) -> Answer:
    settlement = _SETTLEMENTS.get(arguments.text("disposition-status") or "")
    if settlement is None:
        raise ArgumentError("The argument 'disposition-status' is not known.")
    locks = [entity.held_lock(token) for token in arguments.items("lock-tokens")]
    for lock in locks:
        entity.settle(
            lock, settlement, arguments.text("deadletter-reason"), arguments.text("deadletter-description")
        )
    return _done()


_OPERATIONS: dict[str, Callable[[Entity, _Arguments], Answer]] = {
    _VENDOR + "renew-lock": _renew_lock,
    _VENDOR + "peek-message": _peek_message,
    _VENDOR + "schedule-message": _schedule_message,
    _VENDOR + "cancel-scheduled-message": _cancel_scheduled_message,
    _VENDOR + "receive-by-sequence-number": _receive_by_sequence_number,
    _VENDOR + "update-disposition": _update_disposition,
}
