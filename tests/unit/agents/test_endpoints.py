"""Each service has its address, key or token in settings, and each step an Agent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import NoReturn

import pytest
from azure.core.credentials import AccessToken
from azure.identity import CredentialUnavailableError
from pydantic import SecretStr

from functions.agents.catalog import make_agents, make_breakers
from functions.agents.credentials import BearerToken, ManagedIdentity, Token, credential_of
from functions.agents.endpoints import Endpoint, known_here, load_endpoints
from functions.agents.rest import RestAgent
from functions.agents.steps import check_agents, lock_warnings
from functions.pattern.definition import Registry, Step
from functions.pattern.errors import DefinitionError, NotSentError, SettingsError, TransientError
from functions.pattern.ports import Agent
from functions.pattern.states import Way
from tests.fakes.agent_requests import OneWayAgent
from tests.fakes.agents import ScriptedAgent
from tests.fakes.clock import FakeClock
from tests.fakes.ports import fake_ports
from tests.fakes.workflows import step, workflow
from tests.unit.agents.breaker.conftest import POLICY


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


SCOPE = "api://payments/.default"
HOUR = 3_600


class Issuer:
    """Issues tokens that are good for an hour; fails while `failing`."""

    def __init__(self, clock: FakeClock | None = None) -> None:
        self.clock = clock or FakeClock()
        self.scopes: list[str] = []
        self.failing = False
        self.lifetime = HOUR

    async def issue(self, scope: str) -> Token:
        """Give the next one."""
        self.scopes.append(scope)
        await asyncio.sleep(0)
        if self.failing:
            raise TransientError("ClientAuthenticationError")
        number = len(self.scopes)
        return Token(f"canary-{number}", self.clock.now() + timedelta(seconds=self.lifetime))


@pytest.fixture
def issuer(clock: FakeClock) -> Issuer:
    """Make an issuer."""
    return Issuer(clock)


@pytest.fixture
def token(issuer: Issuer, clock: FakeClock) -> BearerToken:
    """Make what keeps its tokens."""
    return BearerToken(SCOPE, issuer, clock)


async def _shown(token: BearerToken) -> str:
    return (await token.headers())["Authorization"]


@pytest.mark.parametrize(("lifetime", "kept"), [(HOUR, HOUR - 301), (60, 29)], ids=["hour", "minute"])
async def test_token_is_kept_until_shortly_before_it_expires(
    token: BearerToken, issuer: Issuer, clock: FakeClock, lifetime: int, kept: int
) -> None:
    """One request for an hour of calls; a token of a short life is kept for half of it."""
    issuer.lifetime = lifetime
    assert await _shown(token) == "Bearer canary-1"
    clock.advance(kept)
    assert await _shown(token) == "Bearer canary-1"
    clock.advance(1)
    assert await _shown(token) == "Bearer canary-2"
    assert issuer.scopes == [SCOPE, SCOPE]


async def test_calls_at_the_same_moment_share_a_token(token: BearerToken, issuer: Issuer) -> None:
    """The issuer limits how often it is asked."""
    assert set(await asyncio.gather(*(_shown(token) for _ in range(20)))) == {"Bearer canary-1"}
    assert len(issuer.scopes) == 1


async def test_token_serves_while_it_cannot_be_renewed(
    token: BearerToken, issuer: Issuer, clock: FakeClock
) -> None:
    """Until it expires; the issuer is left alone for a while."""
    await _shown(token)
    issuer.failing = True
    clock.advance(HOUR - 300)
    assert [await _shown(token) for _ in range(3)] == ["Bearer canary-1"] * 3
    assert len(issuer.scopes) == 2
    clock.advance(299)
    assert await _shown(token) == "Bearer canary-1"
    clock.advance(1)
    with pytest.raises(NotSentError, match=rf"^no token for {SCOPE} \(ClientAuthenticationError\)$"):
        await _shown(token)
    issuer.failing = False
    assert await _shown(token) == f"Bearer canary-{len(issuer.scopes)}"


async def test_no_token_and_no_key_is_in_a_log_or_a_representation(
    token: BearerToken, issuer: Issuer, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever goes wrong."""
    caplog.set_level(logging.DEBUG)
    await _shown(token)
    issuer.failing = True
    clock.advance(HOUR - 1)
    await _shown(token)
    key = credential_of(Endpoint("https://a.example", SecretStr("canary")), issuer, clock)
    shown = [caplog.text, repr(key), repr(Token("canary", clock.now())), repr(token)]
    assert "can't be renewed now" in caplog.text
    assert [text for text in shown if "canary" in text] == []


async def test_service_gets_what_it_asks_for(issuer: Issuer, clock: FakeClock) -> None:
    """A key in its header, a token, or nothing."""
    asked = [
        Endpoint("https://a.example", SecretStr("pay")),
        Endpoint("https://a.example", SecretStr("pay"), header="X-Key"),
        Endpoint("https://a.example", scope=SCOPE),
    ]
    credentials = [credential_of(endpoint, issuer, clock) for endpoint in asked]
    assert [await each.headers() for each in credentials if each is not None] == [
        {"x-functions-key": "pay"},
        {"X-Key": "pay"},
        {"Authorization": "Bearer canary-1"},
    ]
    assert credential_of(Endpoint("https://a.example"), issuer, clock) is None


class SdkCredential:
    """Stands in for the SDK's."""

    made: list[str | None]
    failing: bool

    def __init__(self, *, managed_identity_client_id: str | None) -> None:
        self.made.append(managed_identity_client_id)

    async def get_token(self, scope: str) -> AccessToken:
        """Give a token that names the scope."""
        if self.failing:
            raise CredentialUnavailableError(message="canary: no identity here")
        return AccessToken(f"for {scope}", 1_800_000_000)


