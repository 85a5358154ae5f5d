"""Answers as bytes: wherever they are cut, one is read when it is whole; nothing else is taken for one."""

from __future__ import annotations

import pytest
from azure.core.pipeline.transport import HttpRequest

from functions.store.http_answers import NoAnswerError, read_answer

ASKED = HttpRequest("GET", "https://account/table")
CHUNKED = b"HTTP/1.1 202 Accepted\r\nTransfer-Encoding: chunked\r\nETag: W/x\r\n\r\n"
BY_LENGTH = b"HTTP/1.1 404 Not Found\r\ncontent-length:5 \r\n\r\n12345"

WHOLE = {
    "length": (BY_LENGTH, 404, b"12345"),
    "empty": (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, b""),
    "no content": (b"HTTP/1.1 204 No Content\r\nServer: x\r\n\r\n", 204, b""),
    "chunks": (
        CHUNKED + b"5\r\n12345\r\nA;name=value\r\n1234\r\n7890\r\n0\r\n\r\n",
        202,
        b"123451234\r\n7890",
    ),
    "trailers": (CHUNKED + b"1\r\n1\r\n0\r\nDigest: x\r\nOther: y\r\n\r\n", 202, b"1"),
    "no reason": (b"HTTP/1.1 500\r\nContent-Length: 1\r\n\r\nx", 500, b"x"),
}


@pytest.mark.parametrize("name", WHOLE)
def test_answer_is_read_when_it_is_whole(name: str) -> None:
    """No part of it is taken for the whole, and what follows is left alone."""
    received, status, content = WHOLE[name]
    for end in range(len(received)):
        assert read_answer(ASKED, received[:end]) is None
    read = read_answer(ASKED, received + b"HTTP/1.1 200")
    assert read is not None
    answer, length = read
    assert (answer.status_code, answer.content, length) == (status, content, len(received))
    assert answer.request is ASKED


def test_headers_are_found_however_they_are_written() -> None:
    """Names have no case, and values no blanks around them."""
    read = read_answer(ASKED, BY_LENGTH)
    assert read is not None
    assert read[0].headers["Content-Length"] == "5"
    assert (read[0].reason, read[0].text()) == ("Not Found", "12345")


@pytest.mark.parametrize(
    "received",
    [
        b"SSH-2.0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nuntil the end of the connection",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1_0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length : 3\r\n\r\nabc",
        CHUNKED + b"x\r\n",
        CHUNKED + b"1\r\n123\r\n",
    ],
)
def test_anything_else_is_no_answer(received: bytes) -> None:
    """It is never guessed where an answer ends: half of one would look like a whole."""
    with pytest.raises(NoAnswerError):
        read_answer(ASKED, received)
