"""An operator finds tasks, sees which failed for one cause, and acts on all of a list."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from tests.e2e.console.bench import Bench, Console
from tests.e2e.recovery.bench import ends
from tests.e2e.recovery.remote import Behaviour

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="session")]


async def _refused(bench: Bench, *tasks: str) -> None:
    """Bring errands into `Error`, each refused once."""
    for task in tasks:
        await bench.refuse(task, Behaviour.ANSWERS, resource="errands")


async def _asked(page: Page, title: str, reason: str, confirm: str) -> Locator:
    """Answer the question with its usual action, and give the dialog that shows how far it is."""
    dialog = page.get_by_role("dialog", name=title)
    await dialog.get_by_label("Reason").fill(reason)
    await dialog.get_by_role("button", name=confirm).click()
    return page.get_by_role("dialog", name=confirm)


async def test_all_of_a_list_are_resubmitted(bench: Bench, console: Console) -> None:
    """Counted first; what came of them is listed, with links; each keeps the reason."""
    tasks = [f"run-{number}" for number in range(3)]
    await _refused(bench, *tasks)
    await console.open("#/tasks?state=Error&workflow=errand")
    page = console.page
    await page.get_by_role("button", name="Act on all of these…").click()
    run = await _asked(page, "Resubmit 3 tasks?", "it is back", "Resubmit 3 tasks")
    await expect(run.get_by_role("alert")).to_contain_text("Finished.3 done, 0 rejected.")
    await expect(run.get_by_role("button", name="Close")).to_be_focused()
    await expect(run.get_by_role("progressbar")).to_have_js_property("value", 3)
    await run.get_by_text("3 done", exact=True).click()
    await expect(run.get_by_role("link")).to_have_count(3)
    for task in tasks:
        found = await bench.until_state(task, "Processed")
        assert found["history"][-1]["reason"] == "it is back"
        assert ends(found) == ["resubmitted"]
    await run.get_by_role("button", name="Close").focus()
    await page.keyboard.press("Enter")
    await expect(run).to_have_count(0)
    await expect(page.get_by_role("button", name="Act on all of these…")).to_be_focused()
    await page.get_by_role("button", name="Act on all of these…").click()
    await expect(page.get_by_role("dialog", name="No tasks match.")).to_be_visible()
    await page.get_by_role("button", name="Close").click()
    await page.get_by_label("State").select_option("Processed")
    await page.get_by_role("button", name="Act on all of these…").click()
    dialog = page.get_by_role("dialog", name="Act on 3 tasks?")
    await expect(dialog.get_by_label("Action")).to_have_value("")
    await expect(dialog.get_by_role("option")).to_have_text(["Choose…", "Cancel 3 tasks"])
    await dialog.get_by_label("Reason").fill("no action is chosen")
    await dialog.get_by_role("button", name="Act on 3 tasks").click()
    await expect(dialog).to_be_visible()


async def test_run_is_stopped_and_resumed(bench: Bench, console: Console) -> None:
    """Escape stops after the page on its way; a failed request is repeated; damaged rows are named."""
    await _refused(bench, "stop-1", "stop-2")
    await console.open("#/tasks?state=Error&workflow=errand")
    page = console.page
    damaged = {"key": "stop-3|task", "reason": "no state"}
    pages = [
        {"done": [_done("stop-1")], "rejected": [], "passed_over": 0, "corrupt": [], "cursor": "next"},
        {"done": [_done("stop-2")], "rejected": [], "passed_over": 0, "corrupt": [damaged], "cursor": None},
    ]
    asked: list[str | None] = []

    async def answer(route: object) -> None:
        asked.append(route.request.post_data_json["cursor"])  # type: ignore[attr-defined]
        if len(asked) == 1:
            await page.keyboard.press("Escape")
        if len(asked) == 2:
            await route.abort()  # type: ignore[attr-defined]
        else:
            await route.fulfill(json=pages[len({*asked}) - 1])  # type: ignore[attr-defined]

    await console.answer("count?*", {"count": 2, "more": False, "exact": True, "at": "2026-11-21T12:00:00Z"})
    await page.route("**/api/ops/tasks/actions", answer)
    await page.get_by_role("button", name="Act on all of these…").click()
    run = await _asked(page, "Resubmit 2 tasks?", "again", "Resubmit 2 tasks")
    await expect(run.get_by_role("alert")).to_contain_text("Stopped.")
    await expect(run.get_by_text("1 of 2: 1 done, 0 rejected")).to_be_visible()
    assert asked == [None]
    await run.get_by_role("button", name="Continue").click()
    await expect(run.get_by_role("alert")).to_contain_text("Interrupted: not reachable.")
    console.complaints.clear()
    await run.get_by_role("button", name="Continue").click()
    await expect(run.get_by_role("alert")).to_contain_text("Finished.2 done")
    await expect(run.get_by_text("stop-3|task")).to_be_visible()
    assert asked == [None, "next", "next"]


def _done(task: str) -> dict[str, object]:
    return {"id": task, "epoch": 2, "state": "Pending", "direction": "do"}


_REFUSED = "drone: drone answered 422"


def _lines(page: Page) -> Any:
    return page.get_by_role("list", name="Tasks").get_by_role("link")


def _cause(page: Page) -> Locator:
    return page.get_by_role("listitem").filter(has_text=_REFUSED).filter(has_text="delivery v3")


async def _follow_cause(page: Page, *tasks: str) -> None:
    """From the list to the causes, and to the tasks of one of them."""
    await page.get_by_role("link", name="by cause").click()
    await expect(page.get_by_role("heading", level=1, name="Errors by cause")).to_be_visible()
    group = _cause(page)
    await expect(group).to_contain_text("step drone")
    await group.get_by_role("link", name=_REFUSED).click()
    await expect(page.get_by_label("Step")).to_have_value("drone")
    await expect(page.get_by_label("Error like")).to_have_value(_REFUSED)
    for task in tasks:
        await expect(page.get_by_role("link", name=task, exact=True)).to_be_visible()


async def test_errors_of_one_cause_lead_to_their_tasks(bench: Bench, console: Console) -> None:
    """One line for all of them, with how many and since when."""
    for task in ("cause-1", "cause-2"):
        await bench.refuse(task)
    await console.open("#/tasks")
    await _follow_cause(console.page, "cause-1", "cause-2")


async def test_task_is_found_by_a_text_of_its_own_with_the_keyboard(bench: Bench, console: Console) -> None:
    """In any state, as none was chosen, and however the text is typed. The focus is always visible."""
    await bench.submit("heavy", "approvals", {"weight": 471_100})
    await bench.until_state("heavy", "Pending")
    await console.open("#/tasks")
    page = console.page
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    assert await page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    await page.get_by_label("Id", exact=True).focus()
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await page.keyboard.press("Tab")
    await expect(page.get_by_label("Text of its payload")).to_be_focused()
    await page.keyboard.type("WEIGHT 471100")
    await page.keyboard.press("Enter")
    await expect(_lines(page)).to_have_text(["heavy"])
    await expect(page.get_by_label("State")).to_have_value("")
    await page.get_by_label("Workflow").fill("delivery")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("No tasks match.")).to_be_visible()
    await page.get_by_label("Id", exact=True).fill("heavy")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_contain_text("heavy")


async def test_list_says_how_far_back_it_has_looked(console: Console) -> None:
    """Also when nothing was found so far; the next request continues there."""
    looked = {"tasks": [], "cursor": "abc", "looked_to": "2026-11-21T09:59:00Z", "more": False}
    await console.answer("tasks?*", looked | {"corrupt": []})
    await console.open("#/tasks?state=Processed&step=drone")
    await expect(console.page.get_by_text("No task matches so far; the search continues.")).to_be_visible()
    await expect(console.page.get_by_text("Searched from now back to 21 Nov 2026")).to_be_visible()
    further = console.page.get_by_role("link", name="Search further")
    await expect(further).to_have_attribute("href", "#/tasks?state=Processed&step=drone&cursor=abc")
