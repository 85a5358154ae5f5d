"""Finds instances: one by id, many by filter and page, and the history of one."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from functions_local.durable.database import Database
from functions_local.durable.events import RuntimeStatus
from functions_local.durable.refusals import BadRequestError
from functions_local.durable.store import COLUMNS, InstanceRow

#: Events as parsed JSON objects.
type Bodies = list[dict[str, Any]]

_SELECT = f"SELECT {COLUMNS} FROM instances"  # noqa: S608 - a constant


@dataclass(frozen=True, slots=True)
class InstanceFilter:
    """Conditions of a list. Times are texts as in history; both limits are inclusive."""

    created_from: str | None = None
    created_to: str | None = None
    #: Empty: any.
    statuses: Sequence[RuntimeStatus] = ()
    id_prefix: str = ""

    def where(self) -> tuple[str, list[Any]]:
        """Return the SQL condition and its parameters."""
        conditions, parameters = ["substr(id, 1, ?) = ?"], [len(self.id_prefix), self.id_prefix]
        if self.created_from is not None:
            conditions.append("created >= ?")
            parameters.append(self.created_from)
        if self.created_to is not None:
            conditions.append("created <= ?")
            parameters.append(self.created_to)
        if self.statuses:
            conditions.append(f"status IN ({','.join('?' * len(self.statuses))})")
            parameters += [status.name for status in self.statuses]
        return " AND ".join(conditions), parameters


@dataclass(frozen=True, slots=True)
class Page:
    """Some instances, oldest first."""

    rows: list[InstanceRow]
    #: The token for the next page; None: this is the last.
    continuation: str | None


def find_instance(database: Database, instance: str) -> InstanceRow | None:
    """Return the committed row of an instance, or None."""
    rows = database.query(f"{_SELECT} WHERE id=?", (instance,))
    return InstanceRow.of(rows[0]) if rows else None


def list_instances(database: Database, filter_: InstanceFilter, size: int, continuation: str | None) -> Page:
    """Return at most `size` instances after a continuation token. Raises BadRequestError."""
    condition, parameters = filter_.where()
    if continuation:
        condition += " AND (created, id) > (?, ?)"
        parameters += _read_token(continuation)
    sql = f"{_SELECT} WHERE {condition} ORDER BY created, id LIMIT ?"
    rows = [InstanceRow.of(row) for row in database.query(sql, [*parameters, size + 1])]
    more = len(rows) > size
    rows = rows[:size]
    last = json.dumps([rows[-1].created, rows[-1].id]).encode() if more else None
    return Page(rows, None if last is None else base64.urlsafe_b64encode(last).decode())


def list_finished(database: Database, filter_: InstanceFilter) -> list[str]:
    """Return the ids of all finished instances that match."""
    condition, parameters = filter_.where()
    finished = [status.name for status in RuntimeStatus if status.is_terminal]
    sql = f"SELECT id FROM instances WHERE {condition} AND status IN ({','.join('?' * len(finished))})"  # noqa: S608
    return [id_ for (id_,) in database.query(sql, [*parameters, *finished])]


def history_bodies(database: Database, instance: str) -> Bodies:
    """Return the history of an instance as parsed JSON objects."""
    sql = "SELECT events FROM history WHERE instance=? ORDER BY episode"
    episodes = [text for (text,) in database.query(sql, (instance,))]
    bodies: Bodies = json.loads(f"[{','.join(episodes)}]")
    return bodies


def _read_token(token: str) -> list[str]:
    with suppress(binascii.Error, ValueError):
        match json.loads(base64.urlsafe_b64decode(token)):
            case [str(created), str(id_)]:
                return [created, id_]
    raise BadRequestError("The continuation token was not issued by this host.")
