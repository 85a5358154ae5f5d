"""A table of one storage account over one `aiohttp` session: transactions, point reads and queries by pages.

Faults are retried with backoff and jitter. A transaction that was repeated may conflict with itself; its
sender finds the id of its own write in the task row.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from random import Random
from types import TracebackType
from typing import Any, Self

import aiohttp
from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json
from yarl import URL

from functions.storage.table_contract import (
    RefusedChanges,
    Row,
    RowChange,
    RowPage,
    RowQuery,
    TransientStorageError,
)
from functions.storage.table_credentials import (
    RequestSigner,
    SharedKeySigner,
    identity_signer,
    parse_connection_string,
    path_of,
)
from functions.storage.transaction_format import (
    CONTENT_TYPE,
    parse_refusal,
    parse_transaction,
    quoted,
    transaction_body,
)

#: Seconds for a connection and for an answer, and for both with the wait for a free connection.
_CONNECT_SECONDS, _READ_SECONDS, _TOTAL_SECONDS = 5, 20, 60
_MOST_CONNECTIONS = 100
#: Bytes of a body above which it is sent in parts, so that it does not block the event loop.
_LARGE_BYTES = 512 * 1024
_TRIES = 4
#: Seconds before the second and the third retry at most; the first retry follows at once.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.8, 10.0
_RETRIED = frozenset({408, 429, 500, 502, 503, 504})
_HEADERS = {
    "User-Agent": "scheduler-agent-supervisor",
    "x-ms-version": "2019-02-02",
    "DataServiceVersion": "3.0",
    "MaxDataServiceVersion": "3.0;NetFx",
}
_BATCH_HEADERS = {**_HEADERS, "Content-Type": CONTENT_TYPE, "Accept": "application/json"}
_READ_HEADERS = {**_HEADERS, "Accept": "application/json;odata=fullmetadata"}  # it includes the ETags
_TOKEN = TypeAdapter(dict[str, str])
_ACCEPTED, _OK, _NOT_FOUND, _UNAUTHORIZED = 202, 200, 404, 401


@dataclass(slots=True)
class TableFigures:
    """Counts of requests: transactions, their operations, reads (a page or a row each), and retries."""

    transactions: int = 0
    operations: int = 0
    reads: int = 0
    retries: int = 0


class _FaultError(TransientStorageError):
    """A fault that a retry may end; `after` is the shortest pause in seconds."""

    def __init__(self, text: str, after: float = 0) -> None:
        super().__init__(text)
        self.after = after


class StorageSession:
    """Requests to the tables of one account. It is opened by the first request."""

    def __init__(self, address: str, signer: RequestSigner, *, credential: Any = None) -> None:
        self.address = address
        self._signer = signer
        self._credential = credential
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    def of_connection_string(cls, text: str) -> StorageSession:
        """Return the session of a connection string. Raises `ValueError`."""
        account = parse_connection_string(text)
        return cls(account.address, SharedKeySigner(account))

    @classmethod
    def of_identity(cls, address: str, client_id: str | None) -> StorageSession:
        """Return the session of this host's identity; `address` is that of the account's tables."""
        signer, credential = identity_signer(client_id)
        return cls(address.rstrip("/"), signer, credential=credential)

    async def request(
        self,
        method: str,
        address: str,
        headers: Mapping[str, str],
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Send one request and return status, headers and content. Raises `TransientStorageError`."""
        signed = await self._signer.headers(path_of(address))
        data = BytesIO(body) if body is not None and len(body) > _LARGE_BYTES else body
        url = URL(address, encoded=True)
        if query:
            url = url.with_query(query)
        try:
            async with self._opened().request(
                method, url, headers={**headers, **signed}, data=data, allow_redirects=False
            ) as answer:
                content = await answer.read()
                status, fields = answer.status, answer.headers
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _FaultError(f"no answer: {type(error).__name__}") from error
        if status == _UNAUTHORIZED:
            self._signer.reject()
        if status in _RETRIED:
            raise _FaultError(f"HTTP {status}", _seconds(fields.get("Retry-After", "")))
        return status, fields, content

    async def close(self) -> None:
        """Close all connections. A later request opens others."""
        if self._session is not None:
            await self._session.close()
            self._session = None
        if self._credential is not None:
            await self._credential.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=_MOST_CONNECTIONS),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(
                    total=_TOTAL_SECONDS, sock_connect=_CONNECT_SECONDS, sock_read=_READ_SECONDS
                ),
            )
        return self._session


