"""Every recipe is built from its page and run on the platform, with the page's own commands."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from local.platform import ANY_PORTS, Platform, PlatformOptions
from tests.e2e.caller import PATIENCE
from tests.house.documents import code_blocks
from tests.tutorial.project import RECIPES, TripServices, follow

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

_HOST = "http://127.0.0.1:7071"

#: Days are seconds here: the guest's waits are sat out by their Scheduler.
_SECONDS = {"STEP_SECONDS": "invitation.first=2,invitation.second=2"}


@dataclass(frozen=True, slots=True)
class Cook:
    """Runs the page's commands."""

    platform: Platform
    services: TripServices

    async def types(self, command: str) -> str:
        """Run a command with the ports of this platform."""
        words = shlex.split(command.replace(_HOST, self.platform.addresses.host))
        process = await asyncio.create_subprocess_exec(*words, "--silent", stdout=asyncio.subprocess.PIPE)
        printed, _ = await process.communicate()
        return printed.decode()

    async def until(self, command: str, reached: str) -> dict[str, Any]:
        """Look until the task has reached something."""
        async with asyncio.timeout(PATIENCE):
            while True:
                printed = await self.types(command)
                if reached in printed:
                    found: dict[str, Any] = json.loads(printed)
                    return found
                await asyncio.sleep(0.1)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cook(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cook]:
    """Run the application with the recipes' workflows, and the tutorial's services."""
    app, elsewhere = tmp_path_factory.mktemp("app"), tmp_path_factory.mktemp("elsewhere")
    with TripServices(elsewhere) as services:
        async with asyncio.timeout(PATIENCE):
            while not services.printed:
                await asyncio.sleep(0.05)
        follow(RECIPES, app, services.printed[0])
        options = PlatformOptions(
            ports=ANY_PORTS, data=elsewhere / "data", app=app, in_memory_storage=True, settings=_SECONDS
        )
        async with Platform(options) as platform:
            yield Cook(platform, services)


def _commands(resource: str) -> list[str]:
    """Return the page's commands for a resource, in order."""
    blocks = [block.text for page in RECIPES for block in code_blocks(page) if block.language == "sh"]
    [block] = [text for text in blocks if f"/api/{resource}/" in text]
    return block.splitlines()


async def test_trip_is_approved_and_cancelled(cook: Cook) -> None:
    """As the page shows it; `tests/tutorial/booking/` has all else that may become of a trip."""
    submit, approve, look, cancel = _commands("bookings")
    assert (await cook.types(submit)).startswith("HTTP/1.1 202")
    await cook.until(look, '"state":"Running"')
    assert (await cook.types(approve)).startswith("HTTP/1.1 200")
    booking = await cook.until(look, '"state":"Processed"')
    assert booking["answer"].keys() == {"flight", "rooms", "receipt", "ticket_sent"}
    assert booking["answer"]["ticket_sent"] is True
    assert (await cook.types(cancel)).startswith("HTTP/1.1 202")
    await cook.until(look, '"state":"Compensated"')
    calls = cook.services.calls_of("kyoto") + cook.services.calls_of("kyoto/refund")
    assert len(calls) == 13
    assert "PUT /cards/kyoto/refund 201" in calls


async def test_large_purchase_waits_for_its_approval(cook: Cook) -> None:
    """It is handed back, woken by the event, and goes on with the next run."""
    submit, approve, look = _commands("purchases")
    assert (await cook.types(submit)).startswith("HTTP/1.1 202")
    waiting = await cook.until(look, '"state":"Running"')
    assert waiting["state"] in {"Pending", "Processing"}
    await cook.until(look, '"state":"Pending"')
    assert (await cook.types(approve)).startswith("HTTP/1.1 200")
    purchase = await cook.until(look, '"state":"Processed"')
    assert purchase["answer"] == {"ordered": True}
    assert cook.services.calls_of("desk") == ["PUT /shop/desk 201"]
    assert (await cook.types(approve)).startswith("HTTP/1.1 200")
    assert (await cook.types(approve.replace("true", "false"))).startswith("HTTP/1.1 409")


async def test_small_purchase_waits_for_nobody(cook: Cook) -> None:
    """Its approval is skipped."""
    submit, _, look = (each.replace("desk", "lamp").replace("1200", "80") for each in _commands("purchases"))
    await cook.types(submit)
    purchase = await cook.until(look, '"state":"Processed"')
    assert [step["state"] for step in purchase["steps"]] == ["Skipped", "Completed"]


async def test_guest_is_reminded_and_has_declined_without_an_answer(cook: Cook) -> None:
    """The first wait fails, the day of grace is over, the second wait ends with its default."""
    submit, look = _commands("invitations")
    await cook.types(submit)
    invitation = await cook.until(look, '"state":"Processed"')
    assert invitation["answer"] == {"comes": False}
    states = [step["state"] for step in invitation["steps"]]
    assert states == ["Failed", "Completed", "Completed", "Completed"]
    assert cook.services.calls_of("ada") == ["PUT /letters/ada 201"]


async def test_sale_counts_without_its_receipt(cook: Cook) -> None:
    """Nobody serves the e-mail."""
    submit, look = _commands("sales")
    await cook.types(submit)
    sale = await cook.until(look, '"state":"Processed"')
    assert sale["answer"] == {"receipt_sent": False}
    assert [step["state"] for step in sale["steps"]] == ["Completed", "Failed"]


async def test_convoy_starts_without_the_vehicle_that_is_missing(cook: Cook) -> None:
    """Each is asked for by itself; two of three suffice."""
    submit, look = _commands("convoys")
    await cook.types(submit)
    convoy = await cook.until(look, '"state":"Processed"')
    assert convoy["answer"] == {"rented": [True, False, True]}
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
        each.replace("north", "south").replace('"needed": 2', '"needed": 3') for each in _commands("convoys")
    )
    await cook.types(submit)
    convoy = await cook.until(look, '"state":"Compensated"')
    begun = sorted((str(step["started_at"]), step["item"]) for step in convoy["steps"][:3])
    calls = cook.services.calls_of("south")
    assert [call for call in calls if call.startswith("DELETE")] == [
        "DELETE /contracts/south 200",
        *(f"DELETE /garage/south.{item} 200" for _, item in reversed(begun)),
    ]
