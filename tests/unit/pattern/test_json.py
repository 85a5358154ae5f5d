"""JSON, numbers, times and requests: accepted values, and the place of a fault."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from functions.pattern.errors import PermanentError
from functions.pattern.faults import faults_found
from functions.pattern.numbers import PLAIN_NUMBER
from functions.pattern.requests import request_bytes
from functions.pattern.strict_json import (
    FIELD_DEPTH,
    MESSAGE_DEPTH,
    NOT_FINITE,
    NOT_JSON,
    TOO_DEEP,
    NotJsonError,
    parse_json,
)
from functions.pattern.times import UtcTime, days

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
def test_number_that_is_not_finite_is_refused(number: str) -> None:
    """At every depth; the rest of the message can still be read."""
    for before, after in [("", ""), ("[0,", "]"), ('{"a":[{"b":', "}]}")]:
        refusal = _refusal(f"{before}{number}{after}".encode())
        assert (str(refusal), refusal.kind) == (NOT_FINITE, NOT_FINITE)
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
def test_bytes_that_cannot_be_parsed_have_no_content(body: bytes) -> None:
    """The parser names the line and the column."""
    refusal = _refusal(body)
    assert (refusal.kind, refusal.content) == (NOT_JSON, None)
    assert str(refusal).startswith("not JSON (")


def test_characters_and_depth_are_taken() -> None:
    """One level more is refused."""
    assert parse_json(rb'["\ud83d\ude00 \u00e9"]') == ["\U0001f600 é"]
    deep = b"[" * MESSAGE_DEPTH + b"]" * MESSAGE_DEPTH
    assert parse_json(deep)
    refusal = _refusal(b'{"result":' + deep + b"}")
    assert (refusal.kind, str(refusal)) == (TOO_DEEP, "nested deeper than 100 levels")
    # Values are counted with objects and lists.
    body = b'{"a": [1, 2, {}], "b": null}'
    assert parse_json(body, most_values=6)
    with pytest.raises(NotJsonError, match="more than 5 values"):
        parse_json(body, most_values=5)


MOST = 64 * 1024


def _request_refusal(request: Any) -> str:
    with pytest.raises(PermanentError) as refusal:
        request_bytes(request)
    return str(refusal.value)


def test_request_is_json() -> None:
    """Whatever it holds that JSON has."""
    request = {"amount": "4.90", "items": [{"n": 1, "weight": 0.5}, None, True], "to": ("a", "b")}
    assert json.loads(request_bytes(request)) == request | {"to": ["a", "b"]}
    # Largest number and names that become texts are sent.
    written = request_bytes({"amount": 10**308, "seats": {1: "A", 2: "B"}})
    assert parse_json(written) == {"amount": 10**308, "seats": {"1": "A", "2": "B"}}


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        ({"amount": float("nan")}, "request.amount is nan"),
        ({"items": [{"weight": 1.0}, {"weight": float("inf")}]}, "request.items[1].weight is inf"),
        ({"amount": Decimal(5)}, "request.amount is of type Decimal"),
        ({"to": ({"a"},)}, "request.to[0] is of type set"),
        (
            {"half": "\ud800"},
            "'utf-8' codec can't encode character '\\ud800' in position 10: surrogates not allowed",
        ),
        ({"seats": {("a", "b"): 1}}, "keys must be str, int, float, bool or None, not tuple"),
        ({"amount": [-(10**309)]}, "not a finite number"),
    ],
)
def test_what_json_does_not_have_is_named_with_its_place(request_: Any, reason: str) -> None:
    """The workflow's author finds it at once."""
    assert _request_refusal(request_) == f"its request can't be written as JSON: {reason}"


@pytest.mark.parametrize(("made", "kind"), [(None, "NoneType"), ([1], "list"), ("a", "str")])
def test_request_is_a_dict(made: Any, kind: str) -> None:
    """An Agent's message has no room for anything else."""
    assert _request_refusal(made) == f"its request is of type {kind}, not a dict"


@pytest.mark.parametrize(("field", "kind"), [(1, "int"), (None, "NoneType"), (("a", "b"), "tuple")])
def test_field_of_a_request_has_a_text_for_its_name(field: object, kind: str) -> None:
    """Over HTTP it would become one unseen, and a message to an Agent would not take it."""
    reason = f"a field's name is of type {kind}, not str"
    assert _request_refusal({"a": 1, field: 2}) == f"its request can't be written as JSON: {reason}"


