"""The settings of services, the making of Agents, and the checks of steps against Agents and queues."""

from __future__ import annotations

import logging
from typing import Any, NoReturn

import pytest
from pydantic import BaseModel

from functions.agents.agent_catalog import (
    agents_here,
    check_agents,
    finders,
    load_endpoints,
    make_agents,
)
from functions.agents.http_agent import Call, HttpAgent, RestAgent
from functions.connections import SettingsError
from functions.core.definition.definition_checks import DefinitionError
from functions.core.definition.step_definition import BaseStep
from functions.core.definition.workflow_definition import WorkflowRegistry
from functions.service_credentials import BearerToken, HeaderKey
from functions.workflow import QueueStep, Step, Workflow, days
from tests.fakes.storage_process import real_now
from tests.unit.agents.test_service_credentials import Issuer


class Trip(BaseModel):
    """The payload."""


class OneWayAgent(HttpAgent):
    """Cannot undo."""

    async def do(self, call: Call) -> None:
        """Do nothing."""


class FindingAgent(RestAgent):
    """Can look up."""

    async def find(self, call: Call) -> NoReturn:
        """Fail."""
        raise NotImplementedError


def _request(_trip: Trip, _results: object) -> dict[str, object]:
    return {}


def call(name: str, **options: Any) -> BaseStep[Any]:
    """Return a step of a call."""
    return Step(name, request=_request, **options)


def queued(name: str, **options: Any) -> BaseStep[Any]:
    """Return a step behind a queue."""
    return QueueStep(name, request=_request, **options)


def registry(*steps: BaseStep[Any]) -> WorkflowRegistry:
    """Return a registry with one workflow."""
    return WorkflowRegistry([Workflow("trips", payload=Trip, steps=list(steps))])


# Settings


@pytest.fixture(autouse=True)
def _addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAYMENT_URL", "https://pay.example.com/payments")
    monkeypatch.setenv("CAR_RENTAL_URL", "https://cars.example.com")
    monkeypatch.setenv("HOTEL_URL", "https://hotels.example.com")


def _fault(*agents: str) -> str:
    with pytest.raises(SettingsError) as fault:
        load_endpoints(agents)
    assert "\n" not in str(fault.value)
    return str(fault.value)


def test_each_agent_has_the_settings_of_its_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are named after the Agent; an empty setting is not set."""
    for name, value in {
        "PAYMENT_KEY": "pay",
        "PAYMENT_HEADER": "Ocp-Apim-Subscription-Key",
        "CAR_RENTAL_SCOPE": "api://cars/.default",
        "AGENT_CAR_RENTAL_AT_ONCE": "10",
        "HOTEL_KEY": "",
    }.items():
        monkeypatch.setenv(name, value)
    found = load_endpoints(["payment", "car-rental", "hotel"])
    payment, rental, hotel = found["payment"], found["car-rental"], found["hotel"]
    seen = (payment.address, payment.header)
    assert seen == ("https://pay.example.com/payments", "Ocp-Apim-Subscription-Key")
    assert payment.key is not None
    assert payment.key.get_secret_value() == "pay"
    assert "'pay'" not in repr(payment)
    assert (rental.address, rental.scope) == ("https://cars.example.com/", "api://cars/.default")
    assert (rental.calls_at_once, hotel.calls_at_once) == (10, None)
    assert (hotel.key, hotel.scope, hotel.header) == (None, None, "x-functions-key")


@pytest.mark.parametrize("value", ["", None, "pay.example.com", "ftp://pay.example.com"])
def test_missing_or_wrong_address_is_named_with_its_fix(
    value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line."""
    monkeypatch.delenv("PAYMENT_URL")
    if value is not None:
        monkeypatch.setenv("PAYMENT_URL", value)
    text = _fault("payment")
    assert text.startswith("setting PAYMENT_URL is ")
    assert "set it to the address of the service, such as https://pay.example.com/payments" in text


