"""A request that no service could read is refused before it is sent, and the step says why."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from functions.pattern.errors import PermanentError
from functions.pattern.requests import request_bytes
from functions.pattern.strict_json import FIELD_DEPTH, NotJsonError, parse_json

MOST = 64 * 1024


def _refusal(request: Any) -> str:
    with pytest.raises(PermanentError) as refusal:
        request_bytes(request)
    return str(refusal.value)


def test_request_is_json() -> None:
    """Whatever it holds that JSON has."""
    request = {"amount": "4.90", "items": [{"n": 1, "weight": 0.5}, None, True], "to": ("a", "b")}
    assert json.loads(request_bytes(request)) == request | {"to": ["a", "b"]}


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
        ({"amount": [-(10**309)]}, "request.amount[0]: not a finite number"),
    ],
)
def test_what_json_does_not_have_is_named_with_its_place(request_: Any, reason: str) -> None:
    """The workflow's author finds it at once."""
    assert _refusal(request_) == f"its request can't be written as JSON: {reason}"


@pytest.mark.parametrize(("made", "kind"), [(None, "NoneType"), ([1], "list"), ("a", "str")])
def test_request_is_a_dict(made: Any, kind: str) -> None:
    """An Agent's message has no room for anything else."""
    assert _refusal(made) == f"its request is of type {kind}, not a dict"


@pytest.mark.parametrize(("field", "kind"), [(1, "int"), (None, "NoneType"), (("a", "b"), "tuple")])
def test_field_of_a_request_has_a_text_for_its_name(field: object, kind: str) -> None:
    """Over HTTP it would become one unseen, and a message to an Agent would not take it."""
    reason = f"a field's name is of type {kind}, not str"
    assert _refusal({"a": 1, field: 2}) == f"its request can't be written as JSON: {reason}"


def test_request_without_an_end_is_refused() -> None:
    """Of whichever kind."""
    circle: dict[str, Any] = {}
    circle["again"] = [circle]
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for endless in (circle, {"deep": deep}):
        assert _refusal(endless).endswith("it is nested too deeply, or in itself")


def test_size_is_bounded_and_named() -> None:
    """The bound itself can be sent, in whichever script."""
    room = MOST - len(b'{"text": ""}')
    assert len(request_bytes({"text": "文" * (room // 3)})) <= MOST
    assert len(request_bytes({"text": "x" * room})) == MOST
    assert _refusal({"text": "x" * (room + 1)}) == (
        f"its request has {MOST + 1} bytes; at most {MOST} can be sent"
    )


def test_fault_behind_a_list_without_any_is_found() -> None:
    """The whole request is looked through."""
    with pytest.raises(PermanentError, match=r"request\.weight is inf"):
        request_bytes({"items": [1, "a", None], "weight": float("inf")})


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
    assert _refusal({"a": deepest}) == f"its request is nested deeper than {FIELD_DEPTH} levels"
    with pytest.raises(NotJsonError, match="nested deeper"):
        parse_json(json.dumps({"request": {"a": deepest}}).encode())


def test_largest_number_and_names_that_become_texts_are_sent() -> None:
    """What is written is what its reader reads."""
    written = request_bytes({"amount": 10**308, "seats": {1: "A", 2: "B"}})
    assert parse_json(written) == {"amount": 10**308, "seats": {"1": "A", "2": "B"}}
