"""Trips are held at each step when their host is killed; it comes back as it was, or with a new version."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from local.platform import PartName
from tests.e2e.recovery.bench import step
from tests.e2e.recovery.remote import Behaviour
from tests.house.documents import code_blocks
from tests.tutorial.booking.agency import Agency, open_agency
from tests.tutorial.project import RECIPES

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

_SETTINGS = {"STEP_SECONDS": "booking.charge=15,booking.ticket=240", "SUPERVISOR_THRESHOLD": "100"}

#: What services are asked when the host is killed. Of the rooms, the first is booked, the last not begun.
_HELD_AT = (
    ("flight/do",),
    ("hotel.1/do", "hotel.2/do"),
    ("car/do",),
    ("charge/do",),
    ("ticket/do",),
    ("charge/undo",),
    ("car/undo",),
    ("hotel.1/undo",),
    ("flight/undo",),
)
#: Whether a service has done it by then.
_HOW = {"not-done": Behaviour.HANGS, "done": Behaviour.FORGETS}
#: Seconds until the pay-day of the trip that waits for it: more than it takes to get there.
_PAID_IN = 30


@dataclass(frozen=True, slots=True)
class Trip:
    """A trip of four nights, and the effects that its services are asked for when the host is killed."""

    prefix: str
    held_at: Sequence[str]
    how: str

    @property
    def name(self) -> str:
        """Name the trip."""
        return f"{self.prefix}-{self.held_at[0].replace('/', '-').replace('.', '-')}-{self.how}"

    @property
    def is_undone(self) -> bool:
        """Tell whether its approver has refused it."""
        return self.held_at[0].endswith("/undo")

    @property
    def in_question(self) -> bool:
        """Tell whether nobody knows what has become of what can't be repeated."""
        return self.held_at[0] == "charge/do"

    async def take_off(self, agency: Agency) -> None:
        """Book the trip."""
        for effect in self.held_at:
            agency.services.script(f"{self.name}/{effect}", _HOW[self.how])
        await agency.book(self.name, nights=4, price=2400 if self.is_undone else 900)
        if self.is_undone:
            await agency.say(self.name, approved=False)

    async def is_held(self, agency: Agency) -> None:
        """Wait until it is."""
        for effect in self.held_at:
            await agency.bench.until_called(f"{self.name}/{effect}")
        if "hotel.1/do" in self.held_at:
            await agency.bench.until(self.name, lambda task: step(task, "hotel.0")["state"] == "Completed")
            assert agency.services.called(f"{self.name}/hotel.3/do") == 0

    def let_go(self, agency: Agency) -> None:
        """Have its services answer from now on."""
        for effect in self.held_at:
            agency.services.script(f"{self.name}/{effect}", Behaviour.ANSWERS)

    async def ends(self, agency: Agency) -> None:
        """See that all is there once, or that nothing is."""
        if self.is_undone:
            await agency.is_undone(self.name)
            return
        if self.in_question:
            await self._is_answered(agency)
        await agency.is_booked(self.name, effects=8)

    async def _is_answered(self, agency: Agency) -> None:
        """Have the operator say what the card service knows."""
        await agency.bench.until_state(self.name, "Error")
        assert agency.services.called(f"{self.name}/charge/do") == 1
        result = {"reference": "found"} if self.how == "done" else None
        assert await agency.bench.act(self.name, f"steps/charge/{self.how}", result=result) == 202


@pytest_asyncio.fixture
async def agency(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Agency]:
    """Run the application as the recipe's page says; one test changes it."""
    async with open_agency(tmp_path_factory.mktemp("interruptions"), _SETTINGS) as agency:
        yield agency


async def test_host_that_is_killed_books_each_trip_once(agency: Agency) -> None:
    """It goes on with what was begun, in the middle of the rooms too."""
    await _interrupt(agency, "killed", {})


async def test_trips_under_way_are_not_disturbed_by_a_second_version(agency: Agency) -> None:
    """They go on as they were submitted; a new one is insured."""
    await _interrupt(agency, "deployed", _second_version(agency.app))
    assert not any(call.step == "insurance" for call in agency.services.calls)
    await agency.book("new")
    task = await agency.is_booked("new", effects=8)
    assert step(task, "insurance")["state"] == "Completed"


async def _interrupt(agency: Agency, prefix: str, changed: dict[Path, str]) -> None:
    """Kill the host while trips are held, change files of the application, and start it."""
    trips = [Trip(prefix, held_at, how) for held_at in _HELD_AT for how in _HOW]
    approved, paid = f"{prefix}-approval", f"{prefix}-pay-day"
    for trip in trips:
        await trip.take_off(agency)
    for trip in trips:
        await trip.is_held(agency)
    await agency.book(approved, nights=4, price=2400)
    await agency.book(paid, nights=4, paid_in=_PAID_IN)
    await agency.bench.until(approved, lambda task: step(task, "approval")["state"] == "Running")
    await agency.bench.until(paid, lambda task: step(task, "pay-day")["state"] == "Running")
    await agency.bench.platform.kill(PartName.HOST)
    assert agency.services.called(f"{paid}/charge/do") == 0
    for trip in trips:
        trip.let_go(agency)
    for file, text in changed.items():
        file.write_text(text, encoding="utf-8")
    await agency.bench.platform.start(PartName.HOST)
    await agency.say(approved, approved=True)
    for trip in trips:
        await trip.ends(agency)
    for waited in (approved, paid):
        await agency.is_booked(waited, effects=8)


def _second_version(app: Path) -> dict[Path, str]:
    """Change the workflow as the page says."""
    file = app / "functions/workflows/bookings/__init__.py"
    text = file.read_text(encoding="utf-8")
    [second] = [block.text for block in code_blocks(RECIPES[0]) if block.text.startswith("BOOKINGS_2")]
    [registration] = [line for line in text.splitlines() if line.startswith("REGISTRATION")]
    for old, new in {
        "from datetime import": "from dataclasses import replace\nfrom datetime import",
        "\n\nclass Booking(": 'INSURANCE = StepName("insurance")\n\n\nclass Booking(',
        registration: second,
    }.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    return {file: text}
