"""What an operator does in the console: find what is stuck, see why, put it right."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from tests.e2e.console.bench import Console
from tests.e2e.fleet.bench import submit
from tests.e2e.recovery.bench import Bench
from tests.e2e.recovery.remote import Turn

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="session")]


async def _refused(bench: Bench, task: str) -> None:
    """Have a delivery in `Error`: no drone, until somebody asks again."""
    bench.remote.script(f"{task}/drone/do", Turn.REFUSES, Turn.ANSWERS)
    await submit(bench, task)
    await bench.until_state(task, "Error")


async def _put_right(page: Page, task: str) -> None:
    """Find the task from the overview on, look at it, and resubmit it."""
    await page.get_by_role("link", name="In Error").click()
    await page.get_by_role("link", name=task, exact=True).click()
    await expect(page.get_by_role("heading", level=1, name=task)).to_be_visible()
    graph = page.get_by_role("img", name="drone: Failed")
    await expect(graph).to_contain_text("Not started")
    await expect(page.get_by_role("img", name="drone, Failed")).to_be_visible()
    await page.get_by_role("button", name="Resubmit").click()
    dialog = page.get_by_role("dialog", name=f"Resubmit {task}?")
    await expect(dialog.get_by_role("listitem")).to_have_text(["drone", "delivery"])
    await dialog.get_by_label("Reason").fill("the fleet is back")
    await dialog.get_by_role("button", name="Resubmit").click()
    await expect(dialog).to_have_count(0)
    await expect(page.get_by_text("Resubmit accepted: it goes on in epoch 2.")).to_be_visible()
    await expect(page.get_by_role("definition").filter(has_text="Processed")).to_be_visible()
    await expect(page.get_by_role("heading", name="Epoch 2")).to_be_visible()
    history = page.get_by_role("listitem").filter(has_text="resubmitted by")
    await expect(history).to_contain_text("the fleet is back")


async def test_operator_finds_an_order_in_error_and_sees_it_through(bench: Bench, console: Console) -> None:
    """From the overview to `Processed`, with graph and timeline on the way."""
    await _refused(bench, "stuck")
    await console.open()
    await _put_right(console.page, "stuck")


async def test_the_same_can_be_done_on_a_phone(bench: Bench, phone: Console) -> None:
    """390 pixels wide, where no page is wider than the window."""
    await _refused(bench, "pocket")
    await phone.open()
    assert await phone.overflow() <= 0
    await _put_right(phone.page, "pocket")
    assert await phone.overflow() <= 0
    await phone.open("#/tasks?state=Processed")
    assert await phone.overflow() <= 0


async def test_undo_tells_what_it_undoes_and_does_it(bench: Bench, console: Console) -> None:
    """In the reverse order of dispatch; then the task is `Compensated`."""
    await _refused(bench, "unwanted")
    await console.open("#/tasks/unwanted")
    await console.page.get_by_role("button", name="Undo").click()
    dialog = console.page.get_by_role("dialog")
    await expect(dialog).to_contain_text("An undo is final")
    await expect(dialog.get_by_role("listitem")).to_have_text(["drone", "package"])
    await dialog.get_by_label("Reason").fill("the customer cancelled")
    await dialog.get_by_role("button", name="Undo").click()
    await expect(console.page.get_by_role("definition").filter(has_text="Compensated")).to_be_visible()
    await expect(console.page.get_by_role("img", name="package, Undone")).to_be_visible()
    assert bench.remote.effects("unwanted")[-2:] == ["drone/undo", "package/undo"]


async def test_operator_who_comes_second_is_told(bench: Bench, console: Console) -> None:
    """409 is explained, and the dialog stays until it is read."""
    await _refused(bench, "contested")
    await console.open("#/tasks/contested")
    await console.page.get_by_role("button", name="Resubmit").click()
    dialog = console.page.get_by_role("dialog")
    await dialog.get_by_label("Reason").fill("mine")
    await bench.act("contested", "undo")
    await dialog.get_by_role("button", name="Resubmit").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("Not done: the task has changed.")
    await dialog.get_by_role("button", name="Close").click()
    await expect(console.page.get_by_role("definition").filter(has_text="Compensated")).to_be_visible()
    console.complaints.clear()  # Chromium calls every refusal an error


async def test_acceptance_is_said_no_longer_than_it_is_true(bench: Bench, console: Console) -> None:
    """A task that came back into `Error` does not "go on"."""
    bench.remote.script("again/drone/do", Turn.REFUSES, Turn.REFUSES)
    await submit(bench, "again")
    await bench.until_state("again", "Error")
    await console.open("#/tasks/again")
    page = console.page
    await page.get_by_role("button", name="Resubmit").click()
    await page.get_by_role("dialog").get_by_label("Reason").fill("too early")
    await page.get_by_role("dialog").get_by_role("button", name="Resubmit").click()
    await expect(page.get_by_role("heading", name="Epoch 2")).to_be_visible()
    await expect(page.get_by_role("definition").filter(has_text="Error")).to_be_visible()
    await expect(page.get_by_text("it goes on in epoch 2")).to_have_count(0)


async def test_question_does_not_outlive_its_task_on_the_screen(bench: Bench, console: Console) -> None:
    """Going back closes the dialog, so that nobody resubmits what is not to be seen any more."""
    await _refused(bench, "left")
    await console.open()
    await console.open("#/tasks/left")
    await console.page.get_by_role("button", name="Undo").click()
    await expect(console.page.get_by_role("dialog")).to_be_visible()
    await console.page.go_back()
    await expect(console.page.get_by_role("heading", level=1, name="Overview")).to_be_visible()
    await expect(console.page.get_by_role("dialog")).to_have_count(0)


async def test_recovery_is_seen_on_the_timeline(bench: Bench, console: Console) -> None:
    """Each epoch with its steps and their complete-by times; and where the Supervisor took the task."""
    bench.remote.script("lost/drone/do", Turn.HANGS, Turn.ANSWERS)
    await submit(bench, "lost")
    await bench.until_state("lost", "Processed")
    await console.open("#/tasks/lost")
    first, second = (console.page.locator(".epoch").filter(has_text=f"Epoch {number}") for number in (1, 2))
    await expect(first.get_by_role("img", name="drone, Running, no outcome")).to_be_visible()
    await expect(first).to_contain_text("recovered by supervisor")
    await expect(first.locator(".complete-by")).to_have_count(4)
    await expect(first.locator(".taken")).to_have_count(1)
    await expect(second.get_by_role("img", name="drone, Completed")).to_be_visible()
    await expect(second.locator(".taken")).to_have_count(0)
    await expect(console.page.locator(".history")).to_contain_text("recovered by supervisor")


async def test_all_can_be_done_by_keyboard(bench: Bench, console: Console) -> None:
    """From the skip link to the dialog and back, with the focus always to be seen."""
    await _refused(bench, "keys")
    await console.open()
    page = console.page
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    await page.keyboard.press("Enter")
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="In Error")).to_be_focused()
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert await page.evaluate(outline) == "solid"
    await page.keyboard.press("Enter")
    await _tab_to(page, "keys")
    await page.keyboard.press("Enter")
    await _tab_to(page, "Resubmit…")
    await page.keyboard.press("Enter")
    await page.keyboard.type("by hand")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(page.get_by_role("button", name="Resubmit")).to_be_focused()
    await page.keyboard.press("Enter")
    await page.keyboard.type("by hand")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("definition").filter(has_text="Processed")).to_be_visible()


async def _tab_to(page: Page, text: str) -> None:
    """Press the tabulator until what has this text has the focus."""
    await page.get_by_text(text, exact=True).last.wait_for()
    for _ in range(30):
        await page.keyboard.press("Tab")
        if await page.evaluate("document.activeElement.textContent") == text:
            return
    raise AssertionError(f"the keyboard never gets to {text}")


async def test_list_is_narrowed_by_its_filters(bench: Bench, console: Console) -> None:
    """Each change is an address of its own, so that going back works."""
    await _refused(bench, "sought-1")
    await submit(bench, "sought-2")
    await bench.until_state("sought-2", "Processed")
    await console.open("#/tasks")
    page = console.page
    lines = page.get_by_role("list", name="Tasks").get_by_role("link")
    await page.get_by_label("Id begins with").fill("sought")
    await page.get_by_label("State").select_option("Processed")
    await expect(lines).to_have_text(["sought-2"])
    await page.go_back()
    await expect(page.get_by_role("link", name="sought-1")).to_be_visible()
    await page.get_by_label("Age").select_option("1 day or more")
    await expect(page.get_by_text("No such task.")).to_be_visible()
