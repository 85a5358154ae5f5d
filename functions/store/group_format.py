"""Entity group transactions as bytes: requests are built and answers parsed (Table Storage's REST API)."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from math import isfinite, isnan
from typing import Any, Literal
from urllib.parse import quote

from azure.core.exceptions import DecodeError
from pydantic_core import PydanticSerializationError, to_json

#: A row as it is written: property names and their values.
Row = Mapping[str, Any]

OperationKind = Literal["create", "update", "upsert", "delete"]

# No line within a part can begin with a boundary: each part's content is one line of JSON in ASCII, and keys
# are quoted. So these need not be random. (Azurite wants the names to begin like this.)
_BATCH = "batch_rows"
_CHANGESET = "changeset_rows"

#: The headers of a request that carries an entity group transaction.
REQUEST_HEADERS = {
    "Content-Type": f"multipart/mixed; boundary={_BATCH}",
    "Accept": "application/json",
    "DataServiceVersion": "3.0",
    "MaxDataServiceVersion": "3.0;NetFx",
    "x-ms-version": "2019-02-02",
}

_START = f"--{_BATCH}\r\nContent-Type: multipart/mixed; boundary={_CHANGESET}\r\n\r\n"
_PART = f"--{_CHANGESET}\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n"
_HEADERS = (
    " HTTP/1.1\r\nContent-Type: application/json\r\nAccept: application/json;odata=minimalmetadata\r\n"
    "Prefer: return-no-content\r\nDataServiceVersion: 3.0\r\n"
)
_END = f"--{_CHANGESET}--\r\n--{_BATCH}--\r\n"

_METHODS: Mapping[OperationKind, str] = {
    "create": "POST",
    "update": "PUT",
    "upsert": "PUT",
    "delete": "DELETE",
}
_UNCONDITIONAL = frozenset({"create", "upsert"})
_CONFLICTS = frozenset({404, 409, 412})
_INT32 = range(-(2**31), 2**31)


@dataclass(frozen=True, slots=True)
class Operation:
    """One row's change: `update` and `upsert` replace the row. `etag` guards it (`*`: any)."""

    kind: OperationKind
    entity: Row
    etag: str = "*"


@dataclass(frozen=True, slots=True)
class GroupWritten:
    """All operations were done; the ETags are in their order (empty where a row was deleted)."""

    etags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupRefused:
    """None of the operations was done; `index` is the number of the one to blame, if the service names it."""

    status: int
    code: str
    index: int | None = None

    @property
    def conflict(self) -> bool:
        """Tell whether a row was not as expected."""
        return self.status in _CONFLICTS


class UnwritableValueError(ValueError):
    """A property has a value that Table Storage has no type for."""


def group_body(table: str, partition: str, operations: Sequence[Operation]) -> bytes:
    """Build the body for the table with the address `table`. Raises `UnwritableValueError`."""
    rows = f" {table}(PartitionKey='{quoted(partition)}',RowKey='"
    parts = [_START]
    for each in operations:
        row_key = each.entity["RowKey"]
        address = f" {table}" if each.kind == "create" else f"{rows}{quoted(row_key)}')"
        row = "" if each.kind == "delete" else _to_json(_properties(partition, each.entity))
        parts += (_PART, _METHODS[each.kind], address, _HEADERS, _condition(each), "\r\n", row, "\r\n")
    parts.append(_END)
    return "".join(parts).encode("ascii")


def _condition(operation: Operation) -> str:
    return "" if operation.kind in _UNCONDITIONAL else f"If-Match: {operation.etag}\r\n"


#: How ASCII stands in an address: an apostrophe, which ends a key, twice.
_QUOTED = {code: quote(chr(code).replace("'", "''"), safe="") for code in range(128)}


def quoted(key: str) -> str:
    """Write a key as it stands in a row's address. Raises `UnwritableValueError`."""
    if key.isascii():
        return key.translate(_QUOTED)
    try:
        return quote(key.replace("'", "''"), safe="")
    except UnicodeEncodeError:
        raise UnwritableValueError("a key is not Unicode") from None


