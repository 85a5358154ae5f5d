"""Each remote service has its address and its key in settings named after its Agent."""

from __future__ import annotations

from typing import NoReturn

import pytest

from functions.agents.catalog import load_endpoints, make_agents
from functions.agents.rest import RestAgent
from functions.pattern.errors import SettingsError
from tests.fakes.ports import fake_ports
from tests.unit.agents.breaker.instances import POLICY


@pytest.fixture(autouse=True)
def _addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAYMENT_URL", "https://pay.example.com/payments")
    monkeypatch.setenv("CAR_RENTAL_URL", "https://cars.example.com")
    monkeypatch.setenv("HOTEL_URL", "https://hotels.example.com")


def test_each_agent_has_the_address_of_its_service() -> None:
    """The setting is named after the Agent."""
    endpoints = load_endpoints(["payment", "car-rental"])
    assert {name: each.address for name, each in endpoints.items()} == {
        "payment": "https://pay.example.com/payments",
        "car-rental": "https://cars.example.com/",
    }


def test_each_agent_has_the_key_of_its_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that asks for none needs no setting; one that is empty is not set."""
    monkeypatch.setenv("PAYMENT_KEY", "pay")
    monkeypatch.setenv("CAR_RENTAL_KEY", "car")
    monkeypatch.setenv("HOTEL_KEY", "")
    endpoints = load_endpoints(["payment", "car-rental", "hotel"])
    assert {name: each.key and each.key.get_secret_value() for name, each in endpoints.items()} == {
        "payment": "pay",
        "car-rental": "car",
        "hotel": None,
    }
    assert "'pay'" not in repr(endpoints["payment"])


@pytest.mark.parametrize("value", ["", None, "pay.example.com", "ftp://pay.example.com"])
def test_missing_or_wrong_address_is_named_with_its_fix(
    value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line names the setting, and what an address looks like."""
    monkeypatch.delenv("PAYMENT_URL")
    if value is not None:
        monkeypatch.setenv("PAYMENT_URL", value)
    with pytest.raises(SettingsError) as refusal:
        load_endpoints(["payment"])
    text = str(refusal.value)
    assert text.startswith("setting PAYMENT_URL is ")
    assert "set it to the address of the service, such as https://pay.example.com/payments" in text
    assert "\n" not in text


def test_agents_without_a_maker_are_rest_agents() -> None:
    """A workflow names only those that call their services in a way of their own."""

    class OwnAgent(RestAgent):
        pass

    endpoints = load_endpoints(["payment", "hotel"])
    makers = {"hotel": OwnAgent}
    agents = make_agents(
        endpoints, makers, fake_ports(), POLICY, session=_no_session, once_session=_no_session
    )
    assert {name: type(agent) for name, agent in agents.items()} == {"payment": RestAgent, "hotel": OwnAgent}


def _no_session() -> NoReturn:
    raise AssertionError("nothing is called")
