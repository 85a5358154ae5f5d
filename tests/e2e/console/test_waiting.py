"""What an operator sees of a task that waits, and can do about it: parked, decided, tried in vain."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest
from playwright.async_api import Page, expect

from functions.pattern.definition import Workflow
from tests.e2e.console.bench import Console, write_story
from tests.e2e.console.story import Story
from tests.e2e.console.workflows import GONE, NEWEST, OLDER, TAKEN_BACK
from tests.e2e.fleet.bench import PARCEL, submit
from tests.e2e.recovery.bench import PATIENCE, Bench
from tests.e2e.recovery.remote import Behaviour

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="session")]

_REASON = "of 'delivery' is not deployed here"


async def _parked(bench: Bench, workflow: Workflow, task: str) -> None:
    """Leave a task parked, two of whose steps are done."""
    story = Story.begin(workflow, task, datetime.now(UTC) - timedelta(seconds=30))
    await story.claimed(0.1)
    for number, step in enumerate(("account", "package")):
        await story.begun(step, 0.2 + number)
        await story.done(step, 0.6 + number)
    await story.parked(3)
    await write_story(bench, story)


async def _refused(bench: Bench, workflow: Workflow, task: str) -> None:
    """Leave a task in `Error`, whose first step was refused."""
    story = Story.begin(workflow, task, datetime.now(UTC) - timedelta(seconds=30))
    await story.claimed(0.1)
    await story.begun("account", 0.2)
    await story.refused("account", 1, "account answered 422")
    await write_story(bench, story)


def _cells(page: Page, version: str) -> Any:
    return page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=version)).get_by_role("cell")


async def test_operator_sees_which_version_is_still_needed_and_the_steps_of_each(
    bench: Bench, console: Console
) -> None:
    """From the overview to the tasks, each shown from its own record: what is gone had other steps."""
    bench.remote.script("new/drone/do", Behaviour.REFUSES)
    await submit(bench, "new")
    await bench.until_state("new", "Error")
    await _parked(bench, GONE, "gone")
    await console.open()
    page = console.page
    assert (NEWEST.version, OLDER.version, GONE.version) == (3, 2, 1)
    await expect(_cells(page, "delivery v2")).to_have_text(["yes, no task needs it", "0", "0", "0"])
    await expect(_cells(page, "delivery v3").first).to_have_text("yes")
    await expect(_cells(page, "delivery v3").last).not_to_have_text("0")
    await expect(_cells(page, "delivery v1")).to_have_text(["no", "0", "1", "0"])
    await expect(page.get_by_role("link", name="Parked")).to_be_visible()
    await _cells(page, "delivery v1").get_by_role("link", name="1").click()
    await expect(page.get_by_label("State")).to_have_value("Parked")
    await expect(page.get_by_label("Version")).to_have_value("1")
    line = page.get_by_role("list", name="Tasks").get_by_role("listitem").filter(has_text="gone")
    await expect(line).to_contain_text("delivery v1")
    await expect(line).to_contain_text(f"version 1 {_REASON}")
    await _refused(bench, OLDER, "older")
    for task, of in (("new", NEWEST), ("older", OLDER), ("gone", GONE)):
        await console.open(f"#/tasks/{task}")
        await expect(page.get_by_role("main")).to_contain_text(f"delivery v{of.version}")
        section = page.locator("section").filter(has=page.get_by_role("heading", name="Steps now"))
        steps = section.get_by_role("rowheader")
        await expect(steps).to_have_text([step.name for step in of.steps])
    await console.open()
    await expect(_cells(page, "delivery v2")).to_have_text(["yes", "0", "0", "1"])


async def test_parked_tasks_can_be_filtered_for(bench: Bench, console: Console) -> None:
    """They are not among those that wait for their Scheduler, and each change has an address."""
    await _parked(bench, TAKEN_BACK, "left-behind")
    await console.open("#/tasks?state=Pending&workflow=delivery")
    page = console.page
    await expect(page.get_by_role("link", name="left-behind")).to_have_count(0)
    await page.get_by_label("State").select_option("Parked")
    await expect(page.get_by_role("link", name="left-behind")).to_be_visible()
    assert "parked=true" in page.url
    await page.get_by_label("Version").fill("2")
    await page.get_by_role("button", name="Find").click()
    await expect(page.get_by_text("No such task.")).to_be_visible()


async def test_parked_task_says_what_it_waits_for_and_can_be_cancelled(bench: Bench, phone: Console) -> None:
    """On a phone; its undo needs the same version, and waits for it as well."""
    await _parked(bench, TAKEN_BACK, "stranded")
    await phone.open("#/tasks/stranded")
    page = phone.page
    await expect(page.get_by_role("definition").filter(has_text="Parked")).to_be_visible()
    box = page.get_by_role("region", name="Parked")
    await expect(box).to_contain_text(f"version 4 {_REASON}")
    await expect(box).to_contain_text("It goes on by itself as soon as version 4 of delivery is deployed")
    assert await phone.overflow() <= 0
    await page.get_by_role("button", name="Cancel task…").click()
    dialog = page.get_by_role("dialog", name="Cancel stranded?")
    await expect(dialog.get_by_role("listitem")).to_have_text(["package"])
    await expect(dialog).to_contain_text("be undone, and stay as they are: account.")
    await dialog.get_by_label("Reason").fill("nobody brings it back")
    await dialog.get_by_role("button", name="Cancel task").click()
    await expect(page.get_by_text("Cancel accepted: it goes on in epoch 2.")).to_be_visible()
    assert await phone.overflow() <= 0
    found = await bench.look_at("stranded")
    assert found is not None
    assert (found["direction"], found["history"][-1]["event"]) == ("undo", "cancelled")


async def test_task_that_waits_for_an_event_says_for_whose_and_until_when(
    bench: Bench, phone: Console
) -> None:
    """On a phone; when the event is told, it waits no more."""
    await bench.submit("asked", "approvals", {"weight": 3})
    await bench.until_state("asked", "Pending")
    await phone.open("#/tasks/asked")
    box = phone.page.get_by_role("region", name="Waits for an event")
    await expect(box).to_contain_text("approve waits for an event from a caller of the role Operator, until ")
    assert await phone.overflow() <= 0
    async with aiohttp.ClientSession(bench.platform.addresses.host) as session:
        told = await session.post("/api/approvals/asked/events/approve", json={"approved": True})
        assert told.status == 200
    await bench.until_state("asked", "Processed")
    await expect(box).to_have_count(0)


async def test_task_that_waits_for_its_task_leads_to_it_and_back(bench: Bench, phone: Console) -> None:
    """On a phone; when that has ended, it waits no more."""
    await bench.submit("moving", "moves", {"weight": 3})
    await bench.until_state("moving", "Pending")
    await phone.open("#/tasks/moving")
    page = phone.page
    box = page.get_by_role("region", name="Waits for its task")
    await expect(box).to_contain_text("permit is a task by itself, which is awaited until ")
    await expect(page.get_by_role("link", name="its task")).to_be_visible()
    assert await phone.overflow() <= 0
    await box.get_by_role("link", name="a task by itself").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("c-")
    await expect(page.get_by_role("definition").filter(has_text="moving: permit")).to_be_visible()
    assert await phone.overflow() <= 0
    child = await page.get_by_role("heading", level=1).inner_text()
    assert await bench.act(child, "cancel") == 202
    await page.get_by_role("link", name="moving").click()
    await expect(page.get_by_role("definition").filter(has_text="Error")).to_be_visible()
    await expect(box).to_have_count(0)


async def test_cancelling_waits_for_what_must_not_be_repeated(bench: Bench, console: Console) -> None:
    """It is shown what was decided, by whom, and until when it waits; then it happens."""
    bench.remote.script("charged/account/do", Behaviour.WAITS)
    await bench.submit("charged", "patient-bookings", PARCEL)
    await bench.until_called("charged/account/do")
    await console.open("#/tasks/charged")
    page = console.page
    await page.get_by_role("button", name="Cancel task…").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("Nothing more is started. What account does is awaited first")
    await expect(dialog.get_by_role("listitem")).to_have_text(["drone"])
    await dialog.get_by_role("button", name="Cancel task").click()
    await expect(dialog.get_by_label("Reason")).to_be_focused()
    await dialog.get_by_label("Reason").fill("the trip is off")
    await dialog.get_by_role("button", name="Cancel task").click()
    await expect(page.get_by_text("Cancel accepted: it waits for an outcome first.")).to_be_visible()
    box = page.get_by_role("region", name="Decided, and waits")
    await expect(box).to_contain_text("It will be undone (cancelled), by operator: the trip is off")
    await expect(box).to_contain_text("when the outcome of account is known")
    await expect(box.get_by_role("listitem")).to_have_text(["drone"])
    await expect(page.get_by_role("button", name="Cancel task…")).to_have_count(0)
    bench.remote.release("charged/account/do", 0)
    await expect(page.get_by_role("definition").filter(has_text="Compensated")).to_be_visible()
    await expect(box).to_have_count(0)
    await expect(page.locator(".history")).to_contain_text("cancelled by operator")
    assert bench.remote.effects("charged") == ["drone/do", "account/do", "drone/undo"]


async def test_task_that_is_being_undone_says_what_is_left(bench: Bench, console: Console) -> None:
    """Nobody can do anything about it meanwhile, but park it."""
    bench.remote.script("off/drone/do", Behaviour.REFUSES)
    bench.remote.script("off/package/undo", Behaviour.WAITS)
    await submit(bench, "off")
    await bench.until_state("off", "Error")
    await console.open("#/tasks/off")
    page = console.page
    await console.act("Undo", "the customer cancelled")
    await bench.until_called("off/package/undo")
    box = page.get_by_role("region", name="Being undone")
    await expect(box.get_by_role("listitem")).to_have_text(["package"])
    await expect(page.locator(".actions").get_by_role("button")).to_have_text(["Park…"])
    bench.remote.release("off/package/undo", 0)
    await expect(page.get_by_role("definition").filter(has_text="Compensated")).to_be_visible()
    await expect(box).to_have_count(0)


async def test_rows_that_cannot_be_read_are_named(bench: Bench, console: Console) -> None:
    """They hide no task, and are not taken for none: then no version is said to be needed by none."""
    async with bench.session.get("/api/ops/overview") as answer:
        overview = await answer.json() | {"unreadable": 2}
    await console.answer("overview", overview)
    await console.open()
    page = console.page
    await expect(page.get_by_text("Unreadable rows")).to_be_visible()
    await expect(_cells(page, "delivery v2").first).to_have_text("yes")
    damaged = [{"key": "lost|task", "reason": "ProcessState: Vanished is not one of its values"}]
    await console.answer("tasks?*", {"tasks": [], "cursor": None, "more": False, "unreadable": damaged})
    await console.open("#/tasks?prefix=lost")
    await expect(page.get_by_role("row").filter(has_text="lost|task")).to_contain_text("Vanished")


async def test_agent_that_does_not_reply_is_shown(bench: Bench, phone: Console) -> None:
    """Since when, and how many tasks wait for it; where all reply, there is nothing to see."""
    heading = phone.page.get_by_role("heading", name="Agents that do not reply")
    cells = phone.page.locator("section").filter(has=heading).get_by_role("cell")
    await phone.open()
    await expect(heading).to_have_count(0)
    async with bench.session.get("/api/ops/overview") as answer:
        overview = await answer.json()
    hour_ago = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    silent = [
        {"agent": "payment", "since": hour_ago, "tasks": 40},
        {"agent": "fleet-of-drones", "since": None, "tasks": 1},
    ]
    await phone.answer("overview", overview | {"silent_agents": silent})
    await phone.open()
    await expect(cells).to_have_text(["60 min ago", "40", "never", "1"])
    assert await phone.overflow() <= 0


async def test_calls_in_flight_are_shown_where_they_are_limited(bench: Bench, console: Console) -> None:
    """And take no room where no service's are."""
    async with bench.session.get("/api/ops/overview") as answer:
        overview = await answer.json()
    known = {"service": "drone", "state": "open", "since": overview["at"], "failures": 5, "wanted": 4}
    breaker = known | dict.fromkeys(("probe_at", "last_error", "at_once", "ramp", "limit", "in_flight"))
    other = breaker | {"service": "payment", "limit": 16, "in_flight": 3}
    free, limited = overview | {"breakers": [breaker]}, overview | {"breakers": [breaker, other]}
    column = console.page.get_by_role("columnheader", name="In flight")
    for shown, columns in ((free, 0), (limited, 1)):
        await console.answer("overview", shown)
        await console.open()
        await expect(console.page.get_by_role("columnheader", name="Circuit")).to_be_visible()
        await expect(column).to_have_count(columns)
    await expect(_cells(console.page, "drone").last).to_have_text("\u2013")
    await expect(_cells(console.page, "payment").last).to_have_text("3 of 16")


