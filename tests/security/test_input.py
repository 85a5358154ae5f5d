"""Input that no route of either application accepts."""

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
WITH_BODY = [pytest.param(route, id=str(route)) for route in ROUTES if route.has_body]
#: A step says what its events may hold.
WITH_FIELDS = [
    pytest.param(route, id=str(route)) for route in ROUTES if route.has_body and not route.is_of_events
]
NAMING = [pytest.param(route, id=str(route)) for route in ROUTES if TASK in route.path]

ODATA = "' or PartitionKey ne '"


@pytest.fixture(scope="module")
def api() -> Api:
    """Serve callers: what is refused leaves nothing behind."""
    return Api()


@pytest.fixture(scope="module")
def desk() -> Desk:
    """Serve the operators' application, with one task."""
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
    """Return the route's body with one more field, whose value is this JSON."""
    return json.dumps(route.body)[:-1].encode() + b', "more": ' + value.encode("latin-1") + b"}"


@pytest.mark.parametrize("route", WITH_BODY)
@pytest.mark.parametrize(
    "value", ["NaN", "Infinity", "-Infinity", "1e999", '"\xff"', "[" * 18 + "]" * 18, "{"]
)
async def test_invalid_json_is_400(api: Api, desk: Desk, route: Route, value: str) -> None:
    """Invalid numbers, other encodings, too much depth; nothing is submitted."""
    problem(await _send(_application(api, desk, route), route, _with(route, value)), 400)
    assert api.submissions.messages == []


@pytest.mark.parametrize("route", WITH_FIELDS)
async def test_unknown_fields_are_422(api: Api, desk: Desk, route: Route) -> None:
    """So no caller can set fields that are not theirs."""
    problem(await _send(_application(api, desk, route), route, _with(route, "1")), 422)


@pytest.mark.parametrize("route", WITH_BODY)
async def test_only_json_is_accepted(api: Api, desk: Desk, route: Route) -> None:
    """Neither forms nor text."""
    body = json.dumps(route.body).encode()
    problem(await _send(_application(api, desk, route), route, body, "text/plain"), 415)


@pytest.mark.parametrize("route", WITH_BODY)
async def test_bodies_are_bounded(api: Api, desk: Desk, route: Route) -> None:
    """Also blank ones."""
    most = 1024 * 1024 if route.path.endswith("/batch") else 48 * 1024
    problem(await _send(_application(api, desk, route), route, b" " * (most + 1)), 413)


@pytest.mark.parametrize("route", NAMING)
@pytest.mark.parametrize("name", [ODATA, "a|b", "a#b", "a\\b", "%2F", "a\x00", "x" * 65])
async def test_ids_have_a_strict_format(api: Api, desk: Desk, route: Route, name: str) -> None:
    """They can be part of a key, but contain nothing that changes a filter, path or header."""
    astray = Route(route.method, route.path.replace(TASK, name))
    problem(await astray.ask(_application(api, desk, route), {}), 422)


@pytest.mark.parametrize("field", ["state", "workflow", "prefix", "order", "cursor", "min_age", "$filter"])
async def test_query_parameters_cannot_inject_into_filters(desk: Desk, field: str) -> None:
    """What could inject into a concatenated filter is an invalid value here."""
    problem(await desk.get(f"/tasks?{field}={ODATA.replace(' ', '%20')}"), 422)


@pytest.mark.parametrize("field", ["min_age", "max_age", "version"])
@pytest.mark.parametrize("number", ["1_0", "%D9%A1", "%EF%BC%91", "+1"])  # in Arabic, in full width, a blank
async def test_numbers_are_written_in_plain_digits(desk: Desk, field: str, number: str) -> None:
    """What Python would read as one, too."""
    problem(await desk.get(f"/tasks?workflow=orders&{field}={number}"), 422)


@pytest.mark.parametrize("reply_to", [ODATA, "scheduler-requests", "agent-payment-requests", "submissions"])
async def test_notices_go_to_reply_queues_only(api: Api, reply_to: str) -> None:
    """Never to a queue where they would be processed."""
    for route in (each.values[0] for each in WITH_FIELDS):
        assert isinstance(route, Route)
        if "/orders" in route.path:
            body: Any = route.body
            orders = [{**order, "reply_to": reply_to} for order in body.get("orders", [body])]
            sent = {"orders": orders} if "orders" in body else orders[0]
            answer = await _send(api.application, route, json.dumps(sent).encode())
            assert 422 in {answer.status, *(each["status"] for each in answer.json.get("results", []))}
    assert api.submissions.messages == []
