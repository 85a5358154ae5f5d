"""The simulated table service: its transport, entity groups, and its connection at start."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from http import HTTPStatus
from random import Random
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

from azure.core.exceptions import ServiceRequestError, ServiceResponseError
from azure.core.pipeline.transport import AsyncHttpTransport, HttpTransport
from azure.core.utils import case_insensitive_dict
from azure.data.tables import TableServiceClient

from tests.simulation.hosts.host import Seam
from tests.simulation.tables.rows import (
    AnyOf,
    Change,
    RefusedError,
    RowChange,
    Rows,
    StoredRow,
    Term,
    terms_of,
)
from tests.simulation.world.world import AnswerLostFault, BusyFault, NotSentFault

_OPERATION = re.compile(
    rb"\r\n\r\n(?P<method>POST|PUT|MERGE|PATCH|DELETE) (?P<url>\S+) HTTP/1\.1\r\n"
    rb"(?P<headers>(?:[^\r\n]+\r\n)*)\r\n(?P<body>[^\r\n]*)"
)
_KEYS = re.compile(r"/(\w+)(?:\(PartitionKey='((?:[^']|'')*)',RowKey='((?:[^']|'')*)'\))?")
_IF_MATCH = re.compile(rb"^If-Match: *([^\r\n]+)", re.MULTILINE | re.IGNORECASE)
_METHODS = {b"PUT": Change.REPLACE, b"MERGE": Change.MERGE, b"PATCH": Change.MERGE, b"DELETE": Change.DELETE}

_START = "--batchresponse_1\r\nContent-Type: multipart/mixed; boundary=changesetresponse_2\r\n\r\n"
_PART = (
    "--changesetresponse_2\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n"
    "HTTP/1.1 {status}\r\n{headers}\r\n{content}\r\n"
)
_END = "--changesetresponse_2--\r\n--batchresponse_1--"


@dataclass(frozen=True, slots=True)
class GroupChange:
    """One operation of a group."""

    table: str
    row_change: RowChange

    @property
    def partition(self) -> str:
        """Name the partition."""
        return self.row_change.partition

    @property
    def key(self) -> str:
        """Name the row."""
        return self.row_change.key

    @property
    def change(self) -> Change:
        """Tell what is done."""
        return self.row_change.change


@lru_cache(maxsize=8)
def group_changes(body: bytes) -> tuple[GroupChange, ...]:
    """Read the operations of a group."""
    return tuple(map(_change, _OPERATION.finditer(body)))


def _change(found: re.Match[bytes]) -> GroupChange:
    address = _KEYS.fullmatch(unquote(urlsplit(found["url"].decode("ascii")).path))
    if address is None:
        raise NotImplementedError(found["url"].decode())
    table, partition, key = address.groups()
    properties: Mapping[str, Any] = json.loads(found["body"]) if found["body"] else {}
    if found["method"] == b"POST":
        change = RowChange(Change.CREATE, properties["PartitionKey"], properties["RowKey"], properties)
    else:
        condition = _IF_MATCH.search(found["headers"])
        etag = condition[1].decode("ascii") if condition else None
        keys = partition.replace("''", "'"), key.replace("''", "'")
        change = RowChange(_METHODS[found["method"]], *keys, properties, etag)
    return GroupChange(table, change)


def group_answer(result: list[str] | RefusedError) -> bytes:
    """Write the answer: an ETag for each operation, or the one that was refused."""
    if isinstance(result, RefusedError):
        [number] = result.args
        text = f"{number}:{result.code}\nRequestId:1"
        error = {"odata.error": {"code": result.code, "message": {"lang": "en-us", "value": text}}}
        status = f"{result.status.value} {result.status.phrase}"
        parts = _PART.format(status=status, headers="", content=json.dumps(error))
    else:
        headers = [f"ETag: {etag}\r\n" if etag else "" for etag in result]
        parts = "".join(_PART.format(status="204 No Content", headers=each, content="") for each in headers)
    return f"{_START}{parts}{_END}".encode()


_BUSY = {"odata.error": {"code": "ServerBusy", "message": {"lang": "en-us", "value": "busy"}}}


class SimulatedAnswer:
    """An answer as azure-core's policies and the SDKs read it."""

    def __init__(self, request: Any, answer: Answer) -> None:
        self.request = request
        self.status_code = int(answer.status)
        self.headers = case_insensitive_dict(answer.headers)
        self.content = answer.content
        self.content_type = self.headers.get("Content-Type")
        self.reason = ""

    def body(self) -> bytes:
        """Give the content."""
        return self.content

    def text(self, _encoding: str | None = None) -> str:
        """Give the content as text."""
        return self.content.decode()

    def json(self) -> Any:
        """Give the content, read."""
        return json.loads(self.content)

    async def read(self) -> bytes:
        """Give the content."""
        return self.content


class SimulatedTransport(AsyncHttpTransport[Any, Any]):
    """Carries requests; each can be refused, or its answer be lost, as its fate says."""

    def __init__(self, service: TableService, seam: Seam) -> None:
        self._service = service
        self._seam = seam

    async def send(self, request: Any, **_: object) -> Any:
        """Send a request. Raises `AzureError`."""
        asked = asked_of(request)
        try:
            answer = await self._seam.carry_out(str(asked), lambda: self._service.answer(asked))
        except NotSentFault as fault:
            raise ServiceRequestError(f"not connected: {fault}") from fault
        except AnswerLostFault as fault:
            raise ServiceResponseError(f"no answer: {fault}") from fault
        except BusyFault:
            answer = Answer(503, json.dumps(_BUSY).encode(), {"Content-Type": "application/json"})
        return SimulatedAnswer(request, answer)

    async def sleep(self, duration: float) -> None:
        """Wait before a retry."""
        await asyncio.sleep(duration)

    async def open(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        """Do nothing."""


def asked_of(request: Any) -> Asked:
    """Read a request of either of azure-core's kinds."""
    content = getattr(request, "content", None)
    data = getattr(request, "data", None) if content is None else content
    body = data.encode() if isinstance(data, str) else data or b""
    headers = {name.lower(): value for name, value in request.headers.items()}
    return Asked(request.method, request.url, headers, body)


class _AtOnce(HttpTransport[Any, Any]):
    """Carries requests at once."""

    def __init__(self, service: TableService) -> None:
        self._service = service

    def send(self, request: Any, **_: object) -> Any:
        """Send a request."""
        return SimulatedAnswer(request, self._service.answer(asked_of(request)))

    def open(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        """Do nothing."""


def client_at_start(service: TableService, connection: Any) -> TableServiceClient:
    """Make the client."""
    text: str = connection.connection_string
    return TableServiceClient.from_connection_string(text, transport=_AtOnce(service))


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
