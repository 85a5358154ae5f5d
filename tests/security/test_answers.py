"""Responses and representations reveal no internals."""

from __future__ import annotations

import azure.functions as func
import pytest

from functions.agents.endpoints import load_endpoints
from functions.pattern.errors import TransientError
from functions.settings import load_settings
from functions.web.blueprint import http_handler
from tests.fakes.asgi import AsgiClient
from tests.fakes.workflows import TASK
from tests.security.conftest import SETTINGS
from tests.security.routes import Route, routes_of
from tests.unit.api.conftest import Api
from tests.unit.api.samples import problem
from tests.unit.operations.conftest import Desk, in_error

CANARY = "AccountKey=canary"

CALLERS = [
    pytest.param(route, id=str(route))
    for route in routes_of(Api().application)
    if "/orders/" in route.path and "batch" not in route.path
]
OPERATORS = [
    pytest.param(route, id=str(route)) for route in routes_of(Desk().application) if TASK in route.path
]


@pytest.mark.parametrize("route", CALLERS + OPERATORS)
@pytest.mark.parametrize(("failure", "status"), [(RuntimeError(CANARY), 500), (TransientError(CANARY), 503)])
async def test_failures_are_problem_documents(route: Route, failure: Exception, status: int) -> None:
    """Without a stack trace or the error's text; the reference in a 500 can be found in the log."""
    api, desk = Api(), Desk()
    api.store.failure = desk.store.failure = failure
    answer = await route.ask(desk.application if "/ops/" in route.path else api.application, {})
    document = problem(answer, status)
    assert CANARY not in answer.body.decode()
    assert ("reference" in document["detail"]) is (status == 500)


async def test_no_address_of_durable_is_given() -> None:
    """A caller who has one could start, stop and rewind orchestrations."""
    api, desk = Api(), Desk()
    desk.holds(in_error())
    for app in (api.application, desk.application):
        for route in routes_of(app):
            answer = await route.ask(app, {})
            assert b"runtime/webhooks" not in answer.body, route
            assert b"http" not in answer.body, route


@pytest.mark.parametrize(
    ("path", "status"), [("orders/%3Cscript%3E", 422), ("health", 200), ("orders/a/", 404), ("%ff", 400)]
)
async def test_nobody_keeps_an_answer_or_guesses_its_type(path: str, status: int) -> None:
    """Errors can quote what a caller sent."""
    request = func.HttpRequest("GET", f"http://localhost/api/{path}", body=b"")
    answer = await http_handler(lambda: Api().application)(request, None)
    assert answer.status_code == status
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["/api/orders/", "/api/orders/a/", "/api/ops/tasks/", "/api/health/"])
async def test_nobody_is_sent_to_the_host_that_the_request_names(path: str) -> None:
    """A slash more is another address, and no reason for a redirect."""
    app = Desk().application if "/ops/" in path else Api().application
    answer = await AsgiClient(app, {"Host": "evil.example"}).get(path)
    problem(answer, 404)
    assert "location" not in answer.headers


def test_secrets_stay_out_of_representations(monkeypatch: pytest.MonkeyPatch) -> None:
    """So a log line or traceback that shows a value does not reveal them."""
    secrets = {
        "StateStore": f"DefaultEndpointsProtocol=https;AccountName=a;{CANARY}",
        "ServiceBusConnection": f"Endpoint=sb://a.example;SharedAccessKeyName=a;SharedAccessKey={CANARY}",
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
