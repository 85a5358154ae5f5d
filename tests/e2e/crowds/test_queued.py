"""Orders that wait for a place at their service wait on the queue; callers wait when too many do."""

from __future__ import annotations

import asyncio
from collections import Counter
from http import HTTPStatus
from pathlib import Path

import pytest

from functions.api.gate import TOO_MANY_WAIT
from tests.e2e.caller import NEEDS_ORDERS, ORDER, PATIENCE, Caller, rows, running
from tests.e2e.crowds.orders import Crowd
from tests.e2e.crowds.payments import SlowPayments

pytestmark = [pytest.mark.process, NEEDS_ORDERS, pytest.mark.timeout(240)]

_LIMIT, _ORDERS = 3, 30
#: Fewer may be tried again and again; they are no line.
_MANY = 25


async def test_agent_behind_a_queue_keeps_its_service_s_limit(tmp_path: Path) -> None:
    """What finds no place is sent again to its queue: none has failed, and each is paid once."""
    payments = SlowPayments(0.5)
    settings = {"AGENT_PAYMENT_AT_ONCE": f"{_LIMIT}", "STATE_SHARDS": "2"}
    async with Crowd.at(tmp_path, payments, settings) as crowd:
        await crowd.submit(_ORDERS)
        ends = await crowd.until(lambda ends: ends.finished == _ORDERS, lambda _: None, PATIENCE)
        steps = rows(crowd.platform, "Tasks", "Name eq 'payment'")
    assert (ends.states, ends.epochs, ends.failures) == ({"Processed": _ORDERS}, {1: _ORDERS}, {0: _ORDERS})
    assert payments.calls.most == _LIMIT
    assert set(payments.paid.values()) == {1}
    assert Counter("NotTaken" in step for step in steps) == {False: _ORDERS}, "they had time enough"
    assert payments.alerts == []


async def test_caller_is_asked_to_wait_while_too_many_orders_do(tmp_path: Path) -> None:
    """The refusal is no caller's own cap; what is known can still be read."""
    settings = {"AzureWebJobs_submission_Disabled": "true", "INTAKE_MOST_WAITING": "2"}
    async with running(tmp_path, settings) as platform, Caller.of(platform) as caller:
        for number in range(_MANY):
            assert await caller.put(f"waiting-{number}") == HTTPStatus.ACCEPTED
        async with asyncio.timeout(PATIENCE):
            while await caller.put("waiting-0") != HTTPStatus.TOO_MANY_REQUESTS:
                await asyncio.sleep(0.2)
        async with caller.session.put("/api/orders/another", json=ORDER) as answer:
            assert answer.status == HTTPStatus.TOO_MANY_REQUESTS
            assert (await answer.json())["type"] == TOO_MANY_WAIT.type
            assert int(answer.headers["Retry-After"]) >= 15
        assert await caller.look_at("waiting-0") is None
