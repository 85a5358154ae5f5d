"""The keys of the table `Tasks`. All rows of a task are in one partition, so one transaction changes them.

Keys of index rows and of messages start with `!`, so they are before all tasks. Keys sort by their times.
"""

from __future__ import annotations

import zlib
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from functions.core.derive import ProcessState, derive
from functions.core.record import Message, TaskRecord
from functions.storage.table_contract import RowQuery

#: The query of all tasks: `"` is the character after `!`, and no id starts with `~`.
ALL_TASKS = RowQuery('"', "~")
_LATEST = datetime.max.replace(tzinfo=UTC)


class TaskIndex(StrEnum):
    """The indexes of tasks. Each task has one row in the first four, by its state."""

    DUE = "!due"
    ERROR = "!error"
    DONE = "!done"
    SUSPENDED = "!suspended"
    GATE = "!gate"
    FIND = "!find"


#: Indexes whose newest entries are first.
_NEWEST_FIRST = frozenset({TaskIndex.ERROR, TaskIndex.DONE, TaskIndex.FIND})


def shard_of(task: str, shards: int) -> str:
    """Return the partition of a task. `shards` is the number of shards of the table."""
    return shard_name(zlib.crc32(task.encode()) % shards)


def shard_name(shard: int) -> str:
    """Return the partition of a shard; the first one has the number 0."""
    return f"{shard:03d}"


def after_prefix(prefix: str) -> str:
    """Return the end of the keys that start with `prefix`, a text that ends with `|`."""
    return prefix[:-1] + "}"  # `}` is the character after `|`


def with_prefix(prefix: str) -> RowQuery:
    """Return the query of the keys that start with `prefix`, a text that ends with `|`."""
    return RowQuery(prefix, after_prefix(prefix))


#: The query of all messages that are not deleted, receiver by receiver.
OUTBOX = with_prefix("!send|")


def rows_of(task: str) -> RowQuery:
    """Return the query of all rows of a task, except those that start with `!`."""
    return with_prefix(f"{task}|")


def record_of(task: str) -> RowQuery:
    """Return the query of the order, the steps and the task; closed epochs are outside."""
    return RowQuery(order_key(task), f"{task_key(task)}~")


def epochs_of(task: str) -> RowQuery:
    """Return the query of the closed epochs of a task, the oldest first."""
    return with_prefix(f"{task}|epoch|")


def order_key(task: str) -> str:
    """Return the key of the order row, which a reservation inserts and the admission completes."""
    return f"{task}|order"


def task_key(task: str) -> str:
    """Return the key of the task row, which guards all rows of the task."""
    return f"{task}|task"


def message_key(message: Message) -> str:
    """Return the key of an outbox row: by receiver, so that a slow one does not delay the others."""
    return f"!send|{message.to or message.kind}|{message.id}".replace("/", ":")


def index_key(record: TaskRecord) -> str:
    """Return the key of the index row for the state of a task."""
    task, columns = record.order.task, derive(record)
    if columns.state is ProcessState.ERROR:
        return _timed(TaskIndex.ERROR, record.finished_at, task)
    if columns.state in {ProcessState.PROCESSED, ProcessState.COMPENSATED}:
        return _timed(TaskIndex.DONE, record.finished_at, task)
    if record.suspension is None:
        return _timed(TaskIndex.DUE, columns.due_at, task)
    if record.suspension.by_operator:
        return f"{TaskIndex.SUSPENDED}|~operator|{task}"
    return f"{TaskIndex.SUSPENDED}|{record.order.workflow}|{record.order.version}|{task}"


def gate_key(gate: str, since: datetime, task: str) -> str:
    """Return the key of a task that waits behind a gate."""
    return f"{TaskIndex.GATE}|{gate}|{sortable(since)}|{task}"


def find_key(search_key: str, submitted_at: datetime, task: str) -> str:
    """Return the key of a task in the index of a search key."""
    return f"{TaskIndex.FIND}|{search_key}|{newest_first(submitted_at)}|{task}"


def task_in(index_row_key: str) -> str:
    """Return the id of the task from the key of an index row."""
    return index_row_key.rpartition("|")[2]


def time_in(index_row_key: str) -> datetime | None:
    """Return the time from the key of an index row, None for a suspended task. Raises `ValueError`."""
    name, *parts = index_row_key.split("|")
    index = TaskIndex(name)
    if index is TaskIndex.SUSPENDED:
        return None
    text = parts[-2] if len(parts) > 1 else ""
    if index in _NEWEST_FIRST:
        return _LATEST - int(text) * timedelta.resolution
    return datetime.fromisoformat(text).astimezone(UTC)


def index_range(
    index: TaskIndex, name: str = "", *, since: datetime | None = None, until: datetime | None = None
) -> RowQuery:
    """Return the query of an index from `since` to before `until`.

    `name` is the gate, the search key, or the workflow and version (`w|1`) of suspended tasks; the keys of
    suspended tasks have no time.
    """
    start = f"{index}|{name}|" if name else f"{index}|"
    end = None if until is None else until - timedelta.resolution
    times = (end, since) if index in _NEWEST_FIRST else (since, end)
    first, last = ("" if time is None else _text_of(time, index) for time in times)
    return RowQuery(start + first, after_prefix(f"{start}{last}|" if last else start))


def sortable(time: datetime) -> str:
    """Return a time as text that sorts by time."""
    text = time.astimezone(UTC).isoformat(timespec="microseconds")
    return f"{text[:19].replace('-', '').replace(':', '')}{text[19:26]}Z"


def _timed(index: TaskIndex, time: datetime | None, task: str) -> str:
    """Return the key of an index row; a task without a time is due never, and is the last."""
    return f"{index}|{_text_of(time or _LATEST, index)}|{task}"


def _text_of(time: datetime, index: TaskIndex) -> str:
    return newest_first(time) if index in _NEWEST_FIRST else sortable(time)


def newest_first(time: datetime) -> str:
    """Return a time as text that sorts newer times first: the microseconds to the latest time."""
    return f"{(_LATEST - time) // timedelta.resolution:018d}"


def next_receiver(outbox_key: str) -> str:
    """Return the end of the keys of the messages to the receiver of a message."""
    start, receiver, _ = outbox_key.split("|", 2)
    return after_prefix(f"{start}|{receiver}|")
