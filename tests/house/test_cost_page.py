"""The cost tables of `docs/performance.md` follow from the counts and from the list of prices."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from local.cost import tables
from local.cost.counting import CountedOrder
from local.cost.model import ACTIONS, EXECUTIONS, HUB_REQUESTS, METERS, of_ours, of_plain

_COUNTED = tables.read_counted(tables.PAGE.read_text(encoding="utf-8"))
_ORDER = CountedOrder("orders", executions=8, transactions=3, messages=3, episodes=3, activities=1, cpu=0.02)


def test_page_is_what_the_command_prints() -> None:
    """`python -m local cost --page` counts again, and writes it."""
    assert tables.PAGE.read_text(encoding="utf-8") == tables.page(_COUNTED)
    assert [table for table in tables.tables(_COUNTED) if table not in tables.page(_COUNTED)] == []
    assert [each.name for each in _COUNTED] == ["orders", "five steps", "deliveries"]


def test_every_meter_has_a_price_or_says_to_look_it_up() -> None:
    """With its unit and its source."""
    prices = json.loads((Path(tables.__file__).parent / "prices.json").read_text(encoding="utf-8"))["prices"]
    assert prices.keys() == {meter.key for meter in METERS}
    assert [key for key, price in prices.items() if not (price["unit"] and price["source"])] == []
    assert [key for key, price in prices.items() if price["price"] is None] == [ACTIONS.key]


def test_actions_are_counted_as_microsoft_counts_them() -> None:
    """One for the start, and two for each activity."""
    assert of_plain(3, _ORDER)[ACTIONS] == 7
    assert of_ours(_ORDER)[ACTIONS] == 3


def test_plain_app_runs_the_orchestrator_again_after_each_activity() -> None:
    """A request, five activities, and six episodes."""
    assert of_plain(5, _ORDER)[EXECUTIONS] == 12


def test_one_back_end_is_paid_for_at_a_time() -> None:
    """Whichever it is, the other one's figure is left out."""
    used = dict.fromkeys(METERS, 0.0) | {HUB_REQUESTS: 100.0, ACTIONS: 100.0}
    assert tables.dollars(used, instead_of=ACTIONS) == pytest.approx(4.0)
    assert tables.dollars(used, instead_of=HUB_REQUESTS) == 0
