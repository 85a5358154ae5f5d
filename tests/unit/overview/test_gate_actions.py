"""Operators hold gates, end holds, and limit calls."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from functions.core.gate_rules import Circuit
from functions.core.step_definition import Step
from functions.core.workflow_definition import Workflow
from tests.unit.operators.conftest import Parcel, request
from tests.unit.overview.conftest import Office

REASON = {"reason": "the service is repaired"}
FLOW = Workflow("flow", payload=Parcel, steps=[Step("pay", request=request)])


@pytest.fixture
def office() -> Office:
    """Return an application with a workflow of one Agent."""
    return Office(FLOW)


GATE = "/gates/pay"


async def test_hold_is_recorded_with_who_and_why(office: Office, caplog: pytest.LogCaptureFixture) -> None:
    """A repeated request changes nothing; the reason is not logged."""
    caplog.set_level(logging.INFO)
    for _ in range(2):
        answer = await office.post(f"{GATE}/hold", REASON)
        assert (answer.status, answer.json["held_by"]) == (202, "operator")
    [gate] = (await office.overview())["gates"]
    assert (gate["hold"]["who"], gate["hold"]["reason"]) == ("operator", REASON["reason"])
    assert f"operator action: hold {GATE[1:]} by operator" in caplog.messages
    assert REASON["reason"] not in caplog.text


async def test_second_hold_names_the_first(office: Office) -> None:
    """The gate has one hold at a time."""
    answers = await asyncio.gather(
        *(office.post(f"{GATE}/hold", {"reason": reason}) for reason in ("one", "two"))
    )
    assert sorted(answer.status for answer in answers) == [202, 409]
    [conflict] = [answer for answer in answers if answer.status == 409]
    assert conflict.json["detail"] == (
        "operator holds the gate since 2026-11-21 10:00 UTC. End that hold first."
    )


async def test_end_of_a_hold_starts_the_release(office: Office) -> None:
    """A repeated request ends no other hold."""
    end = REASON | {"since": (await office.post(f"{GATE}/hold", REASON)).json["held_since"]}
    answer = await office.post(f"{GATE}/end-hold", end)
    assert (answer.status, answer.json["held_by"]) == (202, None)
    [gate] = (await office.overview())["gates"]
    assert (gate["circuit"], gate["hold"]) == (Circuit.HALF_OPEN, None)
    assert (await office.post(f"{GATE}/end-hold", end)).status == 409
    await office.post(f"{GATE}/hold", REASON)
    assert (await office.post(f"{GATE}/end-hold", end)).status == 409
    assert (await office.overview())["gates"][0]["hold"] is not None


async def test_calls_of_an_instance_are_limited(office: Office) -> None:
    """Null is the limit of the Agent's settings."""
    for limit in (4, None):
        answer = await office.post(f"{GATE}/limit", REASON | {"calls_at_once": limit})
        assert (answer.status, answer.json["calls_at_once"]) == (202, limit)
    for wrong in ({"calls_at_once": 0}, {"calls_at_once": True}, {"calls_at_once": 1001}, {}):
        assert (await office.post(f"{GATE}/limit", REASON | wrong)).status == 422


@pytest.mark.parametrize(
    ("action", "more"),
    [("hold", {}), ("end-hold", {"since": "2026-11-21T10:00:00Z"}), ("limit", {"calls_at_once": 1})],
)
async def test_action_needs_a_known_gate_and_a_reason(
    office: Office, action: str, more: dict[str, Any]
) -> None:
    """A gate without a row is known by the steps that use it."""
    assert (await office.post(f"/gates/queue:nobody/{action}", REASON | more)).status == 404
    assert (await office.post(f"/gates/Wrong/{action}", REASON | more)).status == 422
    assert (await office.post(f"{GATE}/{action}", {"reason": " "} | more)).status == 422


async def test_gates_that_cannot_be_read_are_not_changed(office: Office) -> None:
    """The operator repeats the request. The next overview is read again."""
    office.table.read_fault = lambda: True
    assert (await office.post(f"{GATE}/hold", REASON)).status == 503
    assert (await office.get("/overview")).status == 503
    office.table.read_fault = lambda: False
    gates = (await office.get("/overview")).json["gates"]
    assert [(each["gate"], each["hold"]) for each in gates] == [("pay", None)]
