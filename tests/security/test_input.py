"""What no route of either application takes, whatever it is for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastapi import FastAPI

from tests.fakes.asgi import AsgiClient, HttpAnswer
from tests.fakes.workflows import TASK
from tests.security.routes import Route, routes_of
from tests.unit.api.conftest import Api
from tests.unit.api.samples import problem
from tests.unit.operations.conftest import Desk, in_error

ROUTES = [each for app in (Api().application, Desk().application) for each in routes_of(app)]
WRITING = [pytest.param(route, id=str(route)) for route in ROUTES if route.method != "GET"]
NAMING = [pytest.param(route, id=str(route)) for route in ROUTES if TASK in route.path]

ODATA = "' or PartitionKey ne '"


@pytest.fixture
def api() -> Api:
    """Serve callers."""
    return Api()


@pytest.fixture
def desk() -> Desk:
    """Serve operators; there is a task for them."""
    desk = Desk()
    desk.holds(in_error())
    return desk


def _application(api: Api, desk: Desk, route: Route) -> FastAPI:
    return desk.application if "/ops/" in route.path else api.application


async def _send(
    app: FastAPI, route: Route, body: bytes, content_type: str = "application/json"
) -> HttpAnswer:
    client = AsgiClient(app, {"X-Requested-With": "test"})
    return await client.send(route.method, route.path, body, content_type=content_type)


def _with(route: Route, value: str) -> bytes:
    """Write the route's body with one more field, of this JSON."""
    return json.dumps(route.body)[:-1].encode() + b', "more": ' + value.encode("latin-1") + b"}"


@pytest.mark.parametrize("route", WRITING)
@pytest.mark.parametrize(
    "value", ["NaN", "Infinity", "-Infinity", "1e999", '"\xff"', "[" * 18 + "]" * 18, "{"]
)
async def test_what_is_no_strict_json_is_400(api: Api, desk: Desk, route: Route, value: str) -> None:
    """Numbers that are none, other encodings, depth; nothing is submitted."""
    problem(await _send(_application(api, desk, route), route, _with(route, value)), 400)
    assert api.submissions.messages == []


@pytest.mark.parametrize("route", WRITING)
async def test_unknown_fields_are_422(api: Api, desk: Desk, route: Route) -> None:
    """So nobody sets what is not theirs."""
    problem(await _send(_application(api, desk, route), route, _with(route, "1")), 422)


@pytest.mark.parametrize("route", WRITING)
async def test_only_json_is_taken(api: Api, desk: Desk, route: Route) -> None:
    """No form, no text."""
    body = json.dumps(route.body).encode()
    problem(await _send(_application(api, desk, route), route, body, "text/plain"), 415)


@pytest.mark.parametrize("route", WRITING)
async def test_bodies_are_bounded(api: Api, desk: Desk, route: Route) -> None:
    """Also those that are blank."""
    most = 4 * 1024 * 1024 if route.path.endswith("/batch") else 48 * 1024
    problem(await _send(_application(api, desk, route), route, b" " * (most + 1)), 413)


@pytest.mark.parametrize("route", NAMING)
@pytest.mark.parametrize("name", [ODATA, "a|b", "a#b", "a\\b", "%2F", "a\x00", "x" * 65])
async def test_ids_are_ids(api: Api, desk: Desk, route: Route, name: str) -> None:
    """A part of a key, and of no filter, path or header."""
    astray = Route(route.method, route.path.replace(TASK, name))
    problem(await astray.ask(_application(api, desk, route), {}), 422)


@pytest.mark.parametrize("field", ["state", "workflow", "prefix", "order", "cursor", "min_age", "$filter"])
async def test_queries_are_no_filters(desk: Desk, field: str) -> None:
    """What would be one in a filter that is put together from texts is a wrong value here."""
    problem(await desk.get(f"/tasks?{field}={ODATA.replace(' ', '%20')}"), 422)


@pytest.mark.parametrize("reply_to", [ODATA, "scheduler-requests", "agent-payment-requests", "submissions"])
async def test_replies_go_to_reply_queues_alone(api: Api, reply_to: str) -> None:
    """Never to a queue where they would be work."""
    for route in (each.values[0] for each in WRITING):
        assert isinstance(route, Route)
        if "/orders" in route.path:
            body: Any = route.body
            orders = [{**order, "reply_to": reply_to} for order in body.get("orders", [body])]
            sent = {"orders": orders} if "orders" in body else orders[0]
            answer = await _send(api.application, route, json.dumps(sent).encode())
            assert 422 in {answer.status, *(each["status"] for each in answer.json.get("results", []))}
    assert api.submissions.messages == []
