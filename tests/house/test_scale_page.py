"""`docs/scale.md` says what follows from the measured costs and Azure's limits."""

from __future__ import annotations

from local.scale_page import LIMITS, PAGE, OrderCost, costs, page

_ORDERS, _STEPS = costs()
_BY_PART = {limit.part: limit for limit in LIMITS}


def test_page_is_current() -> None:
    """`make scale-page` computes it again after a change of what an order costs."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_costs_are_those_of_the_page_of_measured_figures() -> None:
    """As they are now, not as they were before."""
    assert OrderCost(rows=10, messages=3, events=12, activities=1, cpu=0.019) == _ORDERS
    assert OrderCost(rows=26, messages=1, events=8, activities=1, cpu=0.014) == _STEPS


def test_one_account_takes_some_770_orders_of_five_steps() -> None:
    """20,000 rows a second, 26 for each; with room to spare, two are needed for 1,000."""
    accounts = _BY_PART["state store: accounts"]
    assert 769 < accounts.reached(_STEPS) < 770
    assert [accounts.units(rate, _STEPS) for rate in (100, 1_000, 10_000)] == [1, 2, 19]


def test_what_is_said_to_bind_first_is_what_the_default_reaches_first() -> None:
    """Service Bus, for both; then the account, or for `orders` the history of Durable Functions."""
    defaults = [limit for limit in LIMITS if not limit.part.startswith("or ")]
    first = [sorted(defaults, key=lambda each: each.reached(cost))[:2] for cost in (_ORDERS, _STEPS)]
    assert [[each.part for each in some] for some in first] == [
        ["Service Bus, Standard: namespaces", "Durable in Azure Storage: accounts"],
        ["Service Bus, Standard: namespaces", "state store: accounts"],
    ]
