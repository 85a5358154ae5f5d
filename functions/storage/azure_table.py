"""A table of one storage account over one `aiohttp` session: transactions, point reads and queries by pages.

Faults are retried with backoff and jitter. A transaction that was repeated may conflict with itself; its
sender finds the id of its own write in the task row.

Entity group transactions are built and parsed as bytes (REST of Table Storage): azure-data-tables uses
Python's `email` package, which takes most of the CPU time of a busy host.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import re
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from email.utils import formatdate
from functools import lru_cache, partial
from io import BytesIO
from random import random
from time import time
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp
from azure.core.credentials import AzureNamedKeyCredential
from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json
from yarl import URL

from functions.core.definition.step_definition import Retry
from functions.service_credentials import BearerToken, NoTokenError
from functions.storage.table_contract import (
    RefusedChanges,
    Row,
    RowChange,
    RowPage,
    RowQuery,
    TransientStorageError,
)

#: Seconds for a connection and for an answer, and for both with the wait for a free connection.
_LIMITS = aiohttp.ClientTimeout(total=60, sock_connect=5, sock_read=20)
#: Bytes of a body above which it is sent in parts, so that it does not block the event loop.
_LARGE_BYTES = 512 * 1024
_TRIES = 4
#: The waits before the second and the third retry; the first retry follows at once.
_RETRY = Retry(first=1.6)
_RETRIED = frozenset({408, 429, 500, 502, 503, 504})
_HEADERS = {
    "User-Agent": "scheduler-agent-supervisor",
    "x-ms-version": "2019-02-02",
    "DataServiceVersion": "3.0",
    "MaxDataServiceVersion": "3.0;NetFx",
}
_READ_HEADERS = {**_HEADERS, "Accept": "application/json;odata=fullmetadata"}  # it includes the ETags
#: Of the tokens for a table.
SCOPE = "https://storage.azure.com/.default"
_http_date = lru_cache(maxsize=8)(partial(formatdate, usegmt=True))
_NEXT = ("NextPartitionKey", "NextRowKey")
_TOKEN = TypeAdapter(dict[str, str])
_ACCEPTED, _OK, _NOT_FOUND, _UNAUTHORIZED = 202, 200, 404, 401

# Each part is one line of JSON in ASCII, and keys are quoted, so no line of a part starts with a boundary.
# Azurite requires names that start with `batch` and `changeset`.
_BATCH, _CHANGESET = "batch_rows", "changeset_rows"
_CONTENT_TYPE = f"multipart/mixed; boundary={_BATCH}"
_BATCH_HEADERS = {**_HEADERS, "Content-Type": _CONTENT_TYPE, "Accept": "application/json"}

_START = f"--{_BATCH}\r\nContent-Type: multipart/mixed; boundary={_CHANGESET}\r\n\r\n"
_PART = f"--{_CHANGESET}\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n"
_PART_HEADERS = (
    " HTTP/1.1\r\nContent-Type: application/json\r\nAccept: application/json;odata=minimalmetadata\r\n"
    "Prefer: return-no-content\r\nDataServiceVersion: 3.0\r\n"
)
_END = f"--{_CHANGESET}--\r\n--{_BATCH}--\r\n"
_METHODS = {"insert": "POST", "update": "PUT", "upsert": "PUT", "merge": "MERGE", "delete": "DELETE"}

_ETAG = re.compile(rb"^ETag: *([^\r\n]+?) *\r$", re.MULTILINE | re.IGNORECASE)
_INDEX = re.compile(r"(\d{1,3}):")

#: Statuses below 500 that depend on the sender, its rate or the table, and not on the rows.
_FAULTS = frozenset({401, 403, 408, 429})
_TABLE_FAULTS = ("TableNotFound", "TableBeingDeleted", "TableBeingCreated")

#: The key of the account (local runs), or tokens of an identity.
type TableCredential = AzureNamedKeyCredential | BearerToken
type _Answer = tuple[int, Mapping[str, str], bytes]


class _FaultError(TransientStorageError):
    """A fault that a retry may end; `after` is the shortest pause in seconds."""

    def __init__(self, text: str, after: float = 0) -> None:
        super().__init__(text)
        self.after = after


class StorageSession:
    """Requests to the tables of the account at `address`. `clock` returns seconds since 1970.

    `figures` counts transactions, their operations, reads (a page or a row each), and retries of all tables.
    """

    def __init__(self, address: str, credential: TableCredential, clock: Callable[[], float] = time) -> None:
        self.address = address.rstrip("/")
        self._path = URL(self.address).raw_path.rstrip("/")
        self._credential, self._clock = credential, clock
        self._session: aiohttp.ClientSession | None = None
        self.figures = Counter(transactions=0, operations=0, reads=0, retries=0)

    async def request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> _Answer:
        """Send one request and return status, headers and content. Raises `TransientStorageError`."""
        signed = await self._signed(f"{self._path}{path}")
        data = BytesIO(body) if body is not None and len(body) > _LARGE_BYTES else body
        parameters = urlencode(query or {}, quote_via=quote)  # a space is %20, not +
        url = URL(f"{self.address}{path}?{parameters}".rstrip("?"), encoded=True)
        if self._session is None:  # it needs the event loop
            connector, jar = aiohttp.TCPConnector(limit=100), aiohttp.DummyCookieJar()
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=jar, timeout=_LIMITS)
        every = {**headers, **signed}
        sent = self._session.request(method, url, headers=every, data=data, allow_redirects=False)
        try:
            async with sent as answer:
                content = await answer.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _FaultError(f"no answer: {type(error).__name__}") from error
        if answer.status == _UNAUTHORIZED and isinstance(self._credential, BearerToken):
            self._credential.forget()
        if answer.status in _RETRIED:
            after = answer.headers.get("Retry-After", "")
            raise _FaultError(f"HTTP {answer.status}", float(after) if after.isdecimal() else 0)
        return answer.status, answer.headers, content

    async def aclose(self) -> None:
        """Close all connections. A later request opens others."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _signed(self, path: str) -> Mapping[str, str]:
        """Return the headers that authorize a request to a path, quoted as it is sent."""
        date = _http_date(int(self._clock()))
        if isinstance(self._credential, AzureNamedKeyCredential):
            return {"x-ms-date": date, "Authorization": _shared_key(*self._credential.named_key, date, path)}
        try:
            return {"x-ms-date": date, **await self._credential.headers()}
        except NoTokenError as error:
            raise TransientStorageError(str(error)) from error


