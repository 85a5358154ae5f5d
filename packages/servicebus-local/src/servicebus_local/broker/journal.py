"""The queues' access to the log: records the changes of messages, and reads them at the start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from servicebus_local.broker.message import MessageState, StoredMessage
from servicebus_local.content import Content, EncodedPairs
from servicebus_local.storage.group_commit import GroupCommit, Parameter
from servicebus_local.storage.log import MessageLog
from servicebus_local.storage.schema import Statement


class Journal:
    """Typed access to the log."""

    def __init__(self, log: MessageLog, commit: GroupCommit) -> None:
        self._log = log
        self._commit = commit
        (last,) = self._log.query("SELECT coalesce(max(id), 0) FROM message").fetchone()
        self._last_id: int = last

    def next_id(self) -> int:
        """Return an id for a new message."""
        self._last_id += 1
        return self._last_id

    def then(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Run a callback after the commit of all earlier writes."""
        self._commit.then(callback, *arguments)

    def insert(self, message: StoredMessage) -> None:
        """Record a new message."""
        content = message.content
        self._commit.write(
            Statement.INSERT_MESSAGE,
            message.id,
            *_place_of(message),
            content.message_id,
            content.time_to_live_ms,
            content.durable,
            content.priority,
            content.first_acquirer,
            bytes(content.delivery_annotations.as_map()),
            bytes(content.annotations.as_map()),
            content.properties,
            content.application_properties,
            content.body,
        )

    def update(self, message: StoredMessage) -> None:
        """Record a message's new place, state or delivery count."""
        self._commit.write(
            Statement.UPDATE_MESSAGE,
            *_place_of(message),
            message.content.application_properties,
            message.id,
        )

    def delete(self, message: StoredMessage) -> None:
        """Record that a message is deleted."""
        self._commit.write(Statement.DELETE_MESSAGE, message.id)

    def reserve_numbers(self, queue: str, next_number: int) -> None:
        """Record that a queue exists, and its first sequence number after a restart."""
        self._commit.write(Statement.RESERVE_NUMBERS, queue, next_number)

    def remember_id(self, queue: str, message_id: str, until_ms: int) -> None:
        """Record a message id and the end of its duplicate window (milliseconds since 1970)."""
        self._commit.write(Statement.REMEMBER_ID, queue, message_id, until_ms)

    def forget_ids(self, queue: str, until_ms: int) -> None:
        """Delete the message ids whose window ends at this time or earlier."""
        self._commit.write(Statement.FORGET_IDS, queue, until_ms)

    def queues(self) -> list[tuple[str, int]]:
        """Read the queues' names and next sequence numbers."""
        return self._log.query("SELECT name, next_sequence_number FROM queue").fetchall()

    def seen_ids(self) -> Iterator[tuple[str, str, int]]:
        """Read queue, message id and end of its window, earliest end first."""
        query = "SELECT queue, message_id, until_ms FROM seen_message_id ORDER BY until_ms"
        return iter(self._log.query(query))

    def messages(self) -> Iterator[StoredMessage]:
        """Read all messages, in the order of their sequence numbers."""
        for row in self._log.query("SELECT * FROM message ORDER BY sequence_number"):
            yield _message_from_row(row)


def _place_of(message: StoredMessage) -> tuple[Parameter, ...]:
    """Return the columns of a message that can change, in the order of the statements."""
    return (
        message.address,
        message.sequence_number,
        int(message.state),
        message.delivery_count,
        message.enqueued_ms,
        message.expires_ms,
        message.scheduled_ms,
    )


def _message_from_row(row: tuple[Any, ...]) -> StoredMessage:
    message_id, time_to_live_ms, durable, priority, first_acquirer, *sections = row[8:]
    delivery_annotations, annotations, properties, application_properties, body = sections
    content = Content(
        message_id=message_id,
        time_to_live_ms=time_to_live_ms,
        durable=None if durable is None else bool(durable),
        priority=priority,
        first_acquirer=None if first_acquirer is None else bool(first_acquirer),
        delivery_annotations=EncodedPairs.of_map(delivery_annotations),
        annotations=EncodedPairs.of_map(annotations),
        properties=properties,
        application_properties=application_properties,
        body=body,
    )
    number, address, sequence_number, state, *rest = row[:8]
    delivery_count, enqueued_ms, expires_ms, scheduled_ms = rest
    return StoredMessage(
        id=number,
        address=address,
        sequence_number=sequence_number,
        state=MessageState(state),
        delivery_count=delivery_count,
        enqueued_ms=enqueued_ms,
        expires_ms=expires_ms,
        scheduled_ms=scheduled_ms,
        content=content,
    )
