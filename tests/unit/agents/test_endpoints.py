"""Each service has its address, and what it asks its callers for, in settings named after its Agent."""

from __future__ import annotations

import pytest

from functions.agents.endpoints import known_here, load_endpoints
from functions.pattern.definition import Registry
from functions.pattern.errors import SettingsError
from functions.pattern.states import Way
from tests.fakes.workflows import step, workflow


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


def test_missing_addresses_are_named_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The developer sets all of them before the next start."""
    monkeypatch.delenv("PAYMENT_URL")
    monkeypatch.delenv("CAR_RENTAL_URL")
    monkeypatch.setenv("HOTEL_URL", "nowhere")
    text = _refusal("payment", "car-rental", "hotel")
    assert text.startswith(
        "settings CAR_RENTAL_URL, PAYMENT_URL are missing: set each to the address of the service, such as"
        " https://pay.example.com/payments; setting HOTEL_URL is wrong ("
    )
    assert "\n" not in text


def test_service_may_ask_for_a_key_in_a_header_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Azure Functions' header is the default."""
    monkeypatch.setenv("PAYMENT_KEY", "pay")
    monkeypatch.setenv("PAYMENT_HEADER", "Ocp-Apim-Subscription-Key")
    endpoints = load_endpoints(["payment", "hotel"])
    assert endpoints["payment"].header == "Ocp-Apim-Subscription-Key"
    assert endpoints["hotel"].header == "x-functions-key"


def test_service_may_ask_for_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are for its scope."""
    monkeypatch.setenv("PAYMENT_SCOPE", "api://payments/.default")
    endpoints = load_endpoints(["payment", "hotel"])
    assert (endpoints["payment"].scope, endpoints["hotel"].scope) == ("api://payments/.default", None)


def test_key_and_token_together_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would not be clear which one the service gets."""
    monkeypatch.setenv("PAYMENT_KEY", "canary")
    monkeypatch.setenv("PAYMENT_SCOPE", "api://payments/.default")
    monkeypatch.setenv("HOTEL_HEADER", "X-Key")
    assert _refusal("payment", "hotel") == (
        "setting HOTEL_HEADER is set without HOTEL_KEY: set the key, or remove the header;"
        " settings PAYMENT_KEY and PAYMENT_SCOPE are both set: a service gets a key or a token, so remove one"
    )


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("PAYMENT_HEADER", "Idempotency-Key"),
        ("PAYMENT_HEADER", "content-type"),
        ("PAYMENT_HEADER", "X Key"),
        ("PAYMENT_HEADER", "X-Key\r\nHost"),
        ("PAYMENT_KEY", "canary\n"),
        ("PAYMENT_KEY", "canary→"),
        ("PAYMENT_SCOPE", "api://payments/.default canary"),
    ],
)
def test_what_no_header_can_hold_is_refused_at_start(
    setting: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every call would fail; and the line shows no secret."""
    monkeypatch.setenv("PAYMENT_KEY", "pay")
    monkeypatch.setenv(setting, value)
    text = _refusal("payment")
    assert text.startswith(f"setting {setting} is wrong (")
    assert ": set it to the " in text
    assert "canary" not in text


def test_agents_elsewhere_are_not_known_here() -> None:
    """Their services need no address; a misspelt name would have one queue served by two ledgers."""
    registry = Registry((workflow(step("hotel"), step("payment", via=Way.QUEUE)),), {})
    assert known_here(registry, frozenset({"payment"})) == {"hotel"}
    with pytest.raises(SettingsError, match=r"AGENTS_ELSEWHERE names 'payments': .* which are payment$"):
        known_here(registry, frozenset({"payments"}))


def _refusal(*agents: str) -> str:
    with pytest.raises(SettingsError) as refusal:
        load_endpoints(agents)
    return str(refusal.value)


def test_calls_of_a_service_may_be_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of an Agent's, over all instances; any number unless it is set."""
    monkeypatch.setenv("AGENT_CAR_RENTAL_AT_ONCE", "10")
    endpoints = load_endpoints(["payment", "car-rental"])
    assert (endpoints["payment"].at_once, endpoints["car-rental"].at_once) == (None, 10)
    monkeypatch.setenv("AGENT_CAR_RENTAL_AT_ONCE", "0")
    assert _refusal("car-rental") == (
        "setting AGENT_CAR_RENTAL_AT_ONCE is wrong (input should be greater than or equal to 1): set it to"
        " the calls of the service that may be in flight over all instances, such as 10"
    )