async def _swept(bench: Bench) -> Any:
    """Read the overview when there was a sweep: right after the start, there was none."""
    async with asyncio.timeout(PATIENCE):
        while True:
            async with bench.session.get("/api/ops/overview") as answer:
                overview = await answer.json()
            if overview["supervisor"] is not None:
                return overview
            await asyncio.sleep(0.1)


async def test_last_sweep_tells_how_many_tasks_it_parked(bench: Bench, console: Console) -> None:
    """Beside those that it recovered, or gave up."""
    overview = await _swept(bench)
    overview["supervisor"]["parked"] = 7
    await console.answer("overview", overview)
    await console.open()
    facts = console.page.locator("section").filter(has=console.page.get_by_role("heading", name="Supervisor"))
    await expect(facts.locator(".facts dt:text-is('Parked') + dd")).to_have_text("7")


async def test_failed_calls_of_a_running_step_are_shown(bench: Bench, console: Console) -> None:
    """Their count, the last of their faults, and what else is noted of the step."""
    await submit(bench, "tried")
    found = await bench.until_state("tried", "Processed")
    drone = next(step for step in found["steps"] if step["name"] == "drone")
    drone |= {
        "state": "Running",
        "attempts": 7,
        "error": "drone answered 503",
        "noted": "begun in epoch 1, too",
    }
    await console.answer("tasks/tried", found)
    await console.open("#/tasks/tried")
    row = console.page.get_by_role("row").filter(has=console.page.get_by_role("rowheader", name="drone"))
    await expect(row).to_contain_text("7 failed calls, the last: drone answered 503")
    await expect(row).to_contain_text("begun in epoch 1, too")
