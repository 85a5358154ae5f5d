"""Rows of a table by partition and key, with ETags; what is refused is refused as Table Storage does."""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from http import HTTPStatus
from itertools import count
from typing import Any

#: Limits of Table Storage, in bytes.
_MOST_PROPERTY_BYTES = 64 * 1024
_MOST_ENTITY_BYTES = 1024 * 1024
_BAD_IN_KEYS = re.compile(r"[/\\#?\x00-\x1f\x7f-\x9f]")


class Change(StrEnum):
    """What is done to a row."""

    #: It must not be there yet.
    CREATE = "create"
    #: Its properties are replaced.
    REPLACE = "replace"
    #: Its properties are added to.
    MERGE = "merge"
    #: It goes.
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class RowChange:
    """One row's change; without a `condition` (an ETag, or `*`), a row that is not there is created."""

    change: Change
    partition: str
    key: str
    properties: Mapping[str, Any]
    condition: str | None = None


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A row: its properties as JSON has them, types beside their values."""

    properties: Mapping[str, Any]
    etag: str
    changed_at: datetime


class RefusedError(Exception):
    """A change is refused, with HTTP's status and the service's code."""

    def __init__(self, status: HTTPStatus, code: str) -> None:
        super().__init__(code)
        self.status = status
        self.code = code


class Partition:
    """The rows of one partition, in the order of their keys."""

    def __init__(self) -> None:
        self.rows: dict[str, StoredRow] = {}
        self.keys: list[str] = []

    def put(self, key: str, row: StoredRow | None) -> StoredRow | None:
        """Put a row in its place, or take it away; give what was there."""
        before = self.rows.get(key)
        if row is None:
            if before is not None:
                del self.rows[key]
                self.keys.remove(key)
        else:
            self.rows[key] = row
            if before is None:
                bisect.insort(self.keys, key)
        return before


class Rows:
    """One table."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self.partitions: dict[str, Partition] = {}
        self._versions = count(1)
        #: Is told of every transaction that was made.
        self.watch: Callable[[Sequence[RowChange]], None] = lambda _changes: None

    def get(self, partition: str, key: str) -> StoredRow | None:
        """Find a row."""
        there = self.partitions.get(partition)
        return None if there is None else there.rows.get(key)

    def between(
        self, partition: str | None, first: str, after: tuple[str, str] | None
    ) -> Iterator[StoredRow]:
        """Give the rows from a key on, or from a place on, in the order of their keys."""
        names = sorted(self.partitions) if partition is None else [partition]
        for name in names:
            there = self.partitions.get(name)
            if there is None or (after is not None and name < after[0]):
                continue
            begin = max(first, after[1]) if after is not None and name == after[0] else first
            for key in there.keys[bisect.bisect_left(there.keys, begin) :]:
                yield there.rows[key]

    def change(self, changes: list[RowChange]) -> list[str]:
        """Make all changes or none; give the new ETags. Raises `RefusedError` with the number of the row."""
        done: list[tuple[RowChange, StoredRow | None]] = []
        etags = []
        try:
            for number, each in enumerate(changes):
                try:
                    row = self._changed(each)
                except RefusedError as refused:
                    refused.args = (number,)
                    raise
                done.append((each, self._partition(each).put(each.key, row)))
                etags.append("" if row is None else row.etag)
        except RefusedError:
            for each, before in reversed(done):
                self._partition(each).put(each.key, before)
            raise
        self.watch(changes)
        return etags

    def _partition(self, change: RowChange) -> Partition:
        return self.partitions.setdefault(change.partition, Partition())

    def _changed(self, change: RowChange) -> StoredRow | None:
        there = self.get(change.partition, change.key)
        if change.change is Change.CREATE:
            if there is not None:
                raise RefusedError(HTTPStatus.CONFLICT, "EntityAlreadyExists")
        elif change.condition is not None:
            if there is None:
                raise RefusedError(HTTPStatus.NOT_FOUND, "ResourceNotFound")
            if change.condition not in {"*", there.etag}:
                raise RefusedError(HTTPStatus.PRECONDITION_FAILED, "UpdateConditionNotSatisfied")
        if change.change is Change.DELETE:
            return None
        merged = change.change is Change.MERGE and there is not None
        properties = {**(there.properties if merged and there else {}), **change.properties}
        properties |= {"PartitionKey": change.partition, "RowKey": change.key}
        _check(properties)
        return StoredRow(properties, f"W/\"datetime'{next(self._versions)}'\"", self._now())


def _check(properties: Mapping[str, Any]) -> None:
    for key in (properties["PartitionKey"], properties["RowKey"]):
        if _BAD_IN_KEYS.search(key) or len(key) > 512:
            raise RefusedError(HTTPStatus.BAD_REQUEST, "OutOfRangeInput")
    sizes = [
        _size(value, properties.get(f"{name}@odata.type"))
        for name, value in properties.items()
        if "@" not in name
    ]
    if max(sizes) > _MOST_PROPERTY_BYTES:
        raise RefusedError(HTTPStatus.BAD_REQUEST, "PropertyValueTooLarge")
    if sum(sizes) > _MOST_ENTITY_BYTES:
        raise RefusedError(HTTPStatus.BAD_REQUEST, "EntityTooLarge")


def _size(value: Any, kind: str | None) -> int:
    if not isinstance(value, str):
        return 8
    return len(value) * 3 // 4 if kind == "Edm.Binary" else 2 * len(value)  # texts are UTF-16
