"""Table Storage: reads requests of its REST API, and answers them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from random import Random
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.simulation.tables.filters import AnyOf, Term, terms_of
from tests.simulation.tables.groups import group_answer, group_changes
from tests.simulation.tables.rows import Change, RefusedError, RowChange, Rows, StoredRow

_ENTITY = re.compile(r"/(\w+)\(PartitionKey='((?:[^']|'')*)',\s*RowKey='((?:[^']|'')*)'\)")
_MOST_ROWS = 1_000
_CHANGES = {"PUT": Change.REPLACE, "PATCH": Change.MERGE, "MERGE": Change.MERGE, "DELETE": Change.DELETE}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, as it arrives. Headers have names in lower case."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_read(self) -> bool:
        """Tell whether it changes nothing."""
        return self.method == "GET"

    def __str__(self) -> str:
        address = urlsplit(self.url)
        what = unquote(f"{address.path}?{address.query}" if address.query else address.path)
        if address.path.endswith("$batch"):
            changes = group_changes(self.body)
            told = " ".join(f"{each.change}:{each.key}" for each in changes)
            return f"group {changes[0].partition if changes else ''} {told}"
        return f"{self.method} {what}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What is answered."""

    status: int
    content: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class TableService:
    """One account. The part `torn` of the pages is short, as the service's may be."""

    def __init__(self, chance: Random, now: Callable[[], datetime]) -> None:
        self.tables: dict[str, Rows] = {}
        self.torn = 0.0
        self.on_torn: Callable[[], None] = lambda: None
        self._chance = chance
        self._now = now

    def answer(self, asked: Asked) -> Answer:
        """Carry a request out."""
        address = urlsplit(asked.url)
        path = unquote(address.path)
        try:
            if path == "/$batch":
                return self._group(asked)
            if path == "/Tables":
                return self._create_table(asked)
            entity = _ENTITY.fullmatch(path)
            if entity is None:
                return self._table(asked, path.strip("/").removesuffix("()"), address.query)
            table, partition, key = (part.replace("''", "'") for part in entity.groups())
            return self._row(asked, self._rows(table), partition, key, address.query)
        except RefusedError as refused:
            return _refusal(refused)

    def _rows(self, table: str) -> Rows:
        if table not in self.tables:
            raise RefusedError(HTTPStatus.NOT_FOUND, "TableNotFound")
        return self.tables[table]

    def _create_table(self, asked: Asked) -> Answer:
        name = json.loads(asked.body)["TableName"]
        if name in self.tables:
            raise RefusedError(HTTPStatus.CONFLICT, "TableAlreadyExists")
        self.tables[name] = Rows(self._now)
        return Answer(HTTPStatus.CREATED, json.dumps({"TableName": name}).encode(), _JSON)

    def _group(self, asked: Asked) -> Answer:
        changes = group_changes(asked.body)
        tables = {each.table for each in changes}
        partitions = {each.partition for each in changes}
        if len(tables) != 1 or len(partitions) != 1 or len(changes) > 100 or len(asked.body) > 4 * 2**20:
            raise RefusedError(HTTPStatus.BAD_REQUEST, "InvalidInput")
        if len({each.key for each in changes}) != len(changes):
            raise RefusedError(HTTPStatus.BAD_REQUEST, "InvalidDuplicateRow")
        try:
            etags = self._rows(tables.pop()).change([each.row_change for each in changes])
        except RefusedError as refused:
            return Answer(HTTPStatus.ACCEPTED, group_answer(refused), _MIXED)
        return Answer(HTTPStatus.ACCEPTED, group_answer(etags), _MIXED)

    def _row(self, asked: Asked, rows: Rows, partition: str, key: str, query: str) -> Answer:
        if asked.is_read:
            row = rows.get(partition, key)
            if row is None:
                raise RefusedError(HTTPStatus.NOT_FOUND, "ResourceNotFound")
            shown = _shown(row, asked, _selected(parse_qs(query)))
            return Answer(HTTPStatus.OK, json.dumps(shown).encode(), {**_JSON, "ETag": row.etag})
        properties = json.loads(asked.body) if asked.body else {}
        condition = asked.headers.get("if-match")
        change = RowChange(_CHANGES[asked.method], partition, key, properties, condition)
        [etag] = rows.change([change])
        return Answer(HTTPStatus.NO_CONTENT, headers={"ETag": etag} if etag else {})

    def _table(self, asked: Asked, table: str, query: str) -> Answer:
        rows = self._rows(table)
        if asked.is_read:
            return self._page(asked, rows, parse_qs(query))
        properties = json.loads(asked.body)
        created = RowChange(Change.CREATE, properties["PartitionKey"], properties["RowKey"], properties)
        [etag] = rows.change([created])
        return Answer(HTTPStatus.NO_CONTENT, headers={"ETag": etag})

    def _page(self, asked: Asked, rows: Rows, query: Mapping[str, list[str]]) -> Answer:
        terms = terms_of(query["$filter"][0]) if "$filter" in query else ()
        most = min(int(query.get("$top", ["1000"])[0]), _MOST_ROWS)
        if self.torn and self._chance.random() < self.torn:
            most = self._chance.randint(0, min(most, 5))
            self.on_torn()
        after = None
        if "NextPartitionKey" in query:
            after = query["NextPartitionKey"][0], query.get("NextRowKey", [""])[0]
        found: list[StoredRow] = []
        following: dict[str, str] = {}
        for row in _looked_at(rows, terms, after):
            if not all(term.holds(row.properties) for term in terms):
                continue
            if len(found) == most:
                following = {
                    "x-ms-continuation-NextPartitionKey": row.properties["PartitionKey"],
                    "x-ms-continuation-NextRowKey": row.properties["RowKey"],
                }
                break
            found.append(row)
        selected = _selected(query)
        content = json.dumps({"value": [_shown(row, asked, selected) for row in found]}).encode()
        return Answer(HTTPStatus.OK, content, {**_JSON, **following})