class AzureTable:
    """One table; see `Table` for its methods."""

    def __init__(self, session: StorageSession, name: str) -> None:
        self.session, self.name, self.figures = session, name, session.figures

    async def send(self, partition: str, changes: Sequence[RowChange]) -> Sequence[str] | RefusedChanges:
        """Write all changes or none; a lost answer is followed by a repetition."""
        try:
            body = transaction_body(f"{self.session.address}/{self.name}", partition, changes)
        except ValueError as error:
            return RefusedChanges(400, type(error).__name__)
        self.figures["operations"] += len(changes)
        post = partial(self.session.request, "POST", "/$batch", _BATCH_HEADERS, body=body)
        status, _, content = await self._retried("transactions", post)
        if status == _ACCEPTED:
            return parse_transaction(content, changes)
        refused = parse_refusal(status, content)
        if refused.is_conflict:  # about the whole request, so not about a row
            raise TransientStorageError(f"HTTP {status} {refused.text}")
        return refused

    async def read(self, partition: str, key: str) -> Row | None:
        """Return one row."""
        place = f"(PartitionKey='{quoted(partition)}',RowKey='{quoted(key)}')"
        answer = await self._get(f"/{self.name}{place}")
        return None if answer is None else answer[1]

    async def query(self, partition: str, query: RowQuery) -> RowPage:
        """Read one page in one request. Raises `ValueError` for a text that is no continuation."""
        first, operator = (query.first, "ge") if query.beyond is None else (query.beyond, "gt")
        having = "" if query.having is None else f" and {query.having} gt @empty"
        values = {"partition": partition, "first": first, "end": query.end, "empty": ""}
        bounds = f"PartitionKey eq @partition and RowKey {operator} @first and RowKey lt @end{having}"
        parameters = {"$filter": _filter(bounds, values), "$top": str(min(query.most, 1000))}
        if query.columns:
            parameters["$select"] = ",".join(query.columns)
        if query.continuation is not None:
            try:
                parameters |= _TOKEN.validate_json(query.continuation)
            except ValidationError:
                raise ValueError("not a continuation of this query") from None
        answer = await self._get(f"/{self.name}()", parameters)
        if answer is None:
            raise TransientStorageError("the table does not exist")
        headers, page = answer
        if not isinstance(page.get("value"), list):
            raise TransientStorageError("the answer has no rows")
        token = {name: headers.get(f"x-ms-continuation-{name}", "") for name in _NEXT}
        return RowPage(page["value"], _TOKEN.dump_json(token).decode() if token[_NEXT[0]] else None)

    async def _get(
        self, path: str, query: Mapping[str, str] | None = None
    ) -> tuple[Mapping[str, str], Mapping[str, Any]] | None:
        """Return the headers and the JSON object of an answer, None if there is no such row."""
        get = partial(self.session.request, "GET", path, _READ_HEADERS, query=query)
        status, headers, content = await self._retried("reads", get)
        if status != _OK:
            refused = parse_refusal(status, content)
            if status == _NOT_FOUND:
                return None
            raise TransientStorageError(f"HTTP {status} {refused.text}")
        try:
            found = from_json(content)
        except ValueError as error:
            raise TransientStorageError("the answer is no JSON") from error
        return headers, found if isinstance(found, dict) else {}

    async def _retried(self, figure: str, request: Callable[[], Awaitable[_Answer]]) -> _Answer:
        """Send a request, and repeat it after faults; each one counts in a figure."""
        for number in range(1, _TRIES):
            self.figures[figure] += 1
            try:
                return await request()
            except _FaultError as fault:
                self.figures["retries"] += 1
                pause = _RETRY.longest_wait(number - 1) * random() if number > 1 else 0  # noqa: S311 - a wait
                await asyncio.sleep(min(max(pause, fault.after), _RETRY.longest))
        self.figures[figure] += 1
        return await request()


