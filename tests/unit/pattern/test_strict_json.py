"""Messages are JSON, strictly; a fault is told by its place."""

from __future__ import annotations

from math import isinf

import pytest

from functions.pattern.strict_json import MESSAGE_DEPTH, FaultAt, NotJsonError, parse_json


def _faults(body: bytes) -> tuple[FaultAt, ...]:
    with pytest.raises(NotJsonError) as refusal:
        parse_json(body)
    return refusal.value.faults


def test_every_fault_is_told() -> None:
    """With its kind, which the message's own names are no part of."""
    body = rb'{"a": [1, NaN], "b": {"c": 1, "c": 2}, "d": "\ud83d", "\ude00": 1}'
    assert [(str(fault), fault.kind) for fault in _faults(body)] == [
        ("a[1]: not a JSON number", "not a JSON number"),
        ("b.c: given twice", "given twice"),
        ("d: half a character", "half a character"),
        ("half a character", "half a character"),
    ]


@pytest.mark.parametrize("sign", [1, -1])
def test_whole_numbers_are_read_as_long_as_others_would_not_read_infinity(sign: int) -> None:
    """What lies between the largest float and the next there would be is rounded to either."""
    infinite = sign * (2**1024 - 2**970)
    assert parse_json(b"%d" % (infinite - sign)) == infinite - sign
    assert isinf(float(str(infinite)))
    assert str(_faults(b"%d" % infinite)[0]) == "a number that is too large"


@pytest.mark.parametrize(
    "digits",
    [
        "9007199254740993." + "0" * 40,
        "9007199254740993." + "0" * 40 + "1",
        "-0.1000000000000000055511151231257827021181583404541015625",
        "2." + "2" * 60 + "e-308",
        "5." + "0" * 50 + "e-324",
        "-0." + "0" * 50,
        "1." + "1" * 50 + "e-999999999999999999999",
    ],
)
def test_number_of_many_digits_is_rounded_as_if_it_had_them_all(digits: str) -> None:
    """The second lies just above the middle between two floats, and the first in it."""
    assert repr(parse_json(digits.encode())) == repr(float(digits))


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (b"1e400", "result: a number that is too large"),
        (b"1." + b"1" * 50 + b"e999999999999999999999", "result: a number that is too large"),
        (b"-1" + b"0" * 400, "result: a number that is too large"),
        (b"9" * 5_000, "result: a number that is too large"),
        (b"[" * 11_000 + b"]" * 11_000, "nested deeper than 100 levels"),
        (b'{"a":[' * 11_000 + b'"]]\\""' + b"]}" * 11_000, "nested deeper than 100 levels"),
    ],
    ids=["power", "digits and power", "digits", "more than Python reads", "lists", "texts like lists"],
)
def test_what_could_be_read_is_kept(value: bytes, fault: str) -> None:
    """Around the fault, which is in the result."""
    with pytest.raises(NotJsonError) as refusal:
        parse_json(b'{"task_id": "[", "result": ' + value + b', "epoch": 1}')
    [told], content = refusal.value.faults, refusal.value.content
    assert (told.place[0], str(told).endswith(fault)) == ("result", True)
    assert isinstance(content, dict)
    assert (content["task_id"], content["epoch"]) == ("[", 1)


def test_largest_number_is_taken_however_it_is_written() -> None:
    """An int stays one."""
    assert parse_json(b"[" + str(10**308).encode() + b", 1e308, -7]") == [10**308, 1e308, -7]


@pytest.mark.parametrize(
    ("value", "last"), [(b"NaN", "v[99]: not a JSON number"), (b'"\\ud800"', "wrong in 100 places or more")]
)
def test_no_more_faults_are_told_than_can_be_of_use(value: bytes, last: str) -> None:
    """A body could have a million; behind many halves of characters, others may hide."""
    with pytest.raises(NotJsonError) as refused:
        parse_json(b'{"v": [' + b",".join([value] * 1_000) + b"]}")
    assert str(refused.value.faults[-1]) == last


def test_name_given_twice_among_many_costs_no_more_than_reading_them() -> None:
    """Time that grew with the square of their number would be a quarter of an hour, and end this test."""
    names = b",".join(b'"%x":0' % number for number in range(200_000))
    assert [str(each) for each in _faults(b'{"0":0,' + names + b"}")] == ["0: given twice"]


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"{", "not JSON (at character 1)"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "nested deeper than 100 levels"),
    ],
    ids=["no end", "no UTF-8", "depth"],
)
def test_what_cannot_be_read_at_all_has_no_place(body: bytes, fault: str) -> None:
    """Nor has it any content."""
    assert [str(each) for each in _faults(body)] == [fault]


def test_whole_characters_and_depth_are_taken() -> None:
    """However they are escaped; one level more is not."""
    assert parse_json(rb'["\ud83d\ude00 \u00e9"]') == ["\U0001f600 é"]
    deep = b"[" * MESSAGE_DEPTH + b"]" * MESSAGE_DEPTH
    assert parse_json(deep)
    [fault] = _faults(b'{"result":' + deep + b"}")
    assert (fault.place[0], fault.text) == ("result", "nested deeper than 100 levels")
