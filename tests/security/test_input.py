"""Hostile input is refused at each route, and answers contain no secrets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from functions.agents.agent_catalog import load_endpoints
from functions.core.task_events import EventReceived
from functions.messaging.message_format import QueueMessage
from functions.settings import load_settings
from functions.storage.table_contract import TransientStorageError
from tests.fakes.application import SETTINGS
from tests.fakes.asgi import AsgiClient, HttpAnswer
from tests.security.hostile import HOSTILE, HostileBatch
from tests.security.purchases import CANARY, CANARY_CODE, CANARY_PIN, CHARGED, EVENT, PAYLOAD, PURCHASES
from tests.security.routes import REJECTED, Route, routes_of
from tests.unit.api.scene import ORDER, ORDERS, TASK, Api, problem
from tests.unit.operators.conftest import Desk

ROUTES = [each for app in (Api(ORDERS).application(), Desk().application) for each in routes_of(app)]


def _params(routes: Iterable[Route]) -> list[Any]:
    return [pytest.param(route, id=str(route)) for route in routes]


WITH_BODY = _params(route for route in ROUTES if route.has_body)
#: A step defines the fields of its events.
WITH_FIELDS = _params(route for route in ROUTES if route.has_body and not route.is_of_events)
NAMING = _params(route for route in ROUTES if TASK in route.path)

ODATA = "' or PartitionKey ne '"


@pytest.fixture
def api() -> Api:
    """Serve callers. A refused request leaves no row."""
    return Api(ORDERS)


@pytest.fixture
async def office() -> Desk:
    """Serve the operators' application, with one task."""
    office = Desk()
    await office.in_error()
    return office


def _application(api: Api, office: Desk, route: Route) -> Any:
    return office.application if "/ops/" in route.path else api.application()


async def _send(app: Any, route: Route, body: bytes, content_type: str = "application/json") -> HttpAnswer:
    client = AsgiClient(app, {"X-Requested-With": "test"})
    return await client.send(route.method, route.path, body, content_type=content_type)


def _with(route: Route, value: str) -> bytes:
    """Return the route's body with one more field, whose value is this JSON."""
    return json.dumps(route.body)[:-1].encode() + b', "more": ' + value.encode("latin-1") + b"}"


@pytest.mark.parametrize("route", WITH_BODY)
@pytest.mark.parametrize(
    "value", ["NaN", "Infinity", "-Infinity", "1e999", '"\xff"', "[" * 18 + "]" * 18, "{"]
)
async def test_invalid_json_is_400(api: Api, office: Desk, route: Route, value: str) -> None:
    """Invalid numbers, other encodings, too much depth; nothing is submitted."""
    problem(await _send(_application(api, office, route), route, _with(route, value)), 400)
    assert api.submitted == []


@pytest.mark.parametrize("route", WITH_FIELDS)
async def test_unknown_fields_are_422(api: Api, office: Desk, route: Route) -> None:
    """So no caller can set fields that are not theirs."""
    problem(await _send(_application(api, office, route), route, _with(route, "1")), 422)


@pytest.mark.parametrize("route", WITH_BODY)
async def test_only_json_is_accepted(api: Api, office: Desk, route: Route) -> None:
    """Neither forms nor text."""
    body = json.dumps(route.body).encode()
    problem(await _send(_application(api, office, route), route, body, "text/plain"), 415)


@pytest.mark.parametrize("route", WITH_BODY)
async def test_bodies_are_bounded(api: Api, office: Desk, route: Route) -> None:
    """Also blank ones."""
    kibibytes = 1024 if route.path.endswith("/batch") else 128 if "/ops/" in route.path else 48
    problem(await _send(_application(api, office, route), route, b" " * (kibibytes * 1024 + 1)), 413)


@pytest.mark.parametrize("route", NAMING)
@pytest.mark.parametrize("name", [ODATA, "a|b", "a.b", "a#b", "a\\b", "%2F", "a\x00", "a\n", "ä", "x" * 65])
async def test_ids_have_a_strict_format(api: Api, office: Desk, route: Route, name: str) -> None:
    """They can be part of a key, but contain nothing that changes a filter, path or header."""
    astray = Route(route.method, route.path.replace(TASK, name))
    problem(await astray.ask(_application(api, office, route), {}), 422)


@pytest.mark.parametrize("field", ["min_age", "max_age", "version"])
@pytest.mark.parametrize("number", ["1_0", "%D9%A1", "%EF%BC%91", "+1"])  # in Arabic, in full width, a blank
async def test_numbers_are_written_in_plain_digits(office: Desk, field: str, number: str) -> None:
    """What Python would read as one, too."""
    problem(await office.get(f"/tasks?workflow=orders&{field}={number}"), 422)


@pytest.mark.parametrize("batch", HOSTILE.values(), ids=HOSTILE)
async def test_hostile_batch_is_answered_and_other_requests_are_served(batch: HostileBatch) -> None:
    """Beside it and after it. `python -m tests.security.hostile` prints the CPU time of each."""
    api = Api()
    sent = api.client.post("/api/orders/batch", batch.body)
    answer, health = await asyncio.gather(sent, api.client.get("/api/health"))
    assert (answer.status, health.status) == (batch.status, 200)
    assert {each["status"] for each in answer.json.get("results", [])} == batch.orders
    assert api.submitted == []
    assert (await api.client.post("/api/orders", ORDER)).status == 202


