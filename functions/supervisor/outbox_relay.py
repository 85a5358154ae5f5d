"""The outbox relay sends messages that were recorded and not sent, and deletes their rows. Times are UTC."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from functions.core.record import CHILD_MESSAGES, NOTICES, Message
from functions.messaging.received_messages import within
from functions.storage.index_pages import read_entries
from functions.storage.record_rows import message_of
from functions.storage.row_keys import OUTBOX, message_key, next_receiver
from functions.storage.table_contract import RefusedChanges, RowChange, StorageError, Table
from functions.supervisor.sweep_progress import SweepReport

_log = logging.getLogger(__name__)

#: A younger message is still being sent by the process that recorded it.
_SENT_WITHIN = timedelta(seconds=10)
#: Age after which a notice is dropped if its queue accepts nothing. A message of a child is sent until then.
_DROPPED_AFTER = timedelta(days=1)
_PAGE = 100
#: Failures in a row after which a sweep sends nothing more to a destination.
_MOST_FAILURES = 3
#: Time for the messages of a page to one destination; a slower one counts as failing in this sweep.
_SENDING_TIME = timedelta(seconds=30)


class OutboxRelay:
    """Sends unsent messages of one sweep. `send` sends a message; it raises an error if it may not be sent.

    A message is sent again after a crash, with the same id. A message of a child is sent in each sweep for a
    day until it is handled: duplicate detection removes copies, and a delivery may end as a dead letter.
    """

    def __init__(
        self,
        table: Table,
        report: SweepReport,
        *,
        send: Callable[[Message], Awaitable[None]],
        now: Callable[[], datetime],
    ) -> None:
        self._table, self._report = table, report
        self._send, self._now = send, now
        self._failures, self._accepting = Counter[str](), set[str]()

    async def send_page(self, partition: str, cursor: str | None) -> str | None:
        """Send the messages of the next page of a partition, to all destinations side by side.

        Return the next cursor; it skips the further messages of a receiver that accepts nothing.
        """
        query = replace(OUTBOX, beyond=cursor, most=_PAGE)
        page = await read_entries(self._table, partition, query, message_of)
        self._report.add_corrupt(page.corrupt)
        by_destination = defaultdict[str, list[Message]](list)
        for message in page.entries:
            if message.at <= self._now() - _SENT_WITHIN:
                by_destination[_destination(message)].append(message)
        await asyncio.gather(*(self._send_all(partition, *each) for each in by_destination.items()))
        if page.cursor is None or not page.entries:
            return page.cursor
        last = page.entries[-1]
        is_failing = self._failures[_destination(last)] >= _MOST_FAILURES and page.cursor == message_key(last)
        return next_receiver(page.cursor) if is_failing else page.cursor

    async def _send_all(self, partition: str, destination: str, messages: Sequence[Message]) -> None:
        """Send messages to one destination; drop outdated notices if it accepts nothing in this sweep."""
        finished = await self._send_until_failure(destination, messages)
        end = self._now() - _DROPPED_AFTER
        old = [message for message in messages if message.kind in NOTICES and message.at <= end]
        while old and destination not in self._accepting and self._failures[destination] < _MOST_FAILURES:
            finished = await self._send_until_failure(destination, old)
        if old and destination not in self._accepting:
            _log.warning("%s accepts nothing; dropped: %s", destination, [each.id for each in old])
            self._report.dropped += len(old)
            finished = old
        ended = [each for each in finished if each.kind not in CHILD_MESSAGES or each.at <= end]
        await self._delete(partition, [RowChange("delete", message_key(each)) for each in ended])

    async def _send_until_failure(self, destination: str, messages: Sequence[Message]) -> Sequence[Message]:
        """Send messages until the destination fails several times in a row, or is slow.

        Return the messages that were sent.
        """
        sent: list[Message] = []
        ends_at = self._now() + _SENDING_TIME
        for message in messages:
            if self._now() >= ends_at:
                self._failures[destination] = _MOST_FAILURES
            if self._failures[destination] >= _MOST_FAILURES:
                break
            try:
                await within(10, self._send(message))
            except Exception as error:  # noqa: BLE001 - a sender may raise anything
                self._report.add_failure(f"message {message.id}", error)
                self._failures[destination] += 1
            else:
                self._failures[destination] = 0
                self._accepting.add(destination)
                sent.append(message)
        self._report.sent += len(sent)
        return sent

    async def _delete(self, partition: str, changes: Sequence[RowChange]) -> None:
        """Delete rows, one by one if another Supervisor has deleted some of them."""
        try:
            answer = await self._table.send(partition, changes) if changes else None
            if isinstance(answer, RefusedChanges) and len(changes) > 1:
                for change in changes:
                    await self._table.send(partition, [change])
        except StorageError as error:
            self._report.add_failure("outbox: rows not deleted", error)


def _destination(message: Message) -> str:
    """Return the reply queue of a notice; messages of another kind share a queue of the application."""
    return message.to if message.kind in NOTICES else str(message.kind)
