"""Tasks that wait, as an operator sees them: suspended, decided, deferred, held; and the gates."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.async_api import Page, expect

from functions.core.definition.workflow_definition import Workflow
from tests.e2e.console.bench import Bench, Console
from tests.e2e.console.story import Story
from tests.e2e.console.workflows import GONE, NEWEST, OLDER, TAKEN_BACK
from tests.e2e.recovery.bench import ends
from tests.e2e.recovery.remote import Behaviour

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="session")]

_REASON = "of workflow delivery is not deployed"


async def _suspended(bench: Bench, workflow: Workflow[Any], task: str) -> None:
    """Leave a task suspended, two of whose steps are done."""
    story = Story.begin(workflow, task, datetime.now(UTC) - timedelta(seconds=30))
    for number, step in enumerate(("account", "package")):
        story.begun(step, 0.2 + number)
        story.done(step, 0.6 + number)
    story.suspended(3)
    await bench.write(story)


async def _refused(bench: Bench, workflow: Workflow[Any], task: str) -> None:
    """Leave a task in `Error`, whose first step was refused."""
    story = Story.begin(workflow, task, datetime.now(UTC) - timedelta(seconds=30))
    story.begun("account", 0.2)
    story.refused("account", 1, "account answered 422")
    await bench.write(story)


def _cells(page: Page, version: str) -> Any:
    return page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=version)).get_by_role("cell")


async def test_operator_sees_which_version_is_still_needed_and_the_steps_of_each(
    bench: Bench, console: Console
) -> None:
    """From the overview to the tasks, each shown from its own record: a missing version had other steps."""
    await bench.refuse("new")
    await _suspended(bench, GONE, "gone")
    await console.open()
    page = console.page
    assert (NEWEST.version, OLDER.version, GONE.version) == (3, 2, 1)
    await expect(_cells(page, "delivery v2")).to_have_text(["yes, no task needs it", "0", "0", "0", "0"])
    await expect(_cells(page, "delivery v3").first).to_have_text("yes")
    await expect(_cells(page, "delivery v3").last).not_to_have_text("0")
    await expect(_cells(page, "delivery v1")).to_have_text(["no", "0", "0", "1", "0"])
    await expect(page.get_by_role("link", name="Suspended")).to_be_visible()
    await _cells(page, "delivery v1").get_by_role("link", name="1").click()
    await expect(page.get_by_label("State")).to_have_value("Suspended")
    await expect(page.get_by_label("Version")).to_have_value("1")
    line = page.get_by_role("list", name="Tasks").get_by_role("listitem").filter(has_text="gone")
    await expect(line).to_contain_text("delivery v1")
    await expect(line).to_contain_text(f"version 1 {_REASON}")
    await _refused(bench, OLDER, "older")
    for task, of in (("new", NEWEST), ("older", OLDER), ("gone", GONE)):
        await console.open(f"#/tasks/{task}")
        await expect(page.get_by_role("main")).to_contain_text(f"delivery v{of.version}")
        section = page.locator("section").filter(has=page.get_by_role("heading", name="Steps", exact=True))
        steps = section.get_by_role("rowheader")
        await expect(steps).to_have_text(list(of.steps))
    await console.open()
    await expect(_cells(page, "delivery v2")).to_have_text(["yes", "0", "0", "0", "1"])


async def test_suspended_task_says_what_it_waits_for_and_can_be_cancelled(
    bench: Bench, phone: Console
) -> None:
    """On a phone; its undo needs no deployed version."""
    await _suspended(bench, TAKEN_BACK, "stranded")
    await phone.open("#/tasks/stranded")
    page = phone.page
    await expect(page.get_by_role("definition").filter(has_text="Suspended")).to_be_visible()
    box = page.get_by_role("region", name="Suspended")
    await expect(box).to_contain_text(f"version 4 {_REASON}")
    await expect(box).to_contain_text("The task resumes when version 4 of delivery is deployed.")
    assert await phone.overflow() <= 0
    await page.get_by_role("button", name="Cancel task…").click()
    dialog = page.get_by_role("dialog", name="Cancel stranded?")
    await expect(dialog.get_by_role("listitem")).to_have_text(["package"])
    await expect(dialog).to_contain_text("These have no undo, and stay as they are: account.")
    await dialog.get_by_label("Reason").fill("nobody brings it back")
    await dialog.get_by_role("button", name="Cancel task").click()
    await expect(page.get_by_text("Cancel accepted: the task continues in epoch 2.")).to_be_visible()
    assert await phone.overflow() <= 0
    found = await bench.look_at("stranded")
    assert found is not None
    assert (found["direction"], ends(found)) == ("undo", ["cancelled"])


async def test_task_that_waits_for_an_event_says_for_whose_and_until_when(
    bench: Bench, phone: Console
) -> None:
    """On a phone; after the event it does not wait any more."""
    await bench.submit("asked", "approvals", {"weight": 3})
    await bench.until_state("asked", "Pending")
    await phone.open("#/tasks/asked")
    box = phone.page.get_by_role("region", name="Waits for an event")
    await expect(box).to_contain_text(
        "approve waits for an event from a caller with the role Operator, until "
    )
    assert await phone.overflow() <= 0
    async with bench.session.post("/api/approvals/asked/events/approve", json={"approved": True}) as answer:
        assert answer.status == 200
    await bench.until_state("asked", "Processed")
    await expect(box).to_have_count(0)


async def test_task_that_waits_for_its_task_leads_to_it_and_back(bench: Bench, phone: Console) -> None:
    """On a phone; when that has ended, it waits no more."""
    await bench.submit("moving", "moves", {"weight": 3})
    await bench.until_state("moving", "Pending")
    await phone.open("#/tasks/moving")
    page = phone.page
    box = page.get_by_role("region", name="Waits for a child task")
    await expect(box).to_contain_text("permit is a task of its own, with the deadline ")
    await expect(page.get_by_role("link", name="child task")).to_be_visible()
    assert await phone.overflow() <= 0
    await box.get_by_role("link", name="a task of its own").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("c-")
    await expect(page.get_by_role("definition").filter(has_text="moving: permit")).to_be_visible()
    assert await phone.overflow() <= 0
    child = await page.get_by_role("heading", level=1).inner_text()
    assert await bench.act(child, "cancel") == 202
    await page.get_by_role("link", name="moving").click()
    await expect(page.get_by_role("definition").filter(has_text="Error")).to_be_visible()
    await expect(box).to_have_count(0)


async def test_task_that_is_being_undone_says_what_is_left(bench: Bench, console: Console) -> None:
    """Meanwhile it can be suspended only."""
    bench.remote.script("off/package/undo", Behaviour.WAITS)
    await bench.refuse("off")
    await console.open("#/tasks/off")
    page = console.page
    await console.act("Undo", "the customer cancelled")
    await bench.until_called("off/package/undo")
    box = page.get_by_role("region", name="Being undone")
    await expect(box.get_by_role("listitem")).to_have_text(["package"])
    await expect(page.locator(".actions").get_by_role("button")).to_have_text(["Suspend…"])
    bench.remote.release("off/package/undo", 0)
    await expect(page.get_by_role("definition").filter(has_text="Compensated")).to_be_visible()
    await expect(box).to_have_count(0)


async def test_corrupt_rows_are_named(bench: Bench, console: Console) -> None:
    """They hide no task; while there are any, no version is said to be unneeded."""
    corrupt = [{"key": "lost|task", "reason": "ProcessState: Vanished is not one of its values"}]
    await console.answer("overview", await bench.overview() | {"corrupt": corrupt})
    await console.open()
    page = console.page
    await expect(page.get_by_role("heading", name="Corrupt rows")).to_be_visible()
    await expect(_cells(page, "delivery v2").first).to_have_text("yes")
    await console.answer(
        "tasks?*", {"tasks": [], "cursor": None, "looked_to": None, "more": False, "corrupt": corrupt}
    )
    await console.open("#/tasks")
    await expect(page.get_by_role("row").filter(has_text="lost|task")).to_contain_text("Vanished")


def _gate(page: Page, name: str) -> Any:
    return page.get_by_role("listitem", name=name, exact=True)


async def test_operator_holds_a_gate_and_ends_the_hold(bench: Bench, tab: Console) -> None:
    """The step waits behind the gate, and starts after the end of the hold."""
    task, page = f"held-{tab.width}", tab.page
    await tab.open()
    await tab.act("Hold transport", "the carrier moves")
    await expect(_gate(page, "transport")).to_contain_text("Held by operator")
    await expect(_gate(page, "transport")).to_contain_text("the carrier moves")
    await bench.submit(task)
    await bench.until(task, lambda found: "transport" in found["gates"])
    await tab.open(f"#/tasks/{task}")
    box = page.get_by_role("region", name="Deferred")
    await expect(box).to_contain_text("transport waits behind the gate transport")
    assert await tab.overflow() <= 0
    await box.get_by_role("link", name="transport").click()
    await expect(_gate(page, "transport")).to_be_focused()
    await expect(_gate(page, "transport")).to_contain_text("1 deferred")
    assert await tab.overflow() <= 0
    await tab.act("End hold of transport", "the carrier is back")
    await expect(_gate(page, "transport")).not_to_contain_text("Held by")
    await bench.until_state(task, "Processed")


async def test_operator_limits_the_calls_of_a_gate(console: Console) -> None:
    """An empty limit is that of the Agent's settings."""
    await console.open()
    page = console.page
    for given, shown in (("4", "at most 4 calls per instance"), ("", None)):
        await page.get_by_role("button", name="Limit package…").click()
        dialog = page.get_by_role("dialog", name="Limit package?")
        await dialog.get_by_label("Calls of one instance at a time").fill(given)
        await dialog.get_by_label("Reason").fill("it is slow")
        await dialog.get_by_role("button", name="Limit package").click()
        await expect(dialog).to_have_count(0)
        await expect(_gate(page, "package").get_by_text("at most")).to_have_count(1 if shown else 0)
        if shown:
            await expect(_gate(page, "package")).to_contain_text(shown)


