"""The rows of a simulated table, and the filters of queries."""

from __future__ import annotations

import bisect
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from http import HTTPStatus
from itertools import count
from typing import Any

_TERM = re.compile(
    r"\s*(?P<name>\w+) (?P<by>eq|ne|ge|gt|le|lt) "
    r"(?:(?P<kind>datetime)?'(?P<text>(?:[^']|'')*)'|(?P<bare>[^\s']+))\s*(?:and|$)"
)
#: What is joined by `or` stands in brackets, and has none inside.
_ANY = re.compile(r"\s*\((?P<any>[^()]*)\)\s*(?:and|$)")
_BY: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "ge": operator.ge,
    "gt": operator.gt,
    "le": operator.le,
    "lt": operator.lt,
}


@dataclass(frozen=True, slots=True)
class Term:
    """One comparison."""

    name: str
    by: str
    value: str | int | float | bool | datetime

    def holds(self, properties: Mapping[str, Any]) -> bool:
        """Tell whether it is true of a row; a property that is not there has no value."""
        there = properties.get(self.name)
        if there is None:
            return False
        if isinstance(self.value, datetime):
            there = datetime.fromisoformat(there)
        return type(there) is type(self.value) and _BY[self.by](there, self.value)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Filters of which one has to hold."""

    filters: tuple[tuple[Term | AnyOf, ...], ...]

    def holds(self, properties: Mapping[str, Any]) -> bool:
        """Tell whether one is true of a row."""
        return any(all(term.holds(properties) for term in each) for each in self.filters)


@lru_cache(maxsize=512)
def terms_of(text: str) -> tuple[Term | AnyOf, ...]:
    """Read a filter; all its terms have to hold. Raises `NotImplementedError` for what nobody writes."""
    terms: list[Term | AnyOf] = []
    place = 0
    while place < len(text):
        found = _ANY.match(text, place) or _TERM.match(text, place)
        if found is None:
            raise NotImplementedError(f"filter: {text}")
        if found.re is _ANY:
            terms.append(AnyOf(tuple(map(terms_of, found["any"].split(" or ")))))
        else:
            terms.append(Term(found["name"], found["by"], _value(found)))
        place = found.end()
    return tuple(terms)


def _value(found: re.Match[str]) -> str | int | float | bool | datetime:
    if found["bare"] is not None:
        bare: str = found["bare"]
        if bare in {"true", "false"}:
            return bare == "true"
        return float(bare) if "." in bare else int(bare.rstrip("L"))
    text: str = found["text"].replace("''", "'")
    return datetime.fromisoformat(text) if found["kind"] else text


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
