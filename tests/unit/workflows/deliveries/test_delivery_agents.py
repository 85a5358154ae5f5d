"""The Agents of a delivery: their requests, and the results that they make of the answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from functions.agents.agent_call import RefusedError, UnusableResultError
from functions.core.record import Direction
from functions.workflows.deliveries.agents import AGENTS
from functions.workflows.deliveries.definition import DELIVERIES
from tests.fakes.remote_service import Answer
from tests.unit.agents.conftest import KEY, new_call, saying
from tests.unit.conftest import Service

CONFIRMATIONS: dict[str, dict[str, Any]] = {
    "package": {"tracking_number": "PK1"},
    "transport": {"carrier": "Northway Couriers", "price": "21.92", "currency": "EUR"},
    "drone": {"drone": "drone-07"},
    "delivery": {"expected_at": "2026-11-21T13:30:00Z"},
}
CANCELLABLE = ["package", "drone", "delivery"]
PATH = "/payments/task-1.0a1b2c3d"

each_booking = pytest.mark.parametrize(("agent", "confirmation"), CONFIRMATIONS.items())


@each_booking
@pytest.mark.parametrize("status", [201, 204], ids=["made", "made before"])
async def test_booking_returns_its_confirmation(
    agent: str, confirmation: dict[str, Any], status: int, service: Service
) -> None:
    """Also if the first answer was lost; the step's model accepts it."""
    service.answers = [Answer(status, ()), saying({"order": 1, **confirmation, "undone_at": None})]
    result = await AGENTS[agent](service.access()).carry_out(new_call(request='{"weight_kg":3}'))
    assert json.loads(result) == confirmation
    assert service.requests == [("PUT", PATH, KEY), ("GET", PATH, None)]
    assert json.loads(service.received[0].body) == {"weight_kg": 3}
    model = DELIVERIES.steps[agent].model
    assert model is not None
    model.model_validate_json(result)


@each_booking
async def test_confirmation_that_does_not_fit_is_no_result(
    agent: str, confirmation: dict[str, Any], service: Service
) -> None:
    """The step is done; the error names the first wrong field."""
    for answer in ({}, dict.fromkeys(confirmation)):
        service.answers = [Answer(204, ()), saying(answer)]
        with pytest.raises(UnusableResultError, match=f"rejects it: {next(iter(confirmation))}: "):
            await AGENTS[agent](service.access()).carry_out(new_call())


@each_booking
async def test_refused_booking_reads_no_confirmation(
    agent: str, confirmation: dict[str, Any], service: Service
) -> None:
    """A tombstone refuses it, for example."""
    service.answers = [Answer(410, ()), saying(confirmation)]
    with pytest.raises(RefusedError, match="answered 410"):
        await AGENTS[agent](service.access()).carry_out(new_call())
    assert len(service.received) == 1


@pytest.mark.parametrize("agent", AGENTS)
async def test_undo_deletes_a_booking_that_can_be_cancelled(agent: str, service: Service) -> None:
    """The account and the quote change nothing."""
    service.answers = [Answer(204, ())]
    undo = AGENTS[agent](service.access()).carry_out(new_call(direction=Direction.UNDO))
    if agent in CANCELLABLE:
        await undo
        assert service.requests == [("DELETE", PATH, KEY)]
    else:
        with pytest.raises(RefusedError, match="cannot undo"):
            await undo


async def test_active_account_may_be_used(service: Service) -> None:
    """Its state is read, and nothing is changed."""
    service.answers = [saying({"id": "A-7", "suspended": False})]
    assert await AGENTS["account"](service.access()).carry_out(new_call(request='{"account":"A-7"}')) == "{}"
    assert service.requests == [("GET", "/payments/A-7", None)]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"id": "A-7", "suspended": True}, "account A-7 is suspended$"),
        ({}, "payment: Account rejects it: suspended: "),
        ({"suspended": "no"}, "payment: Account rejects it: suspended: "),
        ({"suspended": 0}, "payment: Account rejects it: suspended: "),
    ],
)
async def test_suspended_or_malformed_account_is_refused(
    answer: object, reason: str, service: Service
) -> None:
    """The error names the account, or the wrong field."""
    service.answers = [saying(answer)]
    with pytest.raises(RefusedError, match=f"^{reason}") as refusal:
        await AGENTS["account"](service.access()).carry_out(new_call(request='{"account":"A-7"}'))
    assert not refusal.value.has_unanswered
