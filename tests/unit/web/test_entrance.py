"""What stands before an application: the order of the checks, and what is left to do behind them."""

from __future__ import annotations

import pytest

from functions.web.access import Guard
from functions.web.callers import signed_in
from functions.web.caps import Caps
from tests.fakes.asgi import AsgiClient
from tests.fakes.clock import FakeClock
from tests.fakes.guards import ANNA, operator, submitter
from tests.unit.api.conftest import Api
from tests.unit.api.samples import ORDER, problem
from tests.unit.operations.conftest import Desk, in_error

ORDERS = "/api/orders"


async def test_first_check_that_fails_answers() -> None:
    """Who is asking, whether they may, how much they ask, how long, in which type, and only then: what."""
    api = Api(Guard(signed_in, Caps(per_minute=3, in_flight=9), FakeClock()))
    too_long = b"{" * 50_000
    for headers, body, content_type, status in [
        ({}, too_long, "text/plain", 401),
        (operator(ANNA), too_long, "text/plain", 403),
        (submitter(ANNA), too_long, "text/plain", 413),
        (submitter(ANNA), b"{", "text/plain", 415),
        (submitter(ANNA), b"{", "application/json", 400),
        (submitter(ANNA), too_long, "text/plain", 429),
    ]:
        client = AsgiClient(api.application, headers)
        problem(await client.send("POST", ORDERS, body, content_type=content_type), status)
    assert api.submissions.messages == []


async def test_body_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """FastAPI gets what was parsed when the body was checked, and would have no means to parse it."""
    api, desk = Api(), Desk()
    desk.holds(in_error("order-1"))
    monkeypatch.setattr("starlette.requests.json", None)
    assert (await api.client.post(ORDERS, ORDER)).status == 202
    batch = await api.client.post(f"{ORDERS}/batch", {"orders": [ORDER]})
    assert batch.json["results"][0]["status"] == 202
    operator = AsgiClient(desk.application, {"X-Requested-With": "test"})
    assert (await operator.post("/api/ops/tasks/order-1/undo", {"reason": "a test"})).status == 202
