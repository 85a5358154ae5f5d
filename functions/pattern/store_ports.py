"""What the core and its callers need of the state store; `store/` holds the adapters to Table Storage."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from functions.pattern.announcements import Announcement
from functions.pattern.errors import UnreadableError
from functions.pattern.events import Event
from functions.pattern.folding import Follow
from functions.pattern.identity import Birth, StepName, TaskId
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import Refused
from functions.pattern.states import ProcessState


@dataclass(frozen=True, slots=True)
class Stored:
    """A task's record as it was read or written; `version` guards the next write (an ETag).

    `writes` are the ids of the latest writes, newest first: after a lost answer a writer finds its own.
    """

    record: TaskRecord
    version: str
    writes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KnownOrder:
    """Which order is recorded under an id: its content's digest, who sent it, and the task's birth."""

    digest: str
    submitter: str
    birth: Birth


class Admission(StrEnum):
    """What came of recording an order."""

    #: It is new, and recorded now.
    RECORDED = "recorded"
    #: The same order was recorded before.
    KNOWN = "known"
    #: Another order was recorded under this id before.
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class Changed:
    """A task's record after an event, and the events that changed it: the told one and what followed."""

    record: TaskRecord
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class Admitted:
    """An order's admission, and the record that stands under its id."""

    admission: Admission
    stored: Stored


class StateStore(Protocol):
    """The durable record of every task and step: the truth."""

    async def admit(self, record: TaskRecord) -> Admitted:
        """Record a new task in one transaction."""

    async def load(self, task: TaskId) -> Stored | None:
        """Read one task's rows, or None when there is no such task. Raises `UnreadableError`."""

    async def known(self, task: TaskId) -> TaskRecord | None:
        """Give a task's record as this process knows it, maybe outdated, or else read it."""

    async def order(self, task: TaskId) -> KnownOrder | None:
        """Read which order is recorded under an id, or None: one row, whatever the size of the table."""

    async def check(self) -> None:
        """See that the store answers. Raises `TransientError` when it does not."""

    async def change(
        self,
        task: TaskId,
        event: Event,
        *,
        until: datetime | None = None,
        follow: Follow | None = None,
        read: Stored | None = None,
    ) -> Changed | Refused:
        """Have a task take `event` and what may `follow` from it, in one transaction, by compare-and-swap.

        Conflicts and faults of the store are outlived `until` (UTC; None: some seconds from now). `read` is
        the record as the caller has just read it, if it has. Raises `TransientError` when it could not be
        written in time, `UnwritableError`, and `IllegalTransitionError`.
        """

    async def note(self, task: TaskId, event: Event) -> None:
        """Have a task take `event` with its next change, or after a moment; a crash may lose it."""


@dataclass(frozen=True, slots=True)
class OutboxPage:
    """Some announcements, rows that can't be read, and where the next page begins (None: there is none)."""

    announcements: tuple[Announcement, ...]
    unreadable: tuple[UnreadableError, ...] = ()
    continuation: str | None = None


class Outbox(Protocol):
    """Announcements that are recorded, and not marked as sent. Its methods raise `TransientError`.

    The mark is an event of the task, `AnnouncementSent`, which removes the announcement.
    """

    async def unsent(
        self, shard: int, before: datetime, most: int, *, after: str | None = None
    ) -> OutboxPage:
        """Read announcements of a shard that are older than `before`: alerts, then queue by queue.

        A page has up to `most`, each queue's oldest first; the next page begins with another queue.
        """

    async def give_up(self, announcement: Announcement) -> None:
        """Remove an announcement that was never sent; harmless when it is removed already."""


class ChangeAnnouncer(Protocol):
    """Sends what a change has to be followed by."""

    async def announce(self, before: TaskRecord | None, after: TaskRecord) -> None:
        """Announce a change that is recorded, or a new task (`before` is None); never raises for it."""


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """What an index row, or an order's, tells of a task: a hint, the task itself may have changed.

    `at` is the time in the key (due, or finished), or when it was submitted if there is none; such a row may
    tell no `state`. `version` is the workflow's. In `Error`, it tells the `step` and its `error`'s class.
    The tasks that operators parked come last among the parked ones.
    """

    task: TaskId
    at: datetime
    workflow: str
    state: ProcessState | None
    submitted_at: datetime
    version: int
    submitter: str
    correlation_id: str | None = None
    step: StepName | None = None
    error: str | None = None
    parked_by_operator: bool = False


@dataclass(frozen=True, slots=True)
class IndexPage:
    """Some entries of one shard, and where the next page begins (None: there is none).

    Rows among them that can't be read are no entries.
    """

    entries: tuple[IndexEntry, ...]
    continuation: str | None
    unreadable: tuple[UnreadableError, ...] = ()


class Index(StrEnum):
    """The indexes over all tasks; each task stands in exactly one of them."""

    #: Tasks under way, by the time when the Supervisor must look at them; the earliest first.
    DUE = "!due"
    #: Tasks that are parked, by the version of the workflow that they wait for, and then those that operators
    #: parked; in no order of time.
    PARKED = "!parked"
    #: Tasks in `Error`, by the time when they got there; the latest first.
    ERROR = "!error"
    #: Tasks that are `Processed` or `Compensated`, by the time when they got there; the latest first.
    DONE = "!done"

    @property
    def latest_first(self) -> bool:
        """Tell whether entries come by descending time; those of `!due` come by ascending time."""
        return self in {Index.ERROR, Index.DONE}


class TaskIndex(Protocol):
    """Finds tasks without reading them all."""

    @property
    def shards(self) -> int:
        """Tell how many shards there are; they are numbered from 0."""

    async def page(
        self,
        index: Index,
        shard: int,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        after: str | None = None,
        most: int,
    ) -> IndexPage:
        """Read a page of one shard in the index's order, from `since` up to `until` (excluded)."""

    async def parked(
        self, workflow: str, version: int, shard: int, *, after: str | None, most: int
    ) -> IndexPage:
        """Read a page of the tasks of one shard that wait for a version of a workflow."""

    async def named(self, prefix: str, shard: int, *, after: str | None = None, most: int) -> IndexPage:
        """Read a page of the tasks of one shard whose ids begin with `prefix`, in the order of their ids."""

    async def found(
        self,
        key: str,
        shard: int,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        after: str | None = None,
        most: int,
    ) -> IndexPage:
        """Read a page of the tasks of one shard that have a search key, the latest submitted first."""


class TaskRetention(Protocol):
    """Deletes tasks."""

    async def delete(self, stored: Stored) -> bool:
        """Delete a task's rows unless it has changed; give whether it did. Raises `TransientError`."""
