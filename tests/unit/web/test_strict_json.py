"""A body is JSON: UTF-8, finite numbers, bounded depth and number of values."""

from __future__ import annotations

import json

import pytest

from functions.web.bodies import MOST_DEPTH, MOST_VALUES, parse_body
from functions.web.problems import ProblemError

_TOO_MANY = "413 A body holds at most 40000 values; a bracket inside a text counts as one."


def json_fault(body: bytes, most_depth: int = MOST_DEPTH) -> str | None:
    """Return the reason of a refusal, or None."""
    try:
        parse_body(body, most_depth)
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
    [
        *(b"{}", b"[]", b"null", b'"text"', b"1.5e300", '{"ä": "€"}'.encode(), b" 1 "),
        *(rb'"\ud83d\ude00 \u00e9"', b'{"a": 1, "a": 2}'),
    ],
)
def test_json_is_taken(body: bytes) -> None:
    """Whatever its type."""
    assert json_fault(body) is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"'text'",
        b"{a: 1}",
        b"[1,]",
        b"1 2",
        b"\xff",
        b'"\xc3\x28"',
        '{"a": 1}'.encode("utf-16"),
        '{"a": "é"}'.encode("latin-1"),
        "\ufeff{}".encode(),
        rb'"\ud800"',
    ],
    ids=lambda body: repr(body)[:20],
)
def test_anything_else_is_not(body: bytes) -> None:
    """Python's own reader takes some of them, such as other encodings."""
    assert str(json_fault(body)).startswith("400 The body can't be read: not JSON (")


@pytest.mark.parametrize(
    ("body", "place"),
    [(b"NaN", ""), (b'{"a": {"b": [1, -Infinity]}}', "a.b[1]: "), (b'{"a": 1e999}', "a: ")],
)
def test_number_that_is_not_finite_is_refused_with_its_place(body: bytes, place: str) -> None:
    """At every depth."""
    assert json_fault(body) == f"400 The body can't be read: {place}not a finite number."


def test_place_of_a_fault_is_short() -> None:
    """Names are the sender's."""
    body = json.dumps({"x" * 1_000: {f"\n{number}": {} for number in range(100)}}).encode()
    told = json_fault(body.replace(b"{}", b"NaN")) or ""
    assert len(told) < 200
    assert "\n" not in told


@pytest.mark.parametrize("kind", ["list", "object"])
def test_depth_is_bounded(kind: str) -> None:
    """Sixteen levels are allowed, one more is not, nor are more than the parser takes."""
    assert MOST_DEPTH == 16
    assert json_fault(nested(16, kind)) is None
    assert str(json_fault(nested(17, kind))).endswith("nested deeper than 16 levels.")
    opening = b"[" if kind == "list" else b'{"in":'
    assert str(json_fault(opening * 10_000 + b"1")).startswith("400 The body can't be read: not JSON (")


def test_the_deepest_part_counts() -> None:
    """Wherever it is."""
    assert json_fault(b'[1, {"a": [], "b": [[1]]}]', 4) is None
    fault = json_fault(b'[1, {"a": [], "b": [[1]]}]', 3)
    assert fault == "400 The body can't be read: [1].b[0]: nested deeper than 3 levels."


@pytest.mark.parametrize("value", ["0", "{}", '{"":0}'])
def test_values_are_bounded(value: str) -> None:
    """Objects and lists count; the list around them is one."""
    most = (MOST_VALUES - 1) // (2 if ":" in value else 1)
    assert json_fault(f"[{','.join([value] * most)}]".encode()) is None
    assert json_fault(f"[{','.join([value] * (most + 1))}]".encode()) == _TOO_MANY


def test_brackets_inside_texts_count_as_values() -> None:
    """They are counted before the body is parsed."""
    assert json_fault(b'"' + b"[" * MOST_VALUES + b'"') is None
    assert json_fault(b'"' + b"[" * (MOST_VALUES + 1) + b'"') == _TOO_MANY
