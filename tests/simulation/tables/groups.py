"""Entity group transactions as Table Storage reads and answers them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.simulation.tables.rows import Change, RefusedError, RowChange

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
