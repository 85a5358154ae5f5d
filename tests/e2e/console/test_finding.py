"""An operator finds tasks by what is known of them, and sees which failed for one cause."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from tests.e2e.console.bench import Console
from tests.e2e.fleet.bench import submit
from tests.e2e.recovery.bench import Bench
from tests.e2e.recovery.remote import Behaviour

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="session")]

_REFUSED = "drone: drone answered 422"


async def _refused(bench: Bench, *tasks: str) -> None:
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
    await _refused(bench, "cause-1", "cause-2")
    await console.open("#/tasks")
    await _follow_cause(console.page, "cause-1", "cause-2")


async def test_causes_and_filters_fit_a_phone(bench: Bench, phone: Console) -> None:
    """At 390 pixels, no page is wider than the window."""
    await _refused(bench, "small-cause")
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