def _properties(partition: str, entity: Row) -> dict[str, Any]:
    """Give the row as JSON holds it: types that JSON lacks are named beside their values."""
    properties: dict[str, Any] = {"PartitionKey": partition}
    for name, value in entity.items():
        kind = type(value)
        if kind is str or kind is bool:
            properties[name] = value
        elif kind is int:
            if value not in _INT32:
                raise UnwritableValueError(f"{name} is an integer beyond 32 bits")
            properties[name] = value
        elif value is not None:
            properties[name], properties[f"{name}@odata.type"] = _typed(name, value)
    return properties


def _typed(name: str, value: object) -> tuple[Any, str]:
    match value:
        case datetime():
            # The faster encoder leaves zero microseconds out, and the offset in.
            return value if value.microsecond and value.tzinfo is UTC else _time(value), "Edm.DateTime"
        case bytes():
            return b64encode(value).decode("ascii"), "Edm.Binary"
        case Enum():
            return str(value), "Edm.String"
        case float():
            return _double(value), "Edm.Double"
        case _:
            raise UnwritableValueError(f"{name} can't be a {type(value).__name__}")


def _to_json(properties: Mapping[str, Any]) -> str:
    """Write one line of ASCII; half a surrogate pair, which the faster encoder refuses, as the SDK does."""
    try:
        return to_json(properties, ensure_ascii=True).decode("ascii")
    except PydanticSerializationError:
        return json.dumps(properties, separators=(",", ":"), default=_time)


def _double(value: float) -> float | str:
    if isfinite(value):
        return value
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _time(value: datetime) -> str:
    in_utc = value if value.tzinfo is UTC else value.astimezone(UTC)
    return f"{in_utc.isoformat(timespec='microseconds').removesuffix('+00:00')}Z"


_ANSWER = re.compile(
    rb"--(?P<batch>[^\r\n]+)\r\n(?:[^\r\n]+\r\n)*?"
    rb'Content-Type: *multipart/mixed; *boundary="?(?P<changeset>[^"\r\n]+)"?\r\n(?:[^\r\n]+\r\n)*\r\n',
    re.IGNORECASE,
)
_ANSWERED = re.compile(
    rb"^HTTP/1\.1 (?P<status>\d{3})\b[^\r\n]*\r\n(?P<headers>(?:[^\r\n]+\r\n)*)\r\n(?P<content>.*)",
    re.MULTILINE | re.DOTALL,
)
_ETAG = re.compile(rb"^ETag: *([^\r\n]+?) *\r$", re.MULTILINE | re.IGNORECASE)
_INDEX = re.compile(r"(\d{1,3}):")


def parse_answer(body: bytes, operations: Sequence[Operation]) -> GroupWritten | GroupRefused:
    """Read what was answered to a group of these operations. Raises `DecodeError` when it can't be that."""
    start = _ANSWER.match(body)
    if start is None:
        raise DecodeError("the answer is no batch of one changeset")
    delimiter = b"--" + start["changeset"]
    before, *parts = body[start.end() :].split(delimiter)
    if before.strip() or not parts or parts.pop().split() != [b"--", b"--" + start["batch"] + b"--"]:
        raise DecodeError("the answer is cut off")
    etags: list[str] = []
    for part in parts:
        answered = _ANSWERED.search(part)
        if answered is None:
            raise DecodeError("a part of the answer is no HTTP")
        if not answered["status"].startswith(b"2"):
            return parse_refusal(int(answered["status"]), answered["content"])
        etag = _ETAG.search(answered["headers"])
        etags.append(etag[1].decode("ascii") if etag else "")
    if len(etags) != len(operations):
        raise DecodeError(f"the answer has {len(etags)} parts for {len(operations)} operations")
    if not all(etag or each.kind == "delete" for etag, each in zip(etags, operations, strict=True)):
        raise DecodeError("the answer lacks an ETag")
    return GroupWritten(tuple(etags))


def parse_refusal(status: int, content: bytes) -> GroupRefused:
    """Read why nothing was done; the text of an error begins with the operation's number, if it is one's."""
    try:
        error = json.loads(content)["odata.error"]
        code, text = str(error["code"]), str(error["message"]["value"])
    except (ValueError, KeyError, TypeError):
        return GroupRefused(status, f"HTTP {status}")
    index = _INDEX.match(text)
    return GroupRefused(status, code, index and int(index[1]))