class AzureTable:
    """One table; see `Table` for its methods."""

    def __init__(self, session: StorageSession, name: str, random: Random | None = None) -> None:
        self._session = session
        self._address = f"{session.address}/{name}"
        self._random = random or Random()  # noqa: S311 - it spreads retries
        self.figures = TableFigures()

    async def send(self, partition: str, changes: Sequence[RowChange]) -> Sequence[str] | RefusedChanges:
        """Write all changes or none; a lost answer is followed by a repetition."""
        try:
            body = transaction_body(self._address, partition, changes)
        except ValueError as error:
            return RefusedChanges(400, type(error).__name__)

        async def send() -> Sequence[str] | RefusedChanges:
            self.figures.transactions += 1
            self.figures.operations += len(changes)
            status, _, content = await self._session.request(
                "POST", f"{self._session.address}/$batch", _BATCH_HEADERS, body=body
            )
            if status == _ACCEPTED:
                return parse_transaction(content, changes)
            refused = parse_refusal(status, content)
            if refused.is_conflict:  # about the whole request, so not about a row
                raise TransientStorageError(f"HTTP {status} {refused.text}")
            return refused

        return await self._retried(send)

    async def read(self, partition: str, key: str) -> Row | None:
        """Return one row."""
        address = f"{self._address}(PartitionKey='{quoted(partition)}',RowKey='{quoted(key)}')"
        answer = await self._get(address, None)
        return None if answer is None else _content(answer[1])

    async def query(self, partition: str, query: RowQuery) -> RowPage:
        """Read one page in one request. Raises `ValueError` for a text that is no continuation."""
        start = f"ge {_literal(query.first)}" if query.beyond is None else f"gt {_literal(query.beyond)}"
        bounds = (
            f"PartitionKey eq {_literal(partition)} and RowKey {start} and RowKey lt {_literal(query.end)}"
        )
        parameters = {"$filter": bounds, "$top": str(min(query.most, 1000))}
        if query.having is not None:
            parameters["$filter"] += f" and {query.having} gt ''"
        if query.columns:
            parameters["$select"] = ",".join(query.columns)
        if query.continuation is not None:
            parameters |= _token(query.continuation)
        answer = await self._get(f"{self._address}()", parameters)
        if answer is None:
            raise TransientStorageError("the table does not exist")
        headers, content = answer
        names = ("NextPartitionKey", "NextRowKey")
        token = {name: headers.get(f"x-ms-continuation-{name}", "") for name in names}
        page = _content(content)
        rows = page.get("value") if isinstance(page, dict) else None
        if not isinstance(rows, list):
            raise TransientStorageError("the answer has no rows")
        return RowPage(rows, _TOKEN.dump_json(token).decode() if token["NextPartitionKey"] else None)

    async def _get(
        self, address: str, query: Mapping[str, str] | None
    ) -> tuple[Mapping[str, str], bytes] | None:
        async def get() -> tuple[Mapping[str, str], bytes] | None:
            self.figures.reads += 1
            status, headers, content = await self._session.request("GET", address, _READ_HEADERS, query=query)
            if status == _OK:
                return headers, content
            refused = parse_refusal(status, content)
            if status == _NOT_FOUND:
                return None
            raise TransientStorageError(f"HTTP {status} {refused.text}")

        return await self._retried(get)

    async def _retried[ResultT](self, request: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Repeat a request after faults."""
        for number in range(1, _TRIES):
            try:
                return await request()
            except _FaultError as fault:
                self.figures.retries += 1
                pause = self._random.uniform(0.5, 1) * _FIRST_PAUSE * 2 ** (number - 1) if number > 1 else 0
                await asyncio.sleep(min(max(pause, fault.after), _LONGEST_PAUSE))
        return await request()


def _content(content: bytes) -> Any:
    try:
        return from_json(content)
    except ValueError as error:
        raise TransientStorageError("the answer is no JSON") from error


def _token(continuation: str) -> dict[str, str]:
    try:
        return _TOKEN.validate_json(continuation)
    except ValidationError:
        raise ValueError("not a continuation of this query") from None


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _seconds(text: str) -> float:
    return float(text) if text.isdecimal() else 0.0
