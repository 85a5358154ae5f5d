"""Answers of Table Storage as bytes (HTTP/1.1, RFC 9112): where one ends, and what it says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from azure.core.pipeline.transport import HttpRequest
from azure.core.utils import case_insensitive_dict

_NO_CONTENT = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})
_HEAD = re.compile(r"HTTP/1\.[01] ([2-5]\d\d)(?: [^\r\n]*)?((?:\r\n[^\s:]+:[^\r\n]*)*)")
_DIGITS = re.compile(r"\d{1,9}")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,7})[ \t]*(?:;[^\r\n]*)?\r\n")


class NoAnswerError(ValueError):
    """What was received is no answer."""


@dataclass(frozen=True, slots=True)
class TableAnswer:
    """An answer, read whole."""

    request: HttpRequest
    status_code: int
    #: Headers by their names in lower case.
    fields: Mapping[str, str]
    content: bytes

    @property
    def headers(self) -> Mapping[str, str]:
        """Give the headers by their names in any case."""
        return case_insensitive_dict(self.fields)

    @property
    def reason(self) -> str:
        """Name the status."""
        known = self.status_code in HTTPStatus
        return HTTPStatus(self.status_code).phrase if known else ""

    def text(self) -> str:
        """Give the content as text."""
        return self.content.decode(errors="replace")


def read_answer(request: HttpRequest, received: bytes) -> tuple[TableAnswer, int] | None:
    """Read an answer and tell how many bytes it has; None when more must be received.

    Raises `NoAnswerError`. An answer that only the end of its connection ends is none: it may be cut off.
    """
    head, end, _ = received.partition(b"\r\n\r\n")
    if not end:
        return None
    known = _HEAD.fullmatch(head.decode("latin-1"))
    if known is None:
        raise NoAnswerError("no HTTP/1.1")
    lines = [line.partition(":") for line in known[2].split("\r\n")[1:]]
    headers = {name.lower(): value.strip(" \t") for name, _, value in lines}
    start = len(head) + len(end)
    code = int(known[1])
    content = (b"", start) if code in _NO_CONTENT else _content(headers, received, start)
    if content is None:
        return None
    body, total = content
    return TableAnswer(request, code, headers, body), total


def _content(headers: Mapping[str, str], received: bytes, start: int) -> tuple[bytes, int] | None:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return _joined_chunks(received, start)
    length = headers.get("content-length", "")
    if not _DIGITS.fullmatch(length):
        raise NoAnswerError("its length is not known")
    end = start + int(length)
    return None if len(received) < end else (received[start:end], end)


def _joined_chunks(received: bytes, start: int) -> tuple[bytes, int] | None:
    """Join the chunks that start there; what follows the last, trailers that nobody reads, is passed over."""
    chunks: list[bytes] = []
    while True:
        line_end = received.find(b"\r\n", start)
        if line_end < 0:
            return None
        size = _CHUNK.match(received, start)
        if size is None:
            raise NoAnswerError("no chunk")
        start, length = size.end(), int(size[1], 16)
        if length == 0:
            break
        if len(received) < start + length + 2:
            return None
        chunks.append(received[start : start + length])
        if received[start + length : start + length + 2] != b"\r\n":
            raise NoAnswerError("a chunk without an end")
        start += length + 2
    while (line_end := received.find(b"\r\n", start)) > start:
        start = line_end + 2
    return None if line_end < 0 else (b"".join(chunks), line_end + 2)