@pytest.fixture(autouse=True)
def _sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("azure.identity.aio.DefaultAzureCredential", SdkCredential)
    monkeypatch.setattr(SdkCredential, "made", [], raising=False)
    monkeypatch.setattr(SdkCredential, "failing", False, raising=False)


async def test_token_is_issued_to_the_identity_of_the_settings() -> None:
    """One credential issues all of them, and only when one is wanted."""
    identity = ManagedIdentity("id-7")
    assert SdkCredential.made == []
    expires_at = datetime.fromtimestamp(1_800_000_000, UTC)
    assert await identity.issue("api://a/.default") == Token("for api://a/.default", expires_at)
    assert await identity.issue("api://b/.default") == Token("for api://b/.default", expires_at)
    assert SdkCredential.made == ["id-7"]


async def test_identity_that_gets_none_is_a_transient_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """A role may be on its way; the SDK's text stays inside."""
    monkeypatch.setattr(SdkCredential, "failing", True)
    with pytest.raises(TransientError, match=r"^CredentialUnavailableError$"):
        await ManagedIdentity(None).issue("api://a/.default")


def test_agents_without_a_maker_are_rest_agents() -> None:
    """A workflow names only those that call their services in a way of their own."""

    class OwnAgent(RestAgent):
        pass

    endpoints = {name: Endpoint("https://services.example.com") for name in ("payment", "hotel")}
    makers = {"hotel": OwnAgent}
    ports = fake_ports()
    agents = make_agents(
        endpoints,
        makers,
        ports,
        make_breakers(endpoints, ports, POLICY, skew=timedelta(seconds=5)),
        session=_no_session,
        once_session=_no_session,
        issuer=Issuer(),
    )
    assert {name: type(agent) for name, agent in agents.items()} == {"payment": RestAgent, "hotel": OwnAgent}


def _no_session() -> NoReturn:
    raise AssertionError("nothing is called")


def _check(*steps: Step, agents: Mapping[str, Agent] | None = None) -> None:
    queues = {"submissions": 60.0, "agent-fly-requests": 15.0}
    check_agents([workflow(*steps, name="trips")], agents or {}, queues=queues, function_timeout=300)


def _agents_refusal(*steps: Step, agents: Mapping[str, Agent] | None = None) -> str:
    with pytest.raises(DefinitionError) as refusal:
        _check(*steps, agents=agents)
    return str(refusal.value)


def test_undo_without_an_agent_that_can_is_named() -> None:
    """The definition promises what the Agent lacks."""
    text = _agents_refusal(step("fly", undo=True), agents={"fly": OneWayAgent()})
    assert text == "workflow 'trips': step 'fly': it has undo, but its Agent 'fly' can't undo"


def test_step_without_an_agent_is_named() -> None:
    """Nobody could ever do it."""
    assert "step 'fly': no remote service is known for its Agent 'fly'" in _agents_refusal(step("fly"))


def test_agent_behind_a_queue_may_be_served_elsewhere() -> None:
    """By another team's process, for one."""
    _check(step("fly", undo=True, via=Way.QUEUE))


def test_agents_that_can_are_taken() -> None:
    """With undo and without."""
    agents: dict[str, Agent] = {"fly": ScriptedAgent(), "sleep": OneWayAgent()}
    _check(step("fly", undo=True), step("sleep"), agents=agents)


def test_queue_that_does_not_exist_is_named_with_the_files_to_edit() -> None:
    """Every request to it would fail, for as long as the task has recoveries."""
    assert _agents_refusal(step("fly", via=Way.QUEUE), step("sleep", via=Way.QUEUE)) == (
        "workflow 'trips': step 'sleep': there is no queue 'agent-sleep-requests' for its requests:"
        " add it to infra/queues.json, and to QUEUES in functions/messages/queues.py"
    )


def test_activity_ends_before_its_function_does() -> None:
    """The host would end it, and the process's other functions with it."""
    agents = {"fly": OneWayAgent()}
    _check(step("fly", complete_within=270), agents=agents)
    assert _agents_refusal(step("fly", complete_within=270.5), agents=agents) == (
        "workflow 'trips': step 'fly': complete_within is 270.5 seconds, but an activity has 270"
        " (functionTimeout less 30): shorten it, or reach its Agent by Way.QUEUE"
    )


def test_step_behind_a_queue_may_take_days() -> None:
    """No function waits for it."""
    _check(step("fly", via=Way.QUEUE, complete_within=3 * 86_400))


FLY = step("fly", via=Way.QUEUE, complete_within=29)
TRIPS = workflow(FLY, step("stay", complete_within=1), name="trips")
QUEUE = "agent-fly-requests"
TOO_LATE = "a request that a crash interrupts comes again too late"


@pytest.mark.parametrize(("lock", "warned"), [(14.5, False), (15, True)])
def test_step_with_less_than_two_locks_is_named_with_both_figures(lock: float, *, warned: bool) -> None:
    """Steps whose Agents are activities have no lock; one without a queue is refused elsewhere."""
    text = (
        "workflow 'trips': step 'fly': complete_within is 29 seconds,"
        f" less than twice the lock of '{QUEUE}' (15 seconds): {TOO_LATE}"
    )
    assert list(lock_warnings([TRIPS], {QUEUE: lock})) == [text] * warned
    assert list(lock_warnings([TRIPS], {})) == []


def test_application_warns_at_start(caplog: pytest.LogCaptureFixture) -> None:
    """It starts all the same: the Supervisor recovers what comes too late."""
    check_agents([workflow(FLY, name="trips")], {}, queues={QUEUE: 15}, function_timeout=300)
    assert [TOO_LATE in each for each in caplog.messages] == [True]
