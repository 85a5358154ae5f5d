"""The live instances, in memory: their pending messages and, for recent ones, their history."""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from functions_local.durable.database import Database
from functions_local.durable.event_json import from_body
from functions_local.durable.events import Event, EventRaised
from functions_local.durable.store import ALIVE, COLUMNS, InstanceMessage, InstanceRow

_log = logging.getLogger(__name__)

#: Histories kept in memory. Other histories are read when their instance receives a message.
_HISTORIES_KEPT = 10_000
#: Number of histories that one removal checks.
_LOOKED_AT = 8


@dataclass(slots=True)
class History:
    """The committed history of one generation, parsed for the Shim and as text for the SDK."""

    events: list[Event] = field(default_factory=list)
    #: The events' JSON, one text for each episode.
    episodes: list[str] = field(default_factory=list)

    def append(self, events: Iterable[Event], text: str) -> None:
        """Add an episode."""
        self.episodes.append(text)
        self.events.extend(events)


@dataclass(slots=True, eq=False)
class LiveInstance:
    """An instance that is not finished."""

    id: str
    #: Id of its generation.
    execution: str
    name: str
    version: str
    #: JSON text.
    input: str | None
    custom_status: str | None = None
    #: Committed messages that no episode has taken yet.
    inbox: list[InstanceMessage] = field(default_factory=list)
    #: Whether an episode is running or queued.
    scheduled: bool = False


class LiveInstances:
    """All live instances by id."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._live: dict[str, LiveInstance] = {}
        self._histories: OrderedDict[str, History] = OrderedDict()

    def __len__(self) -> int:
        return len(self._live)

    def load(self, place: int) -> None:
        """Read the live instances of a place that are not in memory; histories are read when needed."""
        sql = f"SELECT {COLUMNS} FROM instances WHERE place=? AND {ALIVE}"  # noqa: S608 - constants
        for row in map(InstanceRow.of, self._database.query(sql, (place,))):
            if row.id not in self._live:
                self._add(row)

    def begin(self, row: InstanceRow) -> None:
        """Add a new instance."""
        self._add(row)
        self._histories[row.id] = History()

    def _add(self, row: InstanceRow) -> None:
        self._live[row.id] = LiveInstance(
            row.id, row.execution, row.name, row.version, row.input, row.custom_status
        )

    def get(self, instance: str, execution: str | None = None) -> LiveInstance | None:
        """Return the live instance of that id (and, if given, that generation), or None."""
        live = self._live.get(instance)
        if live is None or execution not in {None, live.execution}:
            return None
        return live

    def end(self, instance: str) -> None:
        """Remove an instance that is finished, with the messages that arrived too late."""
        if (live := self._live.pop(instance, None)) is not None:
            report_dropped(live.inbox)
            live.inbox.clear()
        self._histories.pop(instance, None)

    def begin_generation(self, instance: LiveInstance, execution: str, input_text: str) -> None:
        """Continue an instance with a new generation and an empty history."""
        instance.execution, instance.input = execution, input_text
        self._histories[instance.id] = History()

    def history_of(self, instance: LiveInstance) -> History:
        """Return an instance's history, from memory or from the database."""
        history = self._histories.get(instance.id)
        if history is None:
            history = self._histories[instance.id] = self._read(instance.id)
        self._histories.move_to_end(instance.id)
        if len(self._histories) > _HISTORIES_KEPT:
            self._forget_idle_histories()
        return history

    def _read(self, instance: str) -> History:
        history = History()
        sql = "SELECT events FROM history WHERE instance=? ORDER BY episode"
        for (text,) in self._database.query(sql, (instance,)):
            history.append(map(from_body, json.loads(f"[{text}]")), text)
        return history

    def _forget_idle_histories(self) -> None:
        """Drop idle histories among the least recently used; a few each time, because it is called often."""
        oldest = list(islice(self._histories, _LOOKED_AT))
        for instance in oldest:
            if not self._live[instance].scheduled:
                del self._histories[instance]


def report_dropped(messages: Iterable[InstanceMessage]) -> None:
    """Log the dropped messages of clients, accepted just before their instance ended."""
    for message in messages:
        if message.execution is None:
            event = message.event
            what = f"Event '{event.name}'" if isinstance(event, EventRaised) else event.kind.name
            _log.info("%s for orchestration %s arrived as it ended, and is dropped", what, message.instance)
