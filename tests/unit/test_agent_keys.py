"""The keys that remote services ask for come from the settings, one for each Agent."""

from __future__ import annotations

import pytest

from functions.agent_keys import load_agent_keys


def test_each_agent_has_its_own_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that asks for none needs no setting; one that is empty is not set."""
    monkeypatch.setenv("PAYMENT_KEY", "pay")
    monkeypatch.setenv("CAR_RENTAL_KEY", "car")
    monkeypatch.setenv("HOTEL_KEY", "")
    keys = load_agent_keys(["payment", "car-rental", "hotel", "flight"])
    assert {name: key and key.get_secret_value() for name, key in keys.items()} == {
        "payment": "pay",
        "car-rental": "car",
        "hotel": None,
        "flight": None,
    }
    assert "pay" not in repr(keys["payment"])