def test_missing_addresses_are_named_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Together, beside other faults."""
    monkeypatch.delenv("PAYMENT_URL")
    monkeypatch.delenv("CAR_RENTAL_URL")
    monkeypatch.setenv("HOTEL_URL", "nowhere")
    assert _fault("payment", "car-rental", "hotel").startswith(
        "settings CAR_RENTAL_URL, PAYMENT_URL are missing: set each to the address of the service, such as"
        " https://pay.example.com/payments; setting HOTEL_URL is wrong ("
    )


def test_contradictions_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service gets a key or a token."""
    monkeypatch.setenv("PAYMENT_KEY", "canary")
    monkeypatch.setenv("PAYMENT_SCOPE", "api://payments/.default")
    monkeypatch.setenv("HOTEL_HEADER", "X-Key")
    assert _fault("payment", "hotel") == (
        "setting HOTEL_HEADER is set without HOTEL_KEY: set the key, or remove the header;"
        " settings PAYMENT_KEY and PAYMENT_SCOPE are both set: a service gets a key or a token, so remove one"
    )


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("PAYMENT_HEADER", "Idempotency-Key"),
        ("PAYMENT_HEADER", "content-type"),
        ("PAYMENT_HEADER", "X-Key\r\nHost"),
        ("PAYMENT_KEY", "canary\n"),
        ("PAYMENT_KEY", "canary→"),
        ("PAYMENT_SCOPE", "api://payments/.default canary"),
        ("AGENT_PAYMENT_AT_ONCE", "0"),
    ],
)
def test_value_that_cannot_work_is_named_at_start(
    setting: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the value, which may be a secret."""
    monkeypatch.setenv("PAYMENT_KEY", "pay")
    monkeypatch.setenv(setting, value)
    text = _fault("payment")
    assert text.startswith(f"setting {setting} is wrong (")
    assert ": set it to the " in text
    assert "canary" not in text


def test_agents_of_a_process_depend_on_its_role() -> None:
    """An unknown name would have two processes serve one queue."""
    flow = registry(call("hotel"), queued("payment"))
    both = {"serves_calls": True, "serves_queues": True}
    assert agents_here(flow, frozenset(), **both) == {"hotel", "payment"}
    assert agents_here(flow, frozenset({"payment"}), **both) == {"hotel"}
    assert agents_here(flow, frozenset(), serves_calls=False, serves_queues=True) == {"payment"}
    with pytest.raises(SettingsError, match=r"AGENTS_ELSEWHERE names 'payments': .* which are payment$"):
        agents_here(flow, frozenset({"payments"}), **both)


def _no_session() -> NoReturn:
    raise AssertionError("nothing is called")


def test_agents_are_made_with_their_class_and_credential(monkeypatch: pytest.MonkeyPatch) -> None:
    """A `RestAgent` with no credential is the default."""
    monkeypatch.setenv("PAYMENT_KEY", "pay")
    monkeypatch.setenv("HOTEL_SCOPE", "api://hotels/.default")
    agents = make_agents(
        load_endpoints(["payment", "hotel", "car-rental"]),
        {"hotel": OneWayAgent},
        now=real_now,
        session=_no_session,
        once_session=_no_session,
        issuer=Issuer(),
    )
    kinds = {
        name: (type(agent), type(agent._service.credential), agent._service.name)
        for name, agent in agents.items()
    }
    assert kinds == {
        "payment": (RestAgent, HeaderKey, "payment"),
        "hotel": (OneWayAgent, BearerToken, "hotel"),
        "car-rental": (RestAgent, type(None), "car-rental"),
    }


def test_finders_are_the_gates_of_agents_that_can_look_up() -> None:
    """Of calls and of queues."""
    flow = registry(call("hotel"), queued("payment"), call("car", agent="rest"))
    classes = {"hotel": FindingAgent, "payment": FindingAgent}
    assert finders(flow, classes) == {"hotel", "queue:payment"}


# Checks


def _definition_fault(*steps: BaseStep[Any], **classes: type[HttpAgent]) -> str:
    with pytest.raises(DefinitionError) as fault:
        check_agents(registry(*steps), classes, {"fly"})
    return str(fault.value)


def test_undo_without_an_agent_that_can_is_named() -> None:
    """An Agent elsewhere may be able to."""
    text = _definition_fault(call("fly", undo=True), fly=OneWayAgent)
    assert text.endswith(
        'step "fly": undo: its Agent "fly" cannot undo: define OneWayAgent.undo, or remove undo'
    )
    check_agents(registry(queued("fly", undo=True)), {"fly": OneWayAgent}, ())
    check_agents(registry(call("fly", undo=True)), {"fly": RestAgent}, {"fly"})


def test_time_to_live_that_is_shorter_than_a_step_stops_the_start() -> None:
    """Its requests would expire before their deadline."""
    check_agents(registry(queued("fly", complete_within=days(1))), {}, {"fly"})
    assert _definition_fault(queued("fly", complete_within=days(30))).endswith(
        'step "fly": complete_within: 2592000 s is longer than the time to live of queue'
        ' "agent-fly-requests" (86400 s): shorten it, or add the queue to QUEUES in'
        " functions/messaging/queue_names.py, and run make queues"
    )


@pytest.mark.parametrize(("seconds", "warnings"), [(30, 0), (29, 1)])
def test_step_with_less_than_two_locks_is_warned_of(
    seconds: float, warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The application starts: the Supervisor recovers the task."""
    caplog.set_level(logging.WARNING)
    check_agents(registry(queued("fly", complete_within=seconds)), {}, {"fly"})
    found = ["less than twice the lock of its queue (15 s)" in text for text in caplog.messages]
    assert found == [True] * warnings
