"""A body is JSON, strictly: UTF-8, finite numbers, bounded depth."""

from __future__ import annotations

import json
from collections.abc import Callable
from time import process_time

import pytest

from functions.web.bodies import MOST_DEPTH, parse_body
from functions.web.problems import ProblemError


def json_fault(body: bytes, most_depth: int = MOST_DEPTH) -> str | None:
    """Tell why a body is refused, if it is."""
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
        b"'text'",
        b"{a: 1}",
        b"[1,]",
        b"1 2",
        b"\xff",
        b'"\xc3\x28"',
        '{"a": 1}'.encode("utf-16"),
        '{"a": "é"}'.encode("latin-1"),
        "\ufeff{}".encode(),
    ],
    ids=lambda body: repr(body)[:20],
)
def test_anything_else_is_not(body: bytes) -> None:
    """Python's own reader takes some of them, such as other encodings."""
    assert json_fault(body) == "400 The body is not JSON."


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"NaN", "not a JSON number"),
        (b"9" * 5_000, "a number that is too large"),
        (b'{"a": Infinity}', "a: not a JSON number"),
        (b'{"a": {"b": [1, -Infinity]}}', "a.b[1]: not a JSON number"),
        (b'{"a": 1e999}', "a: a number that is too large"),
        (b'{"a": 1, "b": 2, "a": 1}', "a: given twice"),
        (b'{"in": [{"a": {}, "a": []}]}', "in[0].a: given twice"),
    ],
    ids=lambda given: repr(given)[:20],
)
def test_what_no_reader_is_sure_of_is_refused_by_its_place(body: bytes, fault: str) -> None:
    """One reader would take the last of two values, another the first."""
    assert json_fault(body) == f"400 The body is not JSON as it is taken here ({fault})."


def test_number_between_two_floats_is_converted_once() -> None:
    """It takes hundreds of steps, and a body of such numbers as long as other requests may wait."""
    number = "2.2250738585072011360574097967091319759348195463516456480234261"
    body = f"[{','.join([f'{number}e-308'] * 5_000)}]".encode()
    once = _seconds(lambda: [float(f"{number}e-308") for _ in range(5_000)])
    assert _seconds(lambda: json_fault(body)) < 1.7 * once


def _seconds(work: Callable[[], object]) -> float:
    """Measure the least of its own time that some work takes."""
    taken = []
    for _ in range(5):
        begun = process_time()
        work()
        taken.append(process_time() - begun)
    return min(taken)


def test_place_of_a_fault_is_short() -> None:
    """Names are the sender's."""
    body = json.dumps({"x" * 1_000: {f"\n{number}": {} for number in range(100)}}).encode()
    told = json_fault(body.replace(b"{}", b"NaN")) or ""
    assert len(told) < 200
    assert "\n" not in told


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
