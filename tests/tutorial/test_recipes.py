"""Every recipe is built from its page and run on the platform, with the page's own commands."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.tutorial.project import Cook, commands, cooking

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

#: Days are seconds here, and a step is deferred for four seconds.
_SECONDS = {
    "STEP_SECONDS": "invitation.first=5,invitation.second=5,invitation.host=5,sale.mail=2",
    "DEFER_HOURS": "0.001",
    "SUPERVISOR_SCHEDULE": "* * * * * *",
    "SKEW_SECONDS": "0.5",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cook(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cook]:
    """Run the application with the recipes' workflows, and the tutorial's services."""
    async with cooking(tmp_path_factory.mktemp("recipes"), _SECONDS) as cook:
        yield cook


async def test_trip_is_approved_and_cancelled(cook: Cook) -> None:
    """As the page shows it."""
    submit, approve, look, cancel = commands("bookings")
    assert (await cook.types(submit)).startswith("HTTP/1.1 202")
    await cook.until(look, '"state":"Waiting"')
    assert (await cook.types(approve)).startswith("HTTP/1.1 200")
    booking = await cook.until(look, '"state":"Processed"')
    assert booking["output"].keys() == {"flight", "rooms", "receipt", "ticket_sent"}
    assert booking["output"]["ticket_sent"] is True
    assert (await cook.types(cancel)).startswith("HTTP/1.1 202")
    await cook.until(look, '"state":"Compensated"')
    calls = cook.services.calls_of("kyoto") + cook.services.calls_of("kyoto/refund")
    assert len(calls) == 13
    assert "PUT /cards/kyoto/refund 201" in calls


async def test_large_purchase_waits_for_its_approval(cook: Cook) -> None:
    """The event starts the next run. The same event again is accepted, another one is not.

    A small purchase needs no approval, which is skipped.
    """
    submit, approve, look = commands("purchases")
    assert (await cook.types(submit)).startswith("HTTP/1.1 202")
    waiting = await cook.until(look, '"state":"Waiting"')
    assert waiting["state"] == "Pending"
    assert (await cook.types(approve)).startswith("HTTP/1.1 200")
    purchase = await cook.until(look, '"state":"Processed"')
    assert purchase["output"] == {"ordered": True}
    assert cook.services.calls_of("desk") == ["PUT /shop/desk 201"]
    assert (await cook.types(approve)).startswith("HTTP/1.1 200")
    assert (await cook.types(approve.replace("true", "false"))).startswith("HTTP/1.1 409")
    submit, look = (each.replace("desk", "lamp").replace("1200", "80") for each in (submit, look))
    purchase = await cook.ends(submit, look)
    assert [step["state"] for step in purchase["steps"]] == ["Skipped", "Completed"]


async def test_guest_is_reminded_and_then_the_host_decides(cook: Cook) -> None:
    """Both of the guest's waits fail, with a letter between them."""
    submit, decide, look = commands("invitations")
    await cook.ends(submit, look, "Waiting")
    assert (await cook.types(decide)).startswith("HTTP/1.1 200")
    invitation = await cook.until(look, '"state":"Processed"')
    assert invitation["output"] == {"comes": True}
    states = [step["state"] for step in invitation["steps"]]
    assert states == ["Refused", "Completed", "Refused", "Completed"]
    assert cook.services.calls_of("ada") == ["PUT /letters/ada 201"]


async def test_guest_who_answers_the_reminder_needs_no_host(cook: Cook) -> None:
    """The host's step is skipped."""
    submit, decide, look = (each.replace("ada", "bob") for each in commands("invitations"))
    await cook.ends(submit, look, "Waiting")
    await cook.types(decide.replace("events/host", "events/second"))
    invitation = await cook.until(look, '"state":"Processed"')
    assert [step["state"] for step in invitation["steps"]] == ["Refused", "Completed", "Completed", "Skipped"]


async def test_unanswered_invitation_is_declined(cook: Cook) -> None:
    """By the default of the last wait."""
    submit, _, look = (each.replace("ada", "eve") for each in commands("invitations"))
    invitation = await cook.ends(submit, look)
    assert invitation["output"] == {"comes": False}


async def test_sale_counts_without_its_receipt(cook: Cook) -> None:
    """No service receives the e-mail."""
    submit, look = commands("sales")
    sale = await cook.ends(submit, look)
    assert sale["output"] == {"receipt_sent": False}
    assert [step["state"] for step in sale["steps"]] == ["Completed", "Refused"]


async def test_convoy_starts_without_the_vehicle_that_is_missing(cook: Cook) -> None:
    """Each is requested separately; two of three suffice."""
    submit, look = commands("convoys")
    convoy = await cook.ends(submit, look)
    assert convoy["output"] == {"rented": [True, False, True]}
    assert [(step["name"], step["item"]) for step in convoy["steps"]] == [
        ("vehicle.0", 0),
        ("vehicle.1", 1),
        ("vehicle.2", 2),
        ("contract", None),
    ]
    *asked, contract = cook.services.calls_of("north")
    assert sorted(asked) == [
        "PUT /garage/north.0 201",
        "PUT /garage/north.1 422",
        "PUT /garage/north.2 201",
    ]
    assert contract == "PUT /contracts/north 201"


async def test_convoy_with_too_few_vehicles_is_undone(cook: Cook) -> None:
    """In reverse order: the contract, which was never made, and each vehicle that was asked for."""
    submit, look = (
        each.replace("north", "south").replace('"needed": 2', '"needed": 3') for each in commands("convoys")
    )
    await cook.ends(submit, look, "Compensated")
    task = json.loads(await cook.types("curl http://127.0.0.1:7071/api/ops/tasks/south"))
    started = sorted((step["do"]["number"], step["spec"]["item"]) for step in task["steps"][:3])
    calls = cook.services.calls_of("south")
    assert [call for call in calls if call.startswith("DELETE")] == [
        "DELETE /contracts/south 200",
        *(f"DELETE /garage/south.{item} 200" for _, item in reversed(started)),
    ]


async def test_journey_rents_a_car_for_each_driver(cook: Cook) -> None:
    """Each by the other workflow; cancelled, all of it is undone, the flight last."""
    submit, look, cancel = commands("journeys")
    journey = await cook.ends(submit, look)
    assert [step["name"] for step in journey["steps"]] == ["flight", "car.0", "car.1"]
    assert len({*journey["output"]["cars"]}) == 2
    assert (await cook.types(cancel)).startswith("HTTP/1.1 202")
    await cook.until(look, '"state":"Compensated"')
    kinds = [call.split("/")[1] for call in cook.services.printed[1:] if call.startswith("DELETE")]
    assert kinds[-5:] == ["insurances", "cars", "insurances", "cars", "flights"]


async def test_search_takes_the_first_category_that_can_be_had(cook: Cook) -> None:
    """The round after it is skipped."""
    submit, look = commands("searches")
    search = await cook.ends(submit, look)
    assert [step["state"] for step in search["steps"]] == ["Refused", "Completed", "Skipped"]
    assert search["output"]["car"].startswith("cars/c-")
