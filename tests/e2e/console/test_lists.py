"""An operator finds tasks, sees which failed for one cause, and acts on all of a list."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from tests.e2e.console.bench import Console
from tests.e2e.fleet.bench import PARCEL, submit
from tests.e2e.recovery.bench import Bench, events
from tests.e2e.recovery.remote import Behaviour

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="session")]


async def _refused(bench: Bench, *tasks: str) -> None:
    """Bring errands into `Error`, each refused once."""
    for task in tasks:
        bench.remote.script(f"{task}/drone/do", Behaviour.REFUSES, Behaviour.ANSWERS)
        await bench.submit(task, "errands", PARCEL)
    for task in tasks:
        await bench.until_state(task, "Error")


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
    await console.open("#/tasks?state=Error&workflow=errand&prefix=run-")
    page = console.page
    await page.get_by_role("button", name="Act on all of these…").click()
    run = await _asked(page, "Resubmit 3 tasks?", "it is back", "Resubmit 3 tasks")
    await expect(run.get_by_role("alert")).to_contain_text("Finished.3 done, 0 refused.")
    await expect(run.get_by_role("button", name="Close")).to_be_focused()
    await expect(run.get_by_role("progressbar")).to_have_js_property("value", 3)
    await run.get_by_text("3 done", exact=True).click()
    await expect(run.get_by_role("link")).to_have_count(3)
    for task in tasks:
        found = await bench.until_state(task, "Processed")
        assert found["history"][-1]["reason"] == "it is back"
        assert events(found) == ["submitted", "resubmitted"]
    await run.get_by_role("button", name="Close").focus()
    await page.keyboard.press("Enter")
    await expect(run).to_have_count(0)
    await expect(page.get_by_role("button", name="Act on all of these…")).to_be_focused()
    await page.get_by_role("button", name="Act on all of these…").click()
    await expect(page.get_by_role("dialog", name="There is no such task.")).to_be_visible()
    await page.get_by_role("button", name="Close").click()
    await page.get_by_label("State").select_option("Processed")
    await page.get_by_role("button", name="Act on all of these…").click()
    dialog = page.get_by_role("dialog", name="Act on 3 tasks?")
    await expect(dialog.get_by_label("Action")).to_have_value("")
    await expect(dialog.get_by_role("option")).to_have_text(["Choose…", "Cancel 3 tasks"])
    await dialog.get_by_label("Reason").fill("no action is chosen")
    await dialog.get_by_role("button", name="Act on 3 tasks").click()
    await expect(dialog).to_be_visible()


async def test_refusals_are_grouped_by_their_reason(bench: Bench, console: Console) -> None:
    """With a link to each task; the others are done all the same."""
    await _refused(bench, "mix-1", "mix-2")
    bench.remote.script("mix-3/drone/do", Behaviour.ANSWERS)
    await bench.submit("mix-3", "errands", PARCEL)
    await bench.until_state("mix-3", "Processed")
    await console.open("#/tasks?prefix=mix-")
    page = console.page
    await page.get_by_role("button", name="Act on all of these…").click()
    run = await _asked(page, "Resubmit 3 tasks?", "again", "Resubmit 3 tasks")
    reason = "1 refused: The task is not in Error, and takes this only there."
    await expect(run.get_by_text(reason)).to_be_visible()
    await run.get_by_role("link", name="mix-3").click()
    await expect(page.get_by_role("heading", level=1, name="mix-3")).to_be_visible()
    await expect(run).to_have_count(0)


async def test_group_of_a_cause_is_skipped_with_a_result_on_a_phone(bench: Bench, phone: Console) -> None:
    """From the causes: the action that is chosen says what it needs."""
    bench.remote.script("pocket-1/account/do", Behaviour.REFUSES)
    await bench.submit("pocket-1", "deliveries", PARCEL)
    await bench.until_state("pocket-1", "Error")
    await phone.open("#/errors")
    page = phone.page
    group = page.get_by_role("listitem").filter(has_text="account: account answered 422")
    group = group.filter(has_text="delivery v3")
    await group.get_by_role("button").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_label("Action")).to_be_focused()
    await dialog.get_by_label("Action").select_option("skip")
    await expect(dialog.get_by_label("Step", exact=True)).to_have_value("account")
    assert await phone.overflow() <= 0
    await dialog.get_by_label("Result of the step").fill("{")
    await dialog.get_by_label("Reason").fill("by hand")
    await dialog.get_by_role("button", name="Skip a step of 1 task").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("This is not JSON")
    await expect(dialog.get_by_label("Result of the step")).to_be_focused()
    await dialog.get_by_label("Result of the step").fill("{}")
    await dialog.get_by_role("button", name="Skip a step of 1 task").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("Finished.1 done, 0 refused.")
    assert await phone.overflow() <= 0
    await bench.until_state("pocket-1", "Processed")


async def test_run_is_stopped_and_gone_on_with(bench: Bench, console: Console) -> None:
    """Escape stops after the page on its way; a failed request is repeated; damaged rows are named."""
    await _refused(bench, "stop-1", "stop-2")
    await console.open("#/tasks?state=Error&workflow=errand")
    page = console.page
    damaged = {"key": "stop-3|task", "reason": "no state"}
    pages = [
        {"done": [_done("stop-1")], "refused": [], "passed_over": 0, "unreadable": [], "cursor": "next"},
        {"done": [_done("stop-2")], "refused": [], "passed_over": 0, "unreadable": [damaged], "cursor": None},
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
    await expect(run.get_by_text("1 of 2: 1 done, 0 refused")).to_be_visible()
    assert asked == [None]
    await run.get_by_role("button", name="Go on").click()
    await expect(run.get_by_role("alert")).to_contain_text("Interrupted: not reachable.")
    console.complaints.clear()
    await run.get_by_role("button", name="Go on").click()
    await expect(run.get_by_role("alert")).to_contain_text("Finished.2 done")
    await expect(run.get_by_text("stop-3|task")).to_be_visible()
    assert asked == [None, "next", "next"]


def _done(task: str) -> dict[str, object]:
    return {"id": task, "epoch": 2, "state": "Pending", "direction": "do"}


_REFUSED = "drone: drone answered 422"


async def _refused_deliveries(bench: Bench, *tasks: str) -> None:
    """Bring deliveries into `Error` for one cause."""
    for task in tasks:
        bench.remote.script(f"{task}/drone/do", Behaviour.REFUSES)
        await submit(bench, task)
        await bench.until_state(task, "Error")


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
    await _refused_deliveries(bench, "cause-1", "cause-2")
    await console.open("#/tasks")
    await _follow_cause(console.page, "cause-1", "cause-2")


async def test_causes_and_filters_fit_a_phone(bench: Bench, phone: Console) -> None:
    """At 390 pixels, no page is wider than the window."""
    await _refused_deliveries(bench, "small-cause")
    await phone.open("#/tasks")
    await _follow_cause(phone.page, "small-cause")
    assert await phone.overflow() <= 0
    await phone.open("#/errors")
    await expect(_cause(phone.page)).to_be_visible()
    assert await phone.overflow() <= 0


async def test_task_is_found_by_a_text_of_its_own_with_the_keyboard(bench: Bench, console: Console) -> None:
    """In any state, as none was chosen, and however the text is typed."""
    await bench.submit("heavy", "approvals", {"weight": 471_100})
    await bench.until_state("heavy", "Pending")
    await console.open("#/tasks")
    page = console.page
    await page.get_by_label("Id begins with").focus()
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
    await expect(page.get_by_text("No such task.")).to_be_visible()


async def test_list_says_how_far_back_it_has_looked(console: Console) -> None:
    """Also when nothing was found so far; the next request goes on there."""
    looked = {"tasks": [], "cursor": "abc", "looked_to": "2026-11-21T09:59:00Z", "more": False}
    await console.answer("tasks?*", looked | {"unreadable": []})
    await console.open("#/tasks?state=Processed&step=drone")
    await expect(console.page.get_by_text("None so far; the list goes on.")).to_be_visible()
    await expect(console.page.get_by_text("Looked from now back to 21 Nov 2026")).to_be_visible()
    further = console.page.get_by_role("link", name="Look further")
    await expect(further).to_have_attribute("href", "#/tasks?state=Processed&step=drone&cursor=abc")


async def test_causes_say_how_far_back_they_were_counted(console: Console) -> None:
    """More than a request reads is counted from there on."""
    cause = {"workflow": "orders", "version": 1, "step": "payment", "error": "payment: payment answered 402"}
    times = {"first_at": "2026-11-21T12:00:00Z", "last_at": "2026-11-21T12:00:02Z"}
    group = {**cause, **times, "count": 214, "example": "order-1", "filter": {"state": "Error", **cause}}
    counted = {"groups": [group], "looked_to": "2026-11-21T09:59:00.5Z", "unreadable": []}
    await console.answer("errors?*", counted)
    await console.open("#/errors?workflow=orders")
    page = console.page
    await expect(page.get_by_role("link", name="214 \u00d7 payment: payment answered 402")).to_be_visible()
    await expect(page.get_by_text("Looked back to 21 Nov 2026")).to_be_visible()
    address = "#/errors?workflow=orders&before=2026-11-21T09%3A59%3A00.5Z"
    await expect(page.get_by_role("link", name="Further back")).to_have_attribute("href", address)
