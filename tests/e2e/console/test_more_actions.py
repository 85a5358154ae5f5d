"""What an operator does beside resubmission and undo: park, unpark, skip a step, tell an event."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.e2e.console.bench import Console
from tests.e2e.fleet.bench import PARCEL, submit
from tests.e2e.recovery.bench import Bench, events, step
from tests.e2e.recovery.remote import Behaviour

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="session")]


async def _approval(bench: Bench, task: str) -> None:
    await bench.submit(task, "approvals", {"weight": 3})
    await bench.until_state(task, "Pending")


async def _refused(bench: Bench, task: str) -> None:
    bench.remote.script(f"{task}/drone/do", Behaviour.REFUSES)
    await submit(bench, task)
    await bench.until_state(task, "Error")


async def test_parked_task_rests_until_it_is_unparked(bench: Bench, console: Console) -> None:
    """It says by whom and why; its event alone does not make it go on."""
    await _approval(bench, "rests")
    await console.open("#/tasks/rests")
    page = console.page
    await console.act("Park", "the site is closed")
    await expect(page.get_by_text("Park accepted: it is parked.")).to_be_visible()
    box = page.get_by_role("region", name="Parked")
    await expect(box).to_contain_text("the site is closed")
    await expect(box).to_contain_text("until somebody unparks it")
    await expect(page.get_by_role("button", name="Park…", exact=True)).to_have_count(0)
    assert await bench.act("rests", "unpark") == 202
    await expect(page.get_by_role("button", name="Park…", exact=True)).to_be_visible()
    found = await bench.look_at("rests")
    assert found is not None
    assert events(found) == ["submitted", "parked", "unparked"]


async def test_parked_task_is_listed_and_unparked_on_a_phone(bench: Bench, phone: Console) -> None:
    """It goes on, says who had it do so, and waits for its event again; no page is wider than the window."""
    await _approval(bench, "set-aside")
    assert await bench.act("set-aside", "park") == 202
    await phone.open("#/tasks?parked=true")
    await phone.page.get_by_role("link", name="set-aside", exact=True).click()
    await expect(phone.page.get_by_role("region", name="Parked")).to_be_visible()
    assert await phone.overflow() <= 0
    await phone.act("Unpark", "the site is open")
    await expect(phone.page.get_by_role("region", name="Waits for an event")).to_be_visible()
    await expect(phone.page.get_by_role("region", name="Parked")).to_have_count(0)
    await expect(phone.page.locator(".trouble")).to_have_text("unparked by operator: the site is open")
    assert await phone.overflow() <= 0


async def test_reader_has_no_buttons_for_actions(bench: Bench, console: Console) -> None:
    """The task and the list are shown."""
    await _approval(bench, "looked-at")
    await console.answer("me", {"name": "anna", "roles": ["Reader"]})
    await console.open("#/tasks/looked-at")
    page = console.page
    await expect(page.get_by_role("region", name="Waits for an event")).to_be_visible()
    await expect(page.get_by_role("button", name="Park…")).to_be_hidden()
    await console.open("#/tasks")
    await expect(page.get_by_role("button", name="Find")).to_be_visible()
    await expect(page.get_by_role("button", name="Act on all of these…")).to_be_hidden()


async def test_failed_step_is_skipped_with_a_result(bench: Bench, console: Console) -> None:
    """It says what runs then, and that an undo covers the step; nothing asks its service again."""
    await _refused(bench, "skips")
    await console.open("#/tasks/skips")
    page = console.page
    await page.get_by_role("button", name="Skip drone…").click()
    dialog = page.get_by_role("dialog", name="Skip drone?")
    await expect(dialog.get_by_role("listitem")).to_have_text(["delivery"])
    await expect(dialog).to_contain_text("if the task is undone later, drone is undone, too")
    await dialog.get_by_label("Result of drone").fill("[1]")
    await dialog.get_by_label("Reason").fill("carried there")
    await dialog.get_by_role("button", name="Skip drone").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("This must be a JSON object")
    await expect(dialog.get_by_label("Result of drone")).to_be_focused()
    await dialog.get_by_label("Result of drone").fill('{"by": "hand"}')
    await dialog.get_by_role("button", name="Skip drone").click()
    await expect(page.get_by_role("definition").filter(has_text="Processed")).to_be_visible()
    history = page.get_by_role("listitem").filter(has_text="result given by operator")
    await expect(history).to_contain_text("carried there")
    assert bench.remote.called("skips/drone/do") == 1


async def test_skip_of_an_event_takes_its_role(bench: Bench, console: Console) -> None:
    """The dialog says so; the local platform grants the role."""
    await bench.submit("unaudited", "audits", {"weight": 3})
    await bench.until_state("unaudited", "Error")
    await console.open("#/tasks/unaudited")
    page = console.page
    await page.get_by_role("button", name="Skip audit…").click()
    dialog = page.get_by_role("dialog", name="Skip audit?")
    await expect(dialog).to_contain_text("It takes the role Auditor")
    await dialog.get_by_label("Result of audit").fill('{"approved": true}')
    await dialog.get_by_label("Reason").fill("the auditor is ill")
    await dialog.get_by_role("button", name="Skip audit").click()
    await expect(page.get_by_role("definition").filter(has_text="Processed")).to_be_visible()


async def test_skip_says_what_an_undo_does_not_cover(bench: Bench, console: Console) -> None:
    """A defect stopped the step before its service was asked: what is done by hand is not undone."""
    await bench.submit("unsealed", "seals", {"weight": 3})
    await bench.until_state("unsealed", "Error")
    await console.open("#/tasks/unsealed")
    await console.page.get_by_role("button", name="Skip seal…").click()
    dialog = console.page.get_by_role("dialog", name="Skip seal?")
    await expect(dialog).to_contain_text("what you did in the place of seal stays")
    await expect(dialog).not_to_contain_text("It was dispatched")


async def test_cancel_of_what_waits_does_not_say_that_the_wait_stays(bench: Bench, console: Console) -> None:
    """Nothing is done by waiting, so nothing of it can be left."""
    await _approval(bench, "called-off")
    await console.open("#/tasks/called-off")
    await console.page.get_by_role("button", name="Cancel task…").click()
    dialog = console.page.get_by_role("dialog", name="Cancel called-off?")
    await expect(dialog).to_contain_text("becomes Compensated at once")
    await expect(dialog).not_to_contain_text("stay as they are")


async def test_event_is_told_with_each_fault_of_its_model_shown(bench: Bench, console: Console) -> None:
    """Who told it, and why, stands beside the step."""
    await _approval(bench, "told")
    await console.open("#/tasks/told")
    page = console.page
    await page.get_by_role("button", name="Tell approve…").click()
    dialog = page.get_by_role("dialog", name="Tell approve")
    await expect(dialog).to_contain_text("It takes the role Operator")
    await expect(dialog.get_by_label("JSON Schema")).to_contain_text('"approved"')
    await dialog.get_by_label("Event of approve").fill('{"by": "me"}')
    await dialog.get_by_label("Reason").fill("by telephone")
    await dialog.get_by_role("button", name="Tell approve").click()
    faults = dialog.get_by_role("alert").get_by_role("listitem")
    await expect(faults).to_have_text(["approved: Field required", "by: Extra inputs are not permitted"])
    await dialog.get_by_label("Event of approve").fill('{"approved": true}')
    await dialog.get_by_role("button", name="Tell approve").click()
    await expect(page.get_by_text("Event accepted: approve has it.")).to_be_visible()
    await expect(page.get_by_role("definition").filter(has_text="Processed")).to_be_visible()
    await expect(page.get_by_role("cell").filter(has_text="event by operator: by telephone")).to_be_visible()
    found = await bench.look_at("told")
    assert found is not None
    assert step(found, "approve")["told_by"] == "operator"
    console.complaints.clear()  # Chromium reports every 4xx as an error


async def test_task_is_not_parked_round_what_must_not_be_repeated(bench: Bench, console: Console) -> None:
    """The button is not there; an older view is told why."""
    bench.remote.script("booked-once/account/do", Behaviour.WAITS)
    await bench.submit("booked-once", "patient-bookings", PARCEL)
    await bench.until_called("booked-once/account/do")
    await console.open("#/tasks/booked-once")
    await expect(console.page.get_by_role("button", name="Cancel task…")).to_be_visible()
    await expect(console.page.get_by_role("button", name="Park…", exact=True)).to_have_count(0)
    assert await bench.act("booked-once", "park") == 409
    bench.remote.release("booked-once/account/do", 0)
    await bench.until_state("booked-once", "Processed")
