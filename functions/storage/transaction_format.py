"""Entity group transactions as bytes: the body of a request, and its answer (REST of Table Storage).

azure-data-tables uses Python's `email` package, which takes most of the CPU time of a busy host.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from pydantic_core import to_json

from functions.storage.table_contract import RefusedChanges, RowChange, TransientStorageError

# Each part is one line of JSON in ASCII, and keys are quoted, so no line of a part starts with a boundary.
# Azurite requires names that start with `batch` and `changeset`.
_BATCH, _CHANGESET = "batch_rows", "changeset_rows"
CONTENT_TYPE = f"multipart/mixed; boundary={_BATCH}"

_START = f"--{_BATCH}\r\nContent-Type: multipart/mixed; boundary={_CHANGESET}\r\n\r\n"
_PART = f"--{_CHANGESET}\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n"
_HEADERS = (
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


def transaction_body(table: str, partition: str, changes: Sequence[RowChange]) -> bytes:
    """Return the body of a request to the address of a table. Raises `ValueError` for a lone surrogate."""
    parts = [_START]
    start = f" {table}(PartitionKey='{quoted(partition)}',RowKey='"
    for change in changes:
        address = f" {table}" if change.kind == "insert" else f"{start}{quoted(change.key)}')"
        guard = f"If-Match: {change.etag}\r\n" if change.kind in {"update", "delete"} else ""
        row = {"PartitionKey": partition, "RowKey": change.key, **(change.row or {})}
        text = "" if change.kind == "delete" else to_json(row, ensure_ascii=True).decode("ascii")
        parts += (_PART, _METHODS[change.kind], address, _HEADERS, guard, "\r\n", text, "\r\n")
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


def size_of(change: RowChange) -> int:
    """Return an upper bound of the bytes that a change takes in a request."""
    values = (change.row or {}).values()
    size = 1024 + 4 * len(change.key) + 40 * len(values)
    for text in values:
        if isinstance(text, str):  # as JSON in ASCII
            size += 2 * len(text) if text.isascii() else 3 * len(text.encode("utf-16", "surrogatepass"))
    return size
