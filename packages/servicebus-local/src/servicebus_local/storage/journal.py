"""The log as the queues see it: what happens to messages is written down here, and read back at the start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from servicebus_local.broker.message import Message, MessageState
from servicebus_local.content import Content, EncodedPairs
from servicebus_local.sqlite_log import SqliteLog

from .group_commit import GroupCommit, Parameter
from .schema import Statement


class Journal:
    """Typed access to the log."""

    def __init__(self, log: SqliteLog, commit: GroupCommit) -> None:
        self._log = log
        self._commit = commit
        (last,) = self._log.query("SELECT coalesce(max(id), 0) FROM message").fetchone()
        self._last_id: int = last

    def next_id(self) -> int:
        """Return an id for a new message."""
        self._last_id += 1
        return self._last_id

    def then(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Call something once all that was written before is committed."""
        self._commit.then(callback, *arguments)

    def insert(self, message: Message) -> None:
        """Write down a new message."""
        content = message.content
        self._commit.write(
            Statement.INSERT_MESSAGE,
            message.id,
            *_place_of(message),
            content.message_id,
            content.time_to_live_ms,
            content.durable,
            content.priority,
            bytes(content.annotations.as_map()),
            content.properties,
            content.application_properties,
            content.body,
        )

    def update(self, message: Message) -> None:
        """Write down a message's new place, state or delivery count."""
        self._commit.write(
            Statement.UPDATE_MESSAGE,
            *_place_of(message),
            message.content.application_properties,
            message.id,
        )

    def delete(self, message: Message) -> None:
        """Write down that a message is gone."""
        self._commit.write(Statement.DELETE_MESSAGE, message.id)

    def reserve_numbers(self, queue: str, next_number: int) -> None:
        """Write down that a queue exists, and where its sequence numbers go on after a restart."""
        self._commit.write(Statement.RESERVE_NUMBERS, queue, next_number)

    def remember_id(self, queue: str, message_id: str, until_ms: int) -> None:
        """Write down that a message id was seen."""
        self._commit.write(Statement.REMEMBER_ID, queue, message_id, until_ms)

    def forget_ids(self, queue: str, until_ms: int) -> None:
        """Drop the message ids that count until this time or less."""
        self._commit.write(Statement.FORGET_IDS, queue, until_ms)

    def delete_queue(self, queue: str) -> None:
        """Write down that a queue is gone."""
        self._commit.write(Statement.DELETE_QUEUE, queue)

    def queues(self) -> list[tuple[str, int]]:
        """Read the queues' names and next sequence numbers."""
        return self._log.query("SELECT name, next_sequence_number FROM queue").fetchall()

    def seen_ids(self) -> Iterator[tuple[str, str, int]]:
        """Read queue, message id and end of its time, earliest end first."""
        query = "SELECT queue, message_id, until_ms FROM seen_message_id ORDER BY until_ms"
        return iter(self._log.query(query))

    def messages(self) -> Iterator[Message]:
        """Read all messages in the order in which they may be received."""
        for row in self._log.query("SELECT * FROM message ORDER BY sequence_number"):
            yield _message_from_row(row)


def _place_of(message: Message) -> tuple[Parameter, ...]:
    """Return what may change of a message, in the order of the columns."""
    return (
        message.address,
        message.sequence_number,
        message.enqueued_sequence_number,
        int(message.state),
        message.delivery_count,
        message.enqueued_ms,
        message.expires_ms,
        message.scheduled_ms,
        message.dead_letter_source,
    )


def _message_from_row(row: tuple[Any, ...]) -> Message:
    message_id, time_to_live_ms, durable, priority, annotations, properties, application, body = row[10:]
    content = Content(
        message_id=message_id,
        time_to_live_ms=time_to_live_ms,
        durable=None if durable is None else bool(durable),
        priority=priority,
        annotations=EncodedPairs.of_map(annotations),
        properties=properties,
        application_properties=application,
        body=body,
    )
    number, address, sequence_number, enqueued_sequence_number, state, *rest = row[:10]
    delivery_count, enqueued_ms, expires_ms, scheduled_ms, dead_letter_source = rest
    return Message(
        id=number,
        address=address,
        sequence_number=sequence_number,
        enqueued_sequence_number=enqueued_sequence_number,
        state=MessageState(state),
        delivery_count=delivery_count,
        enqueued_ms=enqueued_ms,
        expires_ms=expires_ms,
        scheduled_ms=scheduled_ms,
        dead_letter_source=dead_letter_source,
        content=content,
    )
