"""Each end of a booking: all of it is booked, or nothing, or an operator decides."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.e2e.recovery.bench import step
from tests.e2e.recovery.remote import Behaviour
from tests.tutorial.booking.agency import Agency, open_agency

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

#: Two days are a few seconds, and recoveries end soon.
_SETTINGS = {
    "STEP_SECONDS": ",".join(
        f"booking.{name}={seconds}"
        for name, seconds in {
            "flight": 6,
            "hotel": 6,
            "car": 6,
            "approval": 12,
            "charge": 8,
            "ticket": 8,
        }.items()
    ),
    "SUPERVISOR_THRESHOLD": "1",
    "EXTENDED_WAITS": "1",
}
#: The steps that are called again when their service is down.
_REPEATABLE = ("flight", "hotel.1", "car")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def agency(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Agency]:
    """Run the application as the recipe's page says."""
    async with open_agency(tmp_path_factory.mktemp("ends"), _SETTINGS) as agency:
        yield agency


async def test_approved_trip_is_booked(agency: Agency) -> None:
    """Each step has its effect once."""
    await agency.book("approved", price=2400)
    await agency.approve("approved", approved=True)
    task = await agency.is_booked("approved")
    assert {each["state"] for each in task["steps"]} == {"Completed"}
    output = await agency.output_of("approved")
    assert output["rooms"] == [f"reference of approved/hotel.{night}/do" for night in range(3)]
    assert output["ticket_sent"] is True


async def test_cheap_trip_without_a_car_skips_approval_and_car(agency: Agency) -> None:
    """Neither the approver nor the car service is needed."""
    await agency.book("cheap", price=900, car=False)
    task = await agency.is_booked("cheap", effects=6)
    assert [each["name"] for each in task["steps"] if each["state"] == "Skipped"] == ["car", "approval"]


async def test_refused_trip_is_undone(agency: Agency) -> None:
    """By the approver: the card is never charged. By a service: the same way."""
    await agency.book("refused", price=2400)
    await agency.approve("refused", approved=False)
    agency.services.script("full/hotel.2/do", Behaviour.REFUSES)
    await agency.book("full")
    refused = await agency.is_undone("refused")
    assert refused["reason"] == "charge: the approver has refused it"
    assert agency.services.called("refused/charge/do") == 0
    assert agency.services.requests["refused/charge/undo"] == {"eur": 2400, "receipt": None}
    full = await agency.is_undone("full")
    assert full["reason"] == "hotel.2: hotel answered 422"


async def test_trip_that_nobody_approves_is_undone(agency: Agency) -> None:
    """When the time is over."""
    await agency.book("expired", price=2400)
    task = await agency.is_undone("expired")
    assert step(task, "approval")["state"] == "Refused"
    assert step(task, "charge")["state"] == "Not started"


async def test_cancelled_trip_is_undone(agency: Agency) -> None:
    """While it waits for its pay-day; and after the charge, which is refunded by its receipt."""
    await agency.book("waits", paid_in=3_600)
    await agency.bench.until("waits", lambda task: step(task, "pay-day")["state"] == "Waiting")
    await agency.cancel("waits")
    await agency.book("paid")
    await agency.is_booked("paid")
    await agency.cancel("paid")
    await agency.is_undone("waits")
    await agency.is_undone("paid")
    receipt = "reference of paid/charge/do"
    assert agency.services.requests["paid/charge/undo"] == {"eur": 900, "receipt": receipt}


async def test_each_service_may_be_down(agency: Agency) -> None:
    """When it is back soon, the trip is booked; when it never is, undone. A ticket does not matter."""
    for name in (*_REPEATABLE, "ticket"):
        short, long = _trip(name, "short"), _trip(name, "long")
        agency.services.script(f"{short}/{name}/do", *[Behaviour.IS_DOWN] * 2, Behaviour.ANSWERS)
        agency.services.script(f"{long}/{name}/do", Behaviour.IS_DOWN)
        await agency.book(short)
        await agency.book(long)
    for name in (*_REPEATABLE, "ticket"):
        await agency.is_booked(_trip(name, "short"))
    for name in _REPEATABLE:
        task = await agency.is_undone(_trip(name, "long"))
        assert "overdue after 2 recoveries" in task["reason"]
    await agency.is_booked(_trip("ticket", "long"), effects=6)
    assert (await agency.output_of(_trip("ticket", "long")))["ticket_sent"] is False


def _trip(name: str, outage: str) -> str:
    return f"{name.replace('.', '-')}-is-down-for-{outage}"


async def test_charge_without_a_clear_answer_waits_for_an_operator(agency: Agency) -> None:
    """It is not repeated automatically. After the operator's verdict, the trip is booked."""
    for name, behaviour in {"charged": Behaviour.BREAKS_OFF, "not-charged": Behaviour.IS_DOWN}.items():
        agency.services.script(f"{name}/charge/do", behaviour, Behaviour.ANSWERS)
        await agency.book(name)
    for name in ("charged", "not-charged"):
        task = await agency.bench.until_state(name, "Error")
        assert task["reason"].startswith("charge: its outcome is unknown")
        assert agency.services.called(f"{name}/charge/do") == 1
    assert await agency.bench.act("charged", "steps/charge/done", result={"reference": "found"}) == 202
    assert await agency.bench.act("not-charged", "steps/charge/not-done") == 202
    await agency.is_booked("charged")
    await agency.is_booked("not-charged")
    assert (await agency.output_of("charged"))["receipt"] == "found"
