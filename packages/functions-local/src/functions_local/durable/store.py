"""Rows of the Durable database: the reads, and the writes of one transaction.

Tables: `instances` (one row each), `history` (one row for each episode: its events as JSON, joined by
commas), `inbox` (messages and timers that no episode has taken yet), `activities` (scheduled and not
completed). All pending work is in rows, so a start after a kill only reads the rows. One transaction replaces
an activity's row with its result's message, so no activity completes twice.

Hosts share the tables. `place` is the host that runs an instance with its activities; no other host changes
their rows. A message from another host is `posted` until the host of its instance has received it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from functions_local.durable.database import Statement
from functions_local.durable.event_json import decode
from functions_local.durable.events import Event, RuntimeStatus

#: Matches instances that are not finished.
ALIVE = "status IN ('Pending', 'Running', 'ContinuedAsNew', 'Suspended')"
#: Increased with every change of the tables.
SCHEMA_VERSION = 2
SCHEMA = f"""
CREATE TABLE instances(
    id TEXT PRIMARY KEY, execution TEXT NOT NULL, name TEXT NOT NULL, version TEXT NOT NULL, input TEXT,
    status TEXT NOT NULL, custom_status TEXT, output TEXT, created TEXT NOT NULL, updated TEXT NOT NULL,
    place INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX instances_by_time ON instances(created, id);
CREATE INDEX instances_alive ON instances(place, id)
    WHERE {ALIVE};
CREATE TABLE history(
    instance TEXT NOT NULL, episode INTEGER NOT NULL, events TEXT NOT NULL, PRIMARY KEY(instance, episode)
) WITHOUT ROWID;
CREATE TABLE inbox(
    number INTEGER PRIMARY KEY, instance TEXT NOT NULL, execution TEXT, due REAL NOT NULL,
    event TEXT NOT NULL, posted INTEGER NOT NULL
);
CREATE INDEX inbox_by_instance ON inbox(instance);
CREATE INDEX inbox_posted ON inbox(number) WHERE posted;
CREATE TABLE activities(
    number INTEGER PRIMARY KEY, instance TEXT NOT NULL, execution TEXT NOT NULL, task INTEGER NOT NULL,
    name TEXT NOT NULL, input TEXT, place INTEGER NOT NULL
);
"""


@dataclass(frozen=True, slots=True)
class InstanceRow:
    """A committed instance. Times are texts as in history; input and custom status are JSON texts."""

    id: str
    execution: str
    name: str
    version: str
    input: str | None
    status: RuntimeStatus
    custom_status: str | None
    #: JSON text if it completed, plain text of the error or the reason otherwise.
    output: str | None
    created: str
    updated: str

    @classmethod
    def of(cls, row: Sequence[Any]) -> Self:
        """Make it from a row in the order of `COLUMNS`."""
        id_, execution, name, version, input_text, status, custom_status, output, created, updated = row
        return cls(
            *(id_, execution, name, version, input_text),
            status=RuntimeStatus[status],
            custom_status=custom_status,
            output=output,
            created=created,
            updated=updated,
        )


COLUMNS = "id, execution, name, version, input, status, custom_status, output, created, updated"


@dataclass(frozen=True, slots=True)
class InstanceMessage:
    """A pending event for an instance."""

    number: int
    instance: str
    #: The generation it is for; None: the current one.
    execution: str | None
    #: When it is due, in seconds since 1970; 0: at once.
    due: float
    event: Event
    #: The event's JSON.
    text: str

    @classmethod
    def of(cls, row: Sequence[Any]) -> Self:
        """Make it from an inbox row."""
        number, instance, execution, due, text = row
        return cls(number, instance, execution, due, decode(text), text)


@dataclass(frozen=True, slots=True)
class PendingActivity:
    """An activity that is scheduled and not completed."""

    number: int
    instance: str
    execution: str
    task: int
    name: str
    #: JSON text; None for nothing.
    input: str | None


@dataclass(slots=True)
class Changes:
    """The writes of one transaction."""

    statements: list[Statement] = field(default_factory=list)

    def _add(self, sql: str, *parameters: object) -> Self:
        self.statements.append((sql, parameters))
        return self

    def create_instance(self, row: InstanceRow, place: int) -> Self:
        """Write a new instance over a finished one of its id; the commit fails if that instance is live."""
        self.forget_instance(row.id)
        return self._add(
            f"INSERT INTO instances({COLUMNS}, place) VALUES(?,?,?,?,?,?,?,?,?,?,?)",
            *(row.id, row.execution, row.name, row.version, row.input, row.status.name),
            *(row.custom_status, row.output, row.created, row.updated, place),
        )

    def forget_instance(self, instance: str) -> Self:
        """Delete an instance that is not live, its history and its messages."""
        self._add(f"DELETE FROM instances WHERE id=? AND NOT {ALIVE}", instance)  # noqa: S608 - constants
        for table in ("history", "inbox"):
            is_gone = "NOT EXISTS (SELECT 1 FROM instances WHERE id=instance)"
            self._add(f"DELETE FROM {table} WHERE instance=? AND {is_gone}", instance)  # noqa: S608 - constants
        return self

    def move_instances(self, ended: int, place: int) -> Self:
        """Move the live instances and the activities of a host that has ended to another place."""
        self._add(f"UPDATE instances SET place=? WHERE place=? AND {ALIVE}", place, ended)  # noqa: S608 - constants
        return self._add("UPDATE activities SET place=? WHERE place=?", place, ended)

    def forget_orphans(self) -> Self:
        """Delete messages that arrived just after their instance ended."""
        alive = f"SELECT id FROM instances WHERE {ALIVE}"  # noqa: S608 - constants
        return self._add(f"DELETE FROM inbox WHERE instance NOT IN ({alive})")  # noqa: S608 - constants

    def forget_generation(self, instance: str, execution: str) -> Self:
        """Delete the history, messages and timers of one generation of an instance."""
        self._add("DELETE FROM history WHERE instance=?", instance)
        return self._add("DELETE FROM inbox WHERE instance=? AND execution=?", instance, execution)

    def forget_messages(self, instance: str) -> Self:
        """Delete all messages and timers of an instance."""
        return self._add("DELETE FROM inbox WHERE instance=?", instance)

    def update_status(
        self,
        instance: str,
        status: RuntimeStatus,
        custom_status: str | None,
        output: str | None,
        updated: str,
    ) -> Self:
        """Write the outcome of an episode."""
        return self._add(
            "UPDATE instances SET status=?, custom_status=?, output=?, updated=? WHERE id=?",
            *(status.name, custom_status, output, updated, instance),
        )

    def begin_generation(
        self, instance: str, execution: str, input_text: str, custom_status: str | None, updated: str
    ) -> Self:
        """Start the next generation of an instance that continues as new."""
        return self._add(
            "UPDATE instances SET execution=?, input=?, status=?, custom_status=?, updated=? WHERE id=?",
            *(execution, input_text, RuntimeStatus.ContinuedAsNew.name, custom_status, updated, instance),
        )

    def add_episode(self, instance: str, episode: int, events: str) -> Self:
        """Append an episode's events to history."""
        return self._add("INSERT INTO history VALUES(?,?,?)", instance, episode, events)

    def add_message(self, message: InstanceMessage, *, posted: bool = False) -> Self:
        """Put a message in an inbox; `posted` if another host runs its instance."""
        return self._add(
            "INSERT INTO inbox VALUES(?,?,?,?,?,?)",
            *(message.number, message.instance, message.execution, message.due, message.text, posted),
        )

    def receive_messages(self, messages: Iterable[InstanceMessage]) -> Self:
        """Record that the host of their instances has received posted messages."""
        for message in messages:
            self._add("UPDATE inbox SET posted=0 WHERE number=?", message.number)
        return self

    def take_messages(self, messages: Iterable[InstanceMessage]) -> Self:
        """Delete messages that have been processed."""
        for message in messages:
            self._add("DELETE FROM inbox WHERE number=?", message.number)
        return self

    def add_activity(self, activity: PendingActivity, place: int) -> Self:
        """Schedule an activity."""
        return self._add(
            "INSERT INTO activities VALUES(?,?,?,?,?,?,?)",
            *(activity.number, activity.instance, activity.execution, activity.task),
            *(activity.name, activity.input, place),
        )

    def take_activity(self, number: int) -> Self:
        """Delete an activity that has completed."""
        return self._add("DELETE FROM activities WHERE number=?", number)
