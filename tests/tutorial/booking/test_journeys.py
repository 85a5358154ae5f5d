"""Journeys with their rentals, on the platform: each end of a child, its parent's, and a host that dies."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Sequence
from http import HTTPStatus

import pytest
import pytest_asyncio

from local.platform import PartName
from tests.e2e.recovery.bench import Task
from tests.e2e.recovery.remote import Behaviour
from tests.tutorial.booking.agency import Agency, open_agency

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

_SETTINGS = {
    "STEP_SECONDS": "rental.insurance=4,rental.car=60",
    "SUPERVISOR_THRESHOLD": "0",
    "EXTENDED_WAITS": "1",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def agency(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Agency]:
    """Run the application as the recipes' pages say."""
    async with open_agency(tmp_path_factory.mktemp("journeys"), _SETTINGS) as agency:
        yield agency


async def _depart(agency: Agency, journey: str, *drivers: str) -> Sequence[str]:
    """Submit a journey that stops at its flight; return the ids that its rentals will have."""
    agency.services.script(f"{journey}/flight/do", Behaviour.IS_DOWN)
    await agency.bench.submit(journey, "journeys", {"traveller": "ada", "drivers": drivers or ("ada",)})
    await agency.bench.until_called(f"{journey}/flight/do")
    task = await agency.bench.until(journey, bool)
    key = f"{journey}.{task['order']['run_id']}/car."
    return [_child(f"{key}{item}/do") for item in range(len(drivers) or 1)]


def _child(effect_key: str) -> str:
    """Return the id of the task of a workflow step."""
    return "c-" + hashlib.sha256(effect_key.encode()).hexdigest()[:40]


def _flies(agency: Agency, journey: str) -> None:
    """Let the flight be booked: the rentals follow."""
    agency.services.script(f"{journey}/flight/do", Behaviour.ANSWERS)


async def _ends(agency: Agency, journey: str, rentals: Sequence[str], state: str) -> Task:
    """Check that all have the same end, and that every effect of an undone one is undone."""
    task = await agency.bench.until_state(journey, state)
    for rental in rentals:
        await agency.bench.until_state(rental, state)
        effects = agency.services.effects(rental)
        assert len(effects) == len({*effects})
        done = {each.removesuffix("/do") for each in effects if each.endswith("/do")}
        undone = {each.removesuffix("/undo") for each in effects if each.endswith("/undo")}
        assert (done, undone) == ({"car", "insurance"}, set()) if state == "Processed" else done <= undone
    return task


async def test_journey_is_done_with_its_rentals(agency: Agency) -> None:
    """Each shows the other to operators; the rental's caller cannot cancel it alone."""
    rentals = await _depart(agency, "done", "ada", "bob")
    _flies(agency, "done")
    task = await _ends(agency, "done", rentals, "Processed")
    assert (task["epoch"], task["failure_count"]) == (1, 0)
    children = {each["name"]: each["child"] for each in task["steps"] if each["child"] is not None}
    assert children == {f"car.{item}": rental for item, rental in enumerate(rentals)}
    found = await agency.bench.look_at(rentals[1])
    assert found is not None
    assert (found["order"]["parent"], found["order"]["parent_step"]) == ("done", "car.1")
    async with agency.bench.session.delete(f"/api/rentals/{rentals[1]}") as answer:
        assert answer.status == HTTPStatus.CONFLICT
        assert "Cancel that order instead" in await answer.text()
    output = await agency.output_of("done", "journeys")
    assert output["cars"] == [f"reference of {rental}/car/do" for rental in rentals]


async def test_host_that_dies_disturbs_neither(agency: Agency) -> None:
    """Whether the rental has just begun, or is being undone with its journey."""
    journeys = {name: await _depart(agency, name) for name in ("died-doing", "died-undoing")}
    for name, [rental] in journeys.items():
        agency.services.script(f"{rental}/car/do", Behaviour.ANSWERS if "un" in name else Behaviour.HANGS)
        _flies(agency, name)
    [doing], [undoing] = journeys.values()
    await _ends(agency, "died-undoing", [undoing], "Processed")
    agency.services.script(f"{undoing}/car/undo", Behaviour.HANGS)
    await agency.cancel("died-undoing", "journeys")
    for effect in (f"{doing}/car/do", f"{undoing}/car/undo"):
        await agency.bench.until_called(effect)
    await agency.bench.platform.kill(PartName.HOST)
    for effect in (f"{doing}/car/do", f"{undoing}/car/undo"):
        agency.services.script(effect, Behaviour.ANSWERS)
    await agency.bench.platform.start(PartName.HOST)
    await _ends(agency, "died-doing", [doing], "Processed")
    await _ends(agency, "died-undoing", [undoing], "Compensated")
