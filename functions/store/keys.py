"""Keys of the tables: all rows of a task lie in one partition, so that one transaction can change them."""

from __future__ import annotations

import hashlib
import zlib
from datetime import UTC, datetime, timedelta

from functions.pattern.announcements import Announcement
from functions.pattern.identity import Epoch, TaskId
from functions.pattern.records import LostMessage, Task
from functions.pattern.shared_rows import Chore, Occasion
from functions.pattern.states import AnnouncementKind, ProcessState
from functions.pattern.store_ports import Index

#: The latest time that can be told, and the finest difference between two.
_LATEST = datetime.max.replace(tzinfo=UTC)

#: The row that remembers the format of the rows, and how many shards the table was made with.
SHARDS_PARTITION = "!settings"
SHARDS_ROW = "shards"

#: What begins the row keys of announcements that are to be sent.
OUTBOX = "!send"

#: What begins the row keys of what tasks are found by.
SEARCH = "!find"

#: The row that counts the alerts of the current minute.
ALERT_MINUTE = "alert-minute"

#: The partition of the circuit breakers in their table, and what begins their row keys.
CIRCUITS_PARTITION = "circuits"
BREAKERS = "breaker"


def shard_number(task: TaskId, shards: int) -> int:
    """Give the number of a task's shard."""
    return zlib.crc32(task.encode()) % shards


def shard_key(shard: int) -> str:
    """Give the partition key of a shard, numbered from 0."""
    return f"{shard:03d}"


def order_row(task: TaskId) -> str:
    """Give the row key of the order."""
    return f"{task}|order"


def task_row(task: TaskId) -> str:
    """Give the row key of the task's state."""
    return f"{task}|task"


def step_row(task: TaskId, number: int) -> str:
    """Give the row key of a step, numbered from 0 in the order of the workflow's definition."""
    return f"{task}|step|{number:02d}"


def epoch_row(task: TaskId, epoch: Epoch) -> str:
    """Give the row key of an epoch that is over."""
    return f"{task}|epoch|{epoch:06d}"


def lost_row(task: TaskId, lost: LostMessage) -> str:
    """Give the row key of a lost message; its id may hold what keys must not."""
    name = hashlib.sha256(f"{lost.queue}|{lost.message_id}".encode()).hexdigest()[:32]
    return f"{task}|lost|{sortable(lost.at)}|{name}"


def rows_of(task: TaskId) -> tuple[str, str]:
    """Give the bounds of a task's rows: from the first, included, to the second, excluded."""
    return f"{task}|", f"{task}}}"


def index_row(task: Task) -> str:
    """Give the row key of the one index row that a task has in its state."""
    if task.is_parked:
        return f"{Index.PARKED}|{task.parked_for}|{task.order_id}"
    if task.finished_at is None:
        return index_key(Index.DUE, task.due_at, task.order_id)
    index = Index.ERROR if task.process_state is ProcessState.ERROR else Index.DONE
    return index_key(index, task.finished_at, task.order_id)


def index_key(index: Index, at: datetime, task: TaskId) -> str:
    """Give the row key of an index entry: entries sort by their times, in the index's own order."""
    return f"{index}|{_latest_first(at) if index.latest_first else sortable(at)}|{task}"


def index_time(key: str) -> datetime:
    """Read the time out of an index entry's row key."""
    index, time, _ = key.split("|")
    if Index(index).latest_first:
        return _LATEST - int(time) * timedelta.resolution
    return datetime.fromisoformat(time)


def index_range(index: Index, since: datetime | None, until: datetime | None) -> tuple[str, str]:
    """Give the keys between which an index's entries lie from `since` up to `until` (excluded).

    Those of parked tasks are in no order of time: all of them are meant.
    """
    if index is Index.PARKED:
        return f"{index}|", f"{index}}}"
    if index.latest_first:
        return _between_latest_first(index, since, until)
    first = "" if since is None else sortable(since)
    return f"{index}|{first}", f"{index}}}" if until is None else f"{index}|{sortable(until)}"


def parked_range(workflow: str, version: int) -> tuple[str, str]:
    """Give the keys between which the tasks lie that wait for a version of a workflow."""
    waiting_for = f"{Index.PARKED}|{workflow}|{version}"
    return f"{waiting_for}|", f"{waiting_for}}}"


def search_row(key: str, submitted_at: datetime, task: TaskId) -> str:
    """Give the row key of a search key of a task: those of one key sort by their submission, latest first."""
    return f"{SEARCH}|{key}|{_latest_first(submitted_at)}|{task}"


def search_range(key: str, since: datetime | None, until: datetime | None) -> tuple[str, str]:
    """Give the keys between which lie the tasks of a search key, from `since` up to `until` (excluded)."""
    return _between_latest_first(f"{SEARCH}|{key}", since, until)


def outbox_row(announcement: Announcement) -> str:
    """Give the row key of what is to be sent: alerts first, then queue by queue, and each by time."""
    is_alert = announcement.kind is AnnouncementKind.ALERT
    queue = "0" if is_alert else f"1{(announcement.reply_to or '').replace('/', ':')}"
    return f"{OUTBOX}|{queue}|{sortable(announcement.at)}|{announcement.message_id}"


def beyond_queue(outbox_key: str) -> str:
    """Give the key from which on an outbox row is of another queue than this one."""
    return f"{'|'.join(outbox_key.split('|')[:2])}}}"


def breaker_row(service: str) -> str:
    """Give the row key of a remote service's circuit breaker."""
    return f"{BREAKERS}|{service}"


def heartbeat_row(chore: Chore) -> str:
    """Return the row key of a chore's heartbeat."""
    return f"{chore}-heartbeat"


def time_row(occasion: Occasion, name: str) -> str:
    """Give the row key of a time that instances share."""
    return f"{occasion}|{name}"


def _between_latest_first(beginning: str, since: datetime | None, until: datetime | None) -> tuple[str, str]:
    first = "" if until is None else _latest_first(until - timedelta.resolution)
    end = f"{beginning}}}" if since is None else f"{beginning}|{_latest_first(since)}}}"
    return f"{beginning}|{first}", end


def _latest_first(time: datetime) -> str:
    """Write a time so that later ones sort before earlier ones: the microseconds left until the latest."""
    return f"{(_LATEST - time) // timedelta.resolution:018d}"


def sortable(time: datetime) -> str:
    """Write a time (UTC) so that texts sort as times do."""
    text = (time if time.tzinfo is UTC else time.astimezone(UTC)).isoformat(timespec="microseconds")
    return f"{text[:19].replace('-', '').replace(':', '')}{text[19:26]}Z"