_JSON = {"Content-Type": "application/json"}
_MIXED = {"Content-Type": "multipart/mixed; boundary=batchresponse_1"}


def _looked_at(
    rows: Rows, terms: tuple[Term | AnyOf, ...], after: tuple[str, str] | None
) -> Iterator[StoredRow]:
    """Give the rows that the keys in the filter leave."""
    named = {(each.name, each.by): str(each.value) for each in terms if isinstance(each, Term)}
    partition = named.get(("PartitionKey", "eq"))
    first = named.get(("RowKey", "ge"), named.get(("RowKey", "gt"), ""))
    end = named.get(("RowKey", "lt"), named.get(("RowKey", "le")))
    for row in rows.between(partition, first, after):
        if partition is not None and end is not None and row.properties["RowKey"] > end:
            return
        yield row


def _selected(query: Mapping[str, list[str]]) -> frozenset[str] | None:
    return frozenset(query["$select"][0].split(",")) if "$select" in query else None


def _shown(row: StoredRow, asked: Asked, selected: frozenset[str] | None) -> dict[str, Any]:
    shown = {
        name: value
        for name, value in row.properties.items()
        if selected is None or name.partition("@")[0] in selected
    }
    if selected is None or "Timestamp" in selected:
        shown["Timestamp"] = f"{row.changed_at:%Y-%m-%dT%H:%M:%S.%fZ}"
    if "nometadata" in asked.headers.get("accept", ""):
        return {name: value for name, value in shown.items() if "@" not in name}
    return {"odata.etag": row.etag, **shown}


def _refusal(refused: RefusedError) -> Answer:
    error = {"odata.error": {"code": refused.code, "message": {"lang": "en-us", "value": refused.code}}}
    return Answer(refused.status, json.dumps(error).encode(), {**_JSON, "x-ms-error-code": refused.code})
