"""Orders of a batch travel in few messages, whole, and come out as they went in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from functions.pattern.identity import TaskId
from functions.pattern.messages import SubmissionMessage
from functions.pattern.submission_groups import MOST_IN_GROUP, groups_of, orders_in
from tests.fakes.workflows import submission

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ROOT = Path(__file__).parents[3]


def _orders(count: int, *, note: str = "") -> list[SubmissionMessage]:
    payload = {**submission().payload, "note": note}
    orders = (submission(task=TaskId(f"o-{number}")) for number in range(count))
    return [each.model_copy(update={"payload": payload}) for each in orders]


def test_orders_come_out_as_they_went_in() -> None:
    """With their traces; the message is named by what is in it."""
    orders = _orders(2, note="a\nb")
    [group] = groups_of(orders, [TRACE, None])
    taken = orders_in(group.body) or []
    assert [(each.body, each.traceparent) for each in taken] == [
        (orders[0].written, TRACE),
        (orders[1].written, None),
    ]
    assert [each.traceparent for each in orders_in(next(groups_of(orders, [])).body) or []] == [None, None]
    assert (group.orders, group.subject) == (2, orders[0].workflow)
    ids = [next(groups_of(some, [])).message_id for some in (orders, orders, orders[::-1], orders[:1])]
    assert [len(set(ids)), ids[0] == ids[1], {*map(len, ids)}] == [3, True, {32}]


@pytest.mark.parametrize(("count", "bytes_each", "most"), [(0, 1, 0), (60, 1, 25), (20, 40_000, 4)])
def test_messages_are_few_and_bounded(count: int, bytes_each: int, most: int) -> None:
    """By their orders, and by their bytes."""
    orders = _orders(count, note="x" * bytes_each)
    groups = list(groups_of(orders, [TRACE] * count))
    assert [each.body for group in groups for each in orders_in(group.body) or []] == [
        each.written for each in orders
    ]
    assert all(len(group.body) <= 200_000 for group in groups)
    assert all(group.orders == most for group in groups[:-1])


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"{}\n{}", b'{"schema_version":1,"orders":2}\n{}', b'{\n"schema_version": 1\n}']
)
def test_other_messages_are_no_groups(body: bytes) -> None:
    """Such as one order, however its JSON is set out, or one of which a part is lost."""
    assert orders_in(body) is None


def test_one_invocation_takes_a_thousand_orders_at_most() -> None:
    """All of them are recorded within the lock of their messages."""
    host = json.loads((ROOT / "host.json").read_text(encoding="utf-8"))
    assert host["extensions"]["serviceBus"]["maxMessageBatchSize"] * MOST_IN_GROUP <= 1_000