@lru_cache(maxsize=64)
def _shared_key(account: str, key: str, date: str, path: str) -> str:
    """Return the signature of a path (Shared Key Lite), which is valid for any content."""
    signature = hmac.digest(b64decode(key), f"{date}\n/{account}{path}".encode(), "sha256")
    return f"SharedKeyLite {account}:{b64encode(signature).decode()}"


def _filter(template: str, values: Mapping[str, str]) -> str:
    """Return a filter with a quoted literal in the place of each `@name`."""
    return re.sub(r"@(\w+)", lambda found: "'" + values[found[1]].replace("'", "''") + "'", template)


def transaction_body(table: str, partition: str, changes: Sequence[RowChange]) -> bytes:
    """Return the body of a request to the address of a table. Raises `ValueError` for a lone surrogate."""
    parts = [_START]
    start = f" {table}(PartitionKey='{quoted(partition)}',RowKey='"
    for change in changes:
        address = f" {table}" if change.kind == "insert" else f"{start}{quoted(change.key)}')"
        guard = f"If-Match: {change.etag}\r\n" if change.kind in {"update", "delete"} else ""
        row = {"PartitionKey": partition, "RowKey": change.key, **(change.row or {})}
        text = "" if change.kind == "delete" else to_json(row, ensure_ascii=True).decode("ascii")
        parts += (_PART, _METHODS[change.kind], address, _PART_HEADERS, guard, "\r\n", text, "\r\n")
    return "".join([*parts, _END]).encode("ascii")


def parse_transaction(content: bytes, changes: Sequence[RowChange]) -> list[str] | RefusedChanges:
    """Return the ETag of each change (empty for a deleted row), or the refusal.

    Raises `TransientStorageError` for a fault of the service, and for an incomplete answer.
    """
    etags: list[str] = []
    for part in content.split(b"HTTP/1.1 ")[1:]:
        if not part.startswith(b"2"):
            status = int(part[:3]) if part[:3].isdigit() else 500
            return parse_refusal(status, part[part.find(b"{") : part.rfind(b"}") + 1])
        etag = _ETAG.search(part)
        etags.append(etag[1].decode("ascii") if etag else "")
    written = [etag or change.kind == "delete" for etag, change in zip(etags, changes, strict=False)]
    if len(etags) != len(changes) or not all(written):
        raise TransientStorageError(f"the answer lacks parts or ETags of {len(changes)} changes")
    return etags


def parse_refusal(status: int, content: bytes) -> RefusedChanges:
    """Return the refusal of an HTTP status. The text of an error starts with the number of the change.

    Raises `TransientStorageError` if the reason is not in the rows.
    """
    try:
        error: Any = json.loads(content)["odata.error"]
        code, text = str(error["code"]), str(error["message"]["value"])
    except (ValueError, KeyError, TypeError):
        code, text = f"HTTP {status}", ""
    if status in _FAULTS or not 400 <= status < 500 or code in _TABLE_FAULTS:  # noqa: PLR2004 - client errors
        raise TransientStorageError(f"HTTP {status} {code}")
    index = _INDEX.match(text)
    return RefusedChanges(status, code, int(index[1]) if index else None)


@lru_cache(maxsize=8192)
def quoted(key: str) -> str:
    """Return a key as it is in the address of a row. Raises `ValueError` for a text that is not Unicode."""
    return quote(key.replace("'", "''"), safe="")
