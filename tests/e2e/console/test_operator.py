"""What an operator does in the console: find the task that is stuck, see why, and fix it."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from tests.e2e.console.bench import Console
from tests.e2e.fleet.bench import submit
from tests.e2e.recovery.bench import Bench
from tests.e2e.recovery.remote import Behaviour

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="session")]


async def _refused(bench: Bench, task: str) -> None:
    """Bring a delivery into `Error`: its drone is refused once, and confirmed at the next attempt."""
    bench.remote.script(f"{task}/drone/do", Behaviour.REFUSES, Behaviour.ANSWERS)
    await submit(bench, task)
    await bench.until_state(task, "Error")


async def _resubmit(page: Page, task: str) -> None:
    """Find the task from the overview, open it, and resubmit it."""
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


async def test_operator_finds_a_task_in_error_and_resubmits_it(bench: Bench, console: Console) -> None:
    """From the overview to `Processed`, by way of graph and timeline."""
    await _refused(bench, "stuck")
    await console.open()
    await _resubmit(console.page, "stuck")


async def test_the_same_can_be_done_on_a_phone(bench: Bench, phone: Console) -> None:
    """At 390 pixels, no page is wider than the window."""
    await _refused(bench, "pocket")
    await phone.open()
    assert await phone.overflow() <= 0
    await _resubmit(phone.page, "pocket")
    assert await phone.overflow() <= 0
    await phone.open("#/tasks?state=Processed")
    assert await phone.overflow() <= 0


async def test_undo_lists_the_steps_and_undoes_them(bench: Bench, console: Console) -> None:
    """It lists the steps in reverse order of dispatch; then the task is `Compensated`."""
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


async def test_second_of_two_operators_is_refused_with_the_reason(bench: Bench, console: Console) -> None:
    """The 409 is explained, and the dialog stays open until the operator closes it."""
    await _refused(bench, "contested")
    await console.open("#/tasks/contested")
    await console.page.get_by_role("button", name="Resubmit").click()
    dialog = console.page.get_by_role("dialog")
    await dialog.get_by_label("Reason").fill("mine")
    await bench.act("contested", "undo")
    await dialog.get_by_role("button", name="Resubmit").click()
    told = "Not done.The task is in epoch 2 now, and not in epoch 1."
    await expect(dialog.get_by_role("alert")).to_contain_text(told)
    await dialog.get_by_role("button", name="Close").click()
    await expect(console.page.get_by_role("definition").filter(has_text="Compensated")).to_be_visible()
    console.complaints.clear()  # Chromium reports every 4xx as an error


async def test_acceptance_is_shown_only_while_it_is_true(bench: Bench, console: Console) -> None:
    """A task that is in `Error` again does not "go on"."""
    bench.remote.script("again/drone/do", Behaviour.REFUSES, Behaviour.REFUSES)
    await submit(bench, "again")
    await bench.until_state("again", "Error")
    await console.open("#/tasks/again")
    page = console.page
    await console.act("Resubmit", "too early")
    await expect(page.get_by_role("heading", name="Epoch 2")).to_be_visible()
    await expect(page.get_by_role("definition").filter(has_text="Error")).to_be_visible()
    await expect(page.get_by_text("it goes on in epoch 2")).to_have_count(0)


async def test_dialog_closes_when_its_task_is_left(bench: Bench, console: Console) -> None:
    """Going back closes the dialog, so that nobody acts on a task that is no longer shown."""
    await _refused(bench, "left")
    await console.open()
    await console.open("#/tasks/left")
    await console.page.get_by_role("button", name="Undo").click()
    await expect(console.page.get_by_role("dialog")).to_be_visible()
    await console.page.go_back()
    await expect(console.page.get_by_role("heading", level=1, name="Overview")).to_be_visible()
    await expect(console.page.get_by_role("dialog")).to_have_count(0)


async def test_recovery_is_shown_on_the_timeline(bench: Bench, console: Console) -> None:
    """Each epoch with its steps and their complete-by times, and the time of the recovery."""
    bench.remote.script("lost/drone/do", Behaviour.HANGS, Behaviour.ANSWERS)
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


async def test_everything_can_be_done_by_keyboard(bench: Bench, console: Console) -> None:
    """From the skip link to the dialog and back, with the focus always visible."""
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
    await console.tab_to(page.get_by_role("link", name="keys", exact=True))
    await page.keyboard.press("Enter")
    await console.tab_to(page.get_by_role("button", name="Resubmit…"))
    await page.keyboard.press("Enter")
    await page.keyboard.type("by hand")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("definition").filter(has_text="Processed")).to_be_visible()


async def test_filters_narrow_the_list(bench: Bench, console: Console) -> None:
    """Each change has its own address, so that going back works."""
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
    await page.get_by_label("Id begins with").fill("sought")  # other tests' tasks are of any age
    await page.get_by_label("Age").select_option("1 day or more")
    await expect(page.get_by_text("No such task.")).to_be_visible()
