"""JSON from outside has finite numbers and a bounded depth; a fault is named with its place."""

from __future__ import annotations

import pytest

from functions.pattern.strict_json import MESSAGE_DEPTH, NOT_FINITE, NotJsonError, parse_json

_INFINITE = 2**1024 - 2**970


def _refusal(body: bytes) -> NotJsonError:
    with pytest.raises(NotJsonError) as refusal:
        parse_json(body)
    return refusal.value


@pytest.mark.parametrize(
    "number",
    ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "9" * 4_000, f"-{_INFINITE}"],
    ids=lambda number: number[:9],
)
def test_number_that_is_not_finite_is_refused_with_its_place(number: str) -> None:
    """At every depth; the rest of the message can still be read."""
    for before, after, place in [("", "", ""), ("[0,", "]", "[1]"), ('{"a":[{"b":', "}]}", "a[0].b")]:
        fault = _refusal(f"{before}{number}{after}".encode()).fault
        assert (str(fault), fault.kind) == (f"{place}: {NOT_FINITE}".removeprefix(": "), NOT_FINITE)
    content = _refusal(f'{{"task_id": "[", "result": {number}}}'.encode()).content
    assert isinstance(content, dict)
    assert content["task_id"] == "["


def test_number_with_a_fraction_is_a_double_and_an_int_stays_one() -> None:
    """However many digits both have."""
    digits = "9007199254740993." + "0" * 40 + "1"
    assert parse_json(f"[{digits}, {_INFINITE - 1}, 1e308, -7, true]".encode()) == [
        float(digits),
        _INFINITE - 1,
        1e308,
        -7,
        True,
    ]


def test_of_a_name_given_twice_the_last_value_counts() -> None:
    """In every object; the order of the names is kept."""
    assert parse_json(b'{"b": 1, "a": [{"c": 1, "c": 2}], "b": 3}') == {"b": 3, "a": [{"c": 2}]}


@pytest.mark.parametrize(
    "body",
    [b"{", b"\xff", b"[" * 100_000, b'"\\ud83d"', b"1 2", "\ufeff{}".encode(), b"9" * 5_000],
    ids=["no end", "no UTF-8", "depth", "half a character", "more", "byte order mark", "digits"],
)
def test_bytes_that_cannot_be_parsed_have_neither_place_nor_content(body: bytes) -> None:
    """The parser names the line and the column."""
    refusal = _refusal(body)
    assert (refusal.fault.place, refusal.content) == ((), None)
    assert str(refusal).startswith("not JSON (")


def test_characters_and_depth_are_taken() -> None:
    """One level more is refused with its place."""
    assert parse_json(rb'["\ud83d\ude00 \u00e9"]') == ["\U0001f600 é"]
    deep = b"[" * MESSAGE_DEPTH + b"]" * MESSAGE_DEPTH
    assert parse_json(deep)
    fault = _refusal(b'{"result":' + deep + b"}").fault
    assert (fault.place[0], fault.text) == ("result", "nested deeper than 100 levels")


def test_values_are_counted_with_objects_and_lists() -> None:
    """The limit itself is taken."""
    body = b'{"a": [1, 2, {}], "b": null}'
    assert parse_json(body, most_values=6)
    with pytest.raises(NotJsonError, match="more than 5 values"):
        parse_json(body, most_values=5)
