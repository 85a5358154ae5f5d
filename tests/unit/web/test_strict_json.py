"""A body is JSON, strictly: UTF-8, finite numbers, bounded depth."""

from __future__ import annotations

import json

import pytest

from functions.web.bodies import MOST_DEPTH, parse_json
from functions.web.problems import ProblemError


def json_fault(body: bytes, most_depth: int = MOST_DEPTH) -> str | None:
    """Tell why a body is refused, if it is."""
    try:
        parse_json(body, most_depth)
    except ProblemError as refusal:
        return f"{refusal.status:d} {refusal.detail}"
    return None


def nested(depth: int, kind: str = "list") -> bytes:
    """Make a body of this depth."""
    content: object = 1
    for _ in range(depth):
        content = [content] if kind == "list" else {"in": content}
    return json.dumps(content).encode()


@pytest.mark.parametrize(
    "body",
    [b"{}", b"[]", b"null", b'"text"', b"1.5e300", '{"ä": "€"}'.encode(), b" 1 ", rb'"\ud83d\ude00 \u00e9"'],
)
def test_json_is_taken(body: bytes) -> None:
    """Whatever its type."""
    assert json_fault(body) is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"NaN",
        b'{"a": Infinity}',
        b"[-Infinity]",
        b"1e999",
        b"[-1e999]",
        b"'text'",
        b"{a: 1}",
        b"[1,]",
        b"1 2",
        b"\xff",
        b'"\xc3\x28"',
        '{"a": 1}'.encode("utf-16"),
        '{"a": "é"}'.encode("latin-1"),
        "\ufeff{}".encode(),
        b"9" * 5_000,
    ],
    ids=lambda body: repr(body)[:20],
)
def test_anything_else_is_not(body: bytes) -> None:
    """Python's own reader takes some of them: numbers that are none, and other encodings."""
    assert json_fault(body) == "400 The body is not JSON."


@pytest.mark.parametrize("kind", ["list", "object"])
def test_depth_is_bounded(kind: str) -> None:
    """Sixteen levels are allowed, one more is not, nor are so many that Python's reader gives up."""
    assert MOST_DEPTH == 16
    assert json_fault(nested(16, kind)) is None
    assert json_fault(nested(17, kind)) == "400 The body is nested deeper than 16 levels."
    opening = b"[" if kind == "list" else b'{"in":'
    assert json_fault(opening * 100_000 + b"1") == "400 The body is nested deeper than 16 levels."


def test_the_deepest_part_counts() -> None:
    """Wherever it is."""
    assert json_fault(b'[1, {"a": [], "b": [[1]]}]', 4) is None
    assert json_fault(b'[1, {"a": [], "b": [[1]]}]', 3) == "400 The body is nested deeper than 3 levels."