async def test_open_gate_shows_its_tasks_and_its_next_probe(bench: Bench, phone: Console) -> None:
    """On a phone."""
    overview = await bench.overview()
    now = datetime.now(UTC)
    gate = next(each for each in overview["gates"] if each["gate"] == "drone")
    gate |= {"circuit": "open", "since": (now - timedelta(minutes=3)).isoformat()}
    gate |= {"next_at": (now + timedelta(minutes=9)).isoformat()}
    gate |= {"deferred": {"count": 1000, "more": True}, "deferred_since": now.isoformat()}
    await phone.answer("overview", overview)
    await phone.open()
    line = _gate(phone.page, "drone")
    await expect(line).to_contain_text("circuit open since")
    await expect(line).to_contain_text("next probe in 9 min")
    await expect(line).to_contain_text("1,000+ deferred, the first since")
    assert await phone.overflow() <= 0


async def test_failed_attempts_of_a_step_are_shown(bench: Bench, console: Console) -> None:
    """Their number, the last error, and the note of the step."""
    await bench.submit("tried")
    found = await bench.until_state("tried", "Processed")
    drone = next(step for step in found["steps"] if step["name"] == "drone")
    attempt = drone["do"]["attempts"][0] | {"outcome": "unknown"}
    drone["do"] |= {"attempts": [attempt] * 7, "error": "drone answered 503"}
    drone |= {"state": "Running", "note": "started in epoch 1, too"}
    await console.answer("tasks/tried", found)
    await console.open("#/tasks/tried")
    row = console.page.get_by_role("row").filter(has=console.page.get_by_role("rowheader", name="drone"))
    for text in ("7 attempts without success", "drone answered 503", "started in epoch 1, too"):
        await expect(row).to_contain_text(text)
