"""Messages are JSON, strictly; a fault is told by its place."""

from __future__ import annotations

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


def test_what_could_be_read_is_kept() -> None:
    """Around the fault."""
    with pytest.raises(NotJsonError) as refusal:
        parse_json(b'{"task_id": "task-1", "result": {"amount": 1e400}}')
    content = refusal.value.content
    assert isinstance(content, dict)
    assert content["task_id"] == "task-1"


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"{", "not JSON (at character 1)"),
        (b"\xff", "not JSON"),
        (b"9" * 5_000, "not JSON"),
        (b"[" * 100_000, "nested deeper than 100 levels"),
    ],
    ids=["no end", "no UTF-8", "digits", "depth"],
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
