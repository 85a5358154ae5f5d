"""Hosts that share one database: a host resumes the work of an ended host and receives its messages.

The lock of a place is its lease: it ends with the process, so no two hosts run one instance.
"""

from __future__ import annotations

import asyncio
import sqlite3
from functools import partial

from functions_local.durable.database import Database
from functions_local.durable.dispatcher import Dispatcher
from functions_local.durable.instances import LiveInstances
from functions_local.durable.store import ALIVE, Changes, InstanceMessage, PendingActivity

#: Seconds between two queries for places of ended hosts and for posted messages.
_LOOK_EVERY = 0.25
_MESSAGE = "number, instance, inbox.execution, due, event"


class Sharing:
    """Resumes the work of ended hosts, and receives the messages that running hosts posted."""

    def __init__(self, database: Database, instances: LiveInstances, dispatcher: Dispatcher) -> None:
        self._database = database
        self._instances = instances
        self._dispatcher = dispatcher
        self._next_look: asyncio.TimerHandle | None = None

    def start(self, *, is_shared: bool) -> None:
        """Resume the work of this place and of all ended hosts; if `is_shared`, repeat until `close`."""
        self._adopt(self._database.place)
        self._adopt_ended()
        if is_shared:
            self._next_look = asyncio.get_running_loop().call_later(_LOOK_EVERY, self._look)

    def close(self) -> None:
        """Stop adopting work and receiving messages."""
        if self._next_look is not None:
            self._next_look.cancel()

    def _look(self) -> None:
        self._next_look = asyncio.get_running_loop().call_later(_LOOK_EVERY, self._look)
        self._receive()
        self._adopt_ended()

    def _receive(self) -> None:
        """Deliver the messages that other hosts posted for instances of this one."""
        sql = f"""SELECT {_MESSAGE} FROM inbox INDEXED BY inbox_posted CROSS JOIN instances ON id=instance
            WHERE posted AND place=? AND {ALIVE} ORDER BY number"""  # noqa: S608 - constants
        messages = [InstanceMessage.of(row) for row in self._database.query(sql, (self._database.place,))]
        if messages:
            changes = Changes().receive_messages(messages)
            self._database.commit(changes.statements, lambda: self._dispatcher.deliver(messages))

    def _adopt_ended(self) -> None:
        sql = f"SELECT DISTINCT place FROM instances WHERE {ALIVE} AND place<>?"  # noqa: S608 - constants
        for (place,) in self._database.query(sql, (self._database.place,)):
            if (lock := self._database.lock_of(place)) is not None:
                # The place stays locked until its rows have moved: a host that starts there finds none.
                self._adopt(place).add_done_callback(partial(_close, lock))

    def _adopt(self, place: int) -> asyncio.Future[None]:
        """Move the work of a place that this host has locked to its own place, and resume it."""
        sql = f"""SELECT {_MESSAGE} FROM instances JOIN inbox ON instance=id
            WHERE place=? AND {ALIVE} ORDER BY number"""  # noqa: S608 - constants
        messages = [InstanceMessage.of(row) for row in self._database.query(sql, (place,))]
        columns = "number, instance, execution, task, name, input"
        sql = f"SELECT {columns} FROM activities WHERE place=? ORDER BY number"  # noqa: S608 - constants
        activities = [PendingActivity(*row) for row in self._database.query(sql, (place,))]
        changes = Changes().move_instances(place, self._database.place).receive_messages(messages)

        def proceed() -> None:
            self._instances.load(self._database.place)
            self._dispatcher.deliver(messages)
            self._dispatcher.run_activities(activities)

        return self._database.commit(changes.statements, proceed)


def _close(lock: sqlite3.Connection, _: asyncio.Future[None]) -> None:
    lock.close()
