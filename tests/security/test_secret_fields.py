"""What a payload's model calls secret is in no answer to operators, and in no log."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from functions.pattern.definition import Registry
from functions.pattern.records import TaskRecord
from functions.pattern.wait_events import EventReceived
from tests.fakes.purchases import (
    CANARY,
    CANARY_CODE,
    CANARY_PIN,
    CONFIRM,
    EVENT,
    PAYLOAD,
    PURCHASES,
    purchase,
)
from tests.fakes.tasks import after, claimed, completed, failed, started, told
from tests.fakes.workflows import TASK
from tests.security.routes import REJECTED, routes_of
from tests.unit.api.conftest import Api
from tests.unit.operations.conftest import Desk

HERE = Registry((PURCHASES,), {})
_SECRETS = (CANARY, str(CANARY_PIN), CANARY_CODE)


def _in_error() -> TaskRecord:
    """Create a purchase whose service returns every secret in its result."""
    echo = json.dumps({"echo": [*_SECRETS, CANARY_PIN]}).encode()
    begun = (claimed(), started("pay"), completed("pay", result=echo), started("confirm", start_id="c"))
    event = EventReceived(step=CONFIRM, body=EVENT, who="anna", start_by=after(30))
    return told(purchase(TASK), *begun, event, started("ship"), failed("ship", error="no stock"))


async def test_secrets_are_in_no_answer_to_operators(caplog: pytest.LogCaptureFixture) -> None:
    """Of any route, before and after what it does; nor in a log line."""
    desk = Desk(registry=HERE)
    desk.holds(_in_error())
    order = {"task_id": TASK, "workflow": "purchase", "payload": dict(PAYLOAD)}
    await desk.rejected.reject("submissions", "m-1", json.dumps(order).encode(), "why")
    rejected = (await desk.get("/rejected")).json["messages"][0]["id"]
    named = (
        replace(route, path=route.path.replace("payment", step).replace(REJECTED, rejected))
        for route in routes_of(desk.application)
        for step in ("pay", "confirm", "ship")
    )
    routes = sorted(named, key=lambda route: route.has_body)  # what is read, before it is changed
    answers = [(route, await route.ask(desk.application, {})) for route in routes]
    assert {answer.status for route, answer in answers if not route.has_body} == {200}
    assert {answer.status for _, answer in answers} >= {202, 409}
    shown = [
        str(route) for route, answer in answers if any(each in answer.body.decode() for each in _SECRETS)
    ]
    assert shown == []
    assert not [secret for secret in _SECRETS if secret in caplog.text]


@pytest.mark.parametrize(
    "wrong",
    [
        {"amount": CANARY},
        {"card": CANARY},
        {"pin": CANARY},
        {"card": {"number": [CANARY], "holder": "Ann"}},
        {"card": {"number": {"x": CANARY}, "holder": CANARY}},
    ],
)
async def test_refused_order_is_not_repeated(wrong: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    """Neither to its caller nor in a log line."""
    answer = await Api().serving(PURCHASES).put(f"/api/purchases/{TASK}", dict(PAYLOAD) | wrong)
    assert answer.status == 422
    assert CANARY not in answer.body.decode() + caplog.text


async def test_error_text_of_a_service_is_shown_as_it_is() -> None:
    """The application does not look for secrets in texts: a service must not repeat them."""
    desk = Desk(registry=HERE)
    desk.holds(told(purchase(TASK), claimed(), started("pay"), failed("pay", error=f"no: {CANARY} 41111111")))
    for path in (f"/tasks/{TASK}", "/tasks?state=Error"):
        assert f"no: {CANARY} 41111111" in (await desk.get(path)).body.decode(), path