ACCOUNT_KEY = "AccountKey=canary"

#: The routes of one task, and of an order or a new one.
STORING = _params(
    route
    for route in ROUTES
    if (
        "batch" not in route.path
        if "/orders/" in route.path
        else "/ops/" in route.path and TASK in route.path
    )
)


@pytest.mark.parametrize("route", STORING)
@pytest.mark.parametrize(
    ("failure", "status"), [(RuntimeError(ACCOUNT_KEY), 500), (TransientStorageError(ACCOUNT_KEY), 503)]
)
async def test_failures_are_problem_documents(
    route: Route,
    failure: Exception,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Without a stack trace or the error's text; the reference in a 500 can be found in the log."""
    api, office = Api(), Desk()

    async def fail(*_: Any, **__: Any) -> Any:
        raise failure

    for table in (api.table, office.table):
        for request in ("read", "query", "send"):
            monkeypatch.setattr(table, request, fail)
    answer = await route.ask(_application(api, office, route), {})
    document = problem(answer, status)
    assert ACCOUNT_KEY not in answer.body.decode()
    assert ("reference" in document["detail"]) is (status == 500)
    assert status == 503 or document["detail"].rstrip(".").rpartition(" ")[2] in caplog.text


async def test_no_address_of_durable_is_given(office: Desk) -> None:
    """A caller who has one could start, stop and rewind orchestrations."""
    for app in (Api().application(), office.application):
        for route in routes_of(app):
            answer = await route.ask(app, {})
            assert b"runtime/webhooks" not in answer.body, route
            assert b"http" not in answer.body, route


def test_secrets_stay_out_of_representations(monkeypatch: pytest.MonkeyPatch) -> None:
    """So a log line or traceback that shows a value does not reveal them."""
    secrets = {
        "StateStore": f"DefaultEndpointsProtocol=https;AccountName=a;{ACCOUNT_KEY}",
        "ServiceBusConnection": f"Endpoint=sb://a.example;SharedAccessKeyName=a;SharedAccessKey={ACCOUNT_KEY}",
        "ALERT_WEBHOOK_URL": "https://hooks.example/canary",
        "APPLICATIONINSIGHTS_CONNECTION_STRING": "InstrumentationKey=canary",
        "PAYMENT_URL": "https://pay.example",
        "PAYMENT_KEY": "canary",
    }
    for name, value in {**SETTINGS, **secrets}.items():
        monkeypatch.setenv(name, value)
    settings = load_settings()
    endpoints = load_endpoints(["payment"])
    key = endpoints["payment"].key
    assert key is not None
    assert key.get_secret_value() == "canary"
    shown = [settings, endpoints, settings.state_store_connection, settings.service_bus_connection]
    assert [text for text in map(repr, [*shown, settings.application_insights]) if "canary" in text] == []


_SECRETS = (CANARY, str(CANARY_PIN), CANARY_CODE)


async def _purchase(pay_error: str | None = None) -> Desk:
    """Serve a purchase whose payment was refused, or that is paid and confirmed, and cannot be shipped."""
    office = Desk(PURCHASES)
    await office.submit(flow=PURCHASES, payload=json.dumps(PAYLOAD))
    await office.run()
    result = None if pay_error else CHARGED
    await office.end("pay", error=pay_error, result=result)
    if pay_error is None:
        await office.change(EventReceived(step="confirm", body=EVENT, who="anna"))
        await office.run()
        await office.end("ship", error="no stock")
    return office


async def test_secrets_are_in_no_answer_to_operators(caplog: pytest.LogCaptureFixture) -> None:
    """No route returns them, before or after its action; no log line has them."""
    office = await _purchase()
    order = {"task_id": TASK, "workflow": "purchase", "payload": dict(PAYLOAD)}
    message = QueueMessage(message_id="m-1", body=json.dumps(order).encode())
    await office.rejected.reject("submissions", message, "why")
    rejected = (await office.get("/rejected")).json["messages"][0]["id"]
    named = (
        replace(route, path=route.path.replace("payment", step).replace(REJECTED, rejected))
        for route in routes_of(office.application)
        for step in ("pay", "confirm", "ship")
    )
    routes = sorted(named, key=lambda route: route.has_body)  # GET routes, before the routes that change
    answers = [(route, await route.ask(office.application, {})) for route in routes]
    assert {answer.status for route, answer in answers if not route.has_body} == {200}
    assert {answer.status for _, answer in answers} >= {202, 409}
    shown = [
        str(route) for route, answer in answers if any(each in answer.body.decode() for each in _SECRETS)
    ]
    assert shown == []
    assert not [secret for secret in _SECRETS if secret in caplog.text]


async def test_error_text_of_a_service_is_shown_as_it_is() -> None:
    """The application does not look for secrets in texts: a service must not repeat them."""
    office = await _purchase(f"no: {CANARY} 41111111")
    for path in (f"/tasks/{TASK}", "/tasks?state=Error"):
        assert f"no: {CANARY} 41111111" in (await office.get(path)).body.decode(), path
