"""The project does not grow: its size stays within `tests/budgets.toml`."""

from __future__ import annotations

from tests.house.budgets import bounds, figures


def test_size_is_within_its_budget() -> None:
    """Each figure has a bound, and is not above it."""
    measured, most = figures(), bounds()
    assert measured.keys() == most.keys()
    assert {name: count for name, count in measured.items() if count > most[name]} == {}