def test_size_is_bounded_and_named() -> None:
    """The bound itself can be sent, in whichever script."""
    room = MOST - len(b'{"text": ""}')
    assert len(request_bytes({"text": "文" * (room // 3)})) <= MOST
    assert len(request_bytes({"text": "x" * room})) == MOST
    assert _request_refusal({"text": "x" * (room + 1)}) == (
        f"its request has {MOST + 1} bytes; at most {MOST} can be sent"
    )
    # Fault behind a list without any is found.
    with pytest.raises(PermanentError, match=r"request\.weight is inf"):
        request_bytes({"items": [1, "a", None], "weight": float("inf")})
    # Request without an end is refused.
    circle: dict[str, Any] = {}
    circle["again"] = [circle]
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for endless in (circle, {"deep": deep}):
        assert _request_refusal(endless).endswith("it is nested too deeply, or in itself")


def nested(levels: int) -> dict[str, Any]:
    """Nest lists, as JSON and as Python have them, in an object."""
    made: Any = []
    for number in range(levels - 2):
        made = [made] if number % 2 else (made,)
    return {"a": made}


def test_what_is_written_as_a_field_can_be_read_again() -> None:
    """Its reader takes no more levels than this; one that rejects it would never reply."""
    deepest = nested(FIELD_DEPTH)
    message = json.dumps({"request": json.loads(request_bytes(deepest))}).encode()
    assert parse_json(message)
    assert _request_refusal({"a": deepest}) == f"its request is nested deeper than {FIELD_DEPTH} levels"
    with pytest.raises(NotJsonError, match="nested deeper"):
        parse_json(json.dumps({"request": {"a": deepest}}).encode())


NUMBER: TypeAdapter[Decimal] = TypeAdapter(Annotated[Decimal, PLAIN_NUMBER])
DIGITS = "1" * 48 * 1024


@pytest.mark.parametrize("text", ["4.90", "4.", ".5", "+1", "-0", "1e3", "1.5E-7", "0012"])
def test_digits_with_point_and_exponent_are_a_number(text: str) -> None:
    """As in any program."""
    assert NUMBER.validate_python(text) == Decimal(text)


@pytest.mark.parametrize(
    "text", ["", ".", "+", "e3", "1e", "1_0", "\u0661", " 1", "1\n", "0x1", "1.2.3", "NaN", "Infinity"]
)
def test_what_only_some_programs_read_is_none(text: str) -> None:
    """Another service would read another number, or none."""
    with pytest.raises(ValidationError):
        NUMBER.validate_python(text)


@pytest.mark.parametrize("text", [f"{DIGITS}x", f"{DIGITS}.{DIGITS}x", f"1e{DIGITS}x"])
def test_text_that_is_nearly_a_number_is_refused_at_once(text: str) -> None:
    """One of the longest orders that are taken stopped a process for a minute and a half."""
    start = time.process_time()
    with pytest.raises(ValidationError):
        NUMBER.validate_python(text)
    assert time.process_time() - start < 0.5


_TIMES = TypeAdapter(UtcTime)


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-22T12:00:00",
        "2026-11-22T24:00:00Z",
        "2026-02-30T12:00:00Z",
        "1999-12-31T23:59:59.999999Z",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-00:01",
        "10000-01-01T00:00:00Z",
    ],
)
def test_time_that_no_row_can_hold_is_refused(text: str) -> None:
    """Without a zone, of no day, or of a year that a zone could lead out of."""
    with pytest.raises(ValidationError):
        _TIMES.validate_json(f'"{text}"')


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("2000-01-01T00:00:00Z", datetime(2000, 1, 1, tzinfo=UTC)),
        ("2026-11-22T14:30:00+02:30", datetime(2026, 11, 22, 12, tzinfo=UTC)),
        ("8999-12-31T23:59:59.999999-00:01", datetime(9000, 1, 1, 0, 0, 59, 999_999, tzinfo=UTC)),
    ],
)
def test_time_is_told_in_utc(text: str, told: datetime) -> None:
    """Whatever zone it came in."""
    read = _TIMES.validate_json(f'"{text}"')
    assert (read, read.tzinfo) == (told, UTC)
    # Limit may be written in days.
    assert (days(3), days(0.5)) == (259_200, 43_200)


class Basket(BaseModel):
    """At least one of each."""

    counts: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]
    names: Annotated[list[str], Field(min_length=1)]


def _told(basket: object) -> list[tuple[tuple[object, ...], str]]:
    with pytest.raises(ValidationError) as fault:
        Basket.model_validate(basket)
    return [(each["loc"], each["type"]) for each in faults_found(fault.value)]


def test_list_whose_items_are_wrong_is_not_called_too_short() -> None:
    """Pydantic counts what fits: of one item that is wrong it says that there is none."""
    assert _told({"counts": [0], "names": ["tea"]}) == [(("counts", 0), "greater_than_equal")]
    # List that is too short is called so beside other faults.
    told = _told({"counts": [0], "names": []})
    assert told == [(("counts", 0), "greater_than_equal"), (("names",), "too_short")]
    # At most 100 faults are returned.
    told = _told({"counts": [0] * 9_000, "names": ["tea"]})
    assert told == [(("counts", number), "greater_than_equal") for number in range(100)]
