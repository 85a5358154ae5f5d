"""An operator finds a task in the console, sees why it is stuck, and repairs it."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

import pytest
from playwright.async_api import Locator, Page, expect

from tests.e2e.console.bench import Bench, Console
from tests.e2e.recovery.bench import step
from tests.e2e.recovery.remote import Behaviour

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="session")]


async def _refused(bench: Bench, task: str) -> None:
    await bench.refuse(task, Behaviour.ANSWERS)


async def _resubmit(page: Page, task: str) -> None:
    """Find the task from the overview, open it, and resubmit it."""
    await page.get_by_role("link", name="In Error").click()
    await page.get_by_role("link", name=task, exact=True).click()
    await expect(page.get_by_role("heading", level=1, name=task)).to_be_visible()
    graph = page.get_by_role("img", name="drone: Refused")
    await expect(graph).to_contain_text("Not started")
    await expect(page.get_by_role("img", name="drone, refused")).to_be_visible()
    await page.get_by_role("button", name="Resubmit").click()
    dialog = page.get_by_role("dialog", name=f"Resubmit {task}?")
    await expect(dialog.get_by_role("listitem")).to_have_text(["drone", "delivery"])
    await dialog.get_by_label("Reason").fill("the fleet is back")
    await dialog.get_by_role("button", name="Resubmit").click()
    await expect(dialog).to_have_count(0)
    await expect(page.get_by_text("Resubmit accepted: the task continues in epoch 2.")).to_be_visible()
    await expect(page.get_by_role("definition").filter(has_text="Processed")).to_be_visible()
    await expect(page.get_by_role("img", name="drone, refused, done")).to_be_visible()
    history = page.get_by_role("listitem").filter(has_text="resubmitted by")
    await expect(history).to_contain_text("the fleet is back")


async def test_operator_finds_a_task_in_error_and_resubmits_it(bench: Bench, console: Console) -> None:
    """From the overview to `Processed`, by way of graph and timeline."""
    await _refused(bench, "stuck")
    await console.open()
    await _resubmit(console.page, "stuck")


async def test_acceptance_is_shown_only_while_it_is_true(bench: Bench, console: Console) -> None:
    """A task that is in `Error` again does not continue."""
    await bench.refuse("again", Behaviour.REFUSES)
    await console.open("#/tasks/again")
    page = console.page
    await console.act("Resubmit", "too early")
    await expect(page.get_by_role("img", name="drone, refused, refused")).to_be_visible()
    await expect(page.get_by_role("definition").filter(has_text="Error")).to_be_visible()
    await expect(page.get_by_text("continues in epoch 2")).to_have_count(0)


async def test_recovery_is_shown_on_the_timeline(bench: Bench, console: Console) -> None:
    """Each attempt of the step, and the end of the epoch."""
    bench.remote.script("lost/drone/do", Behaviour.HANGS, Behaviour.ANSWERS)
    await bench.submit("lost")
    await bench.until_state("lost", "Processed")
    await console.open("#/tasks/lost")
    row = console.page.get_by_role("img", name=re.compile("^drone, (unknown|no outcome), done$"))
    await expect(row.locator(".bar.lost")).to_have_count(1)
    await expect(row.locator(".bar.done")).to_have_count(1)
    await expect(row.locator(".ended")).to_have_count(1)
    await expect(console.page.locator(".history")).to_contain_text("recovered by supervisor")


async def _approval(bench: Bench, task: str) -> None:
    await bench.submit(task, "approvals", {"weight": 3})
    await bench.until_state(task, "Pending")


async def test_reader_has_no_buttons_for_actions(bench: Bench, console: Console) -> None:
    """The task and the list are shown."""
    await _approval(bench, "looked-at")
    await console.answer("me", {"name": "anna", "roles": ["Reader"]})
    await console.open("#/tasks/looked-at")
    page = console.page
    await expect(page.get_by_role("region", name="Waits for an event")).to_be_visible()
    await expect(page.get_by_role("button", name="Suspend…")).to_be_hidden()
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
    await expect(dialog).to_contain_text("a later undo of the task undoes drone, too")
    result, alert = dialog.get_by_label("Result of drone"), dialog.get_by_role("alert")
    await dialog.get_by_role("button", name="Skip drone").click()
    await expect(dialog.get_by_label("Reason")).to_be_focused()
    await dialog.get_by_label("Reason").fill("carried there")
    for wrong, why in (("{oops", "This is not JSON"), ("[1]", "This must be a JSON object")):
        await result.fill(wrong)
        await dialog.get_by_role("button", name="Skip drone").click()
        await expect(alert).to_contain_text(why)
        await expect(result).to_be_focused()
    await result.fill('{"by": "hand"}')
    await dialog.get_by_role("button", name="Skip drone").click()
    await expect(page.get_by_role("definition").filter(has_text="Processed")).to_be_visible()
    history = page.get_by_role("listitem").filter(has_text="answered by operator")
    await expect(history).to_contain_text("carried there")
    assert bench.remote.called("skips/drone/do") == 1


async def test_skip_names_the_effects_that_an_undo_does_not_cover(bench: Bench, console: Console) -> None:
    """A defect stopped the step before its service was asked: what is done by hand is not undone."""
    await bench.submit("unsealed", "seals", {"weight": 3})
    await bench.until_state("unsealed", "Error")
    await console.open("#/tasks/unsealed")
    await console.page.get_by_role("button", name="Skip seal…").click()
    dialog = console.page.get_by_role("dialog", name="Skip seal?")
    await expect(dialog).to_contain_text("a later undo of the task does not undo work that you did for seal")
    await expect(dialog).not_to_contain_text("It was dispatched")


async def test_cancel_of_what_waits_does_not_say_that_the_wait_stays(bench: Bench, console: Console) -> None:
    """Nothing is done by waiting, so nothing of it can be left."""
    await _approval(bench, "called-off")
    await console.open("#/tasks/called-off")
    await console.page.get_by_role("button", name="Cancel task…").click()
    dialog = console.page.get_by_role("dialog", name="Cancel called-off?")
    await expect(dialog).to_contain_text("becomes Compensated at once")
    await expect(dialog).not_to_contain_text("stay as they are")


async def test_event_is_sent_with_each_fault_of_its_model_shown(bench: Bench, console: Console) -> None:
    """Its sender and the reason are shown with the step."""
    await _approval(bench, "told")
    await console.open("#/tasks/told")
    page = console.page
    await page.get_by_role("button", name="Send the event of approve…").click()
    dialog = page.get_by_role("dialog", name="Send the event of approve")
    await expect(dialog).to_contain_text("You need the role Operator")
    await expect(dialog.get_by_label("JSON Schema")).to_contain_text('"approved"')
    await dialog.get_by_label("Event of approve").fill('{"by": "me"}')
    await dialog.get_by_label("Reason").fill("by telephone")
    await dialog.get_by_role("button", name="Send the event of approve").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("approved: Field required")
    await dialog.get_by_label("Event of approve").fill('{"approved": true}')
    await dialog.get_by_role("button", name="Send the event of approve").click()
    await expect(page.get_by_text("Event accepted: approve has ended.")).to_be_visible()
    await expect(page.get_by_role("definition").filter(has_text="Processed")).to_be_visible()
    await expect(page.get_by_role("cell").filter(has_text="event by operator: by telephone")).to_be_visible()
    found = await bench.look_at("told")
    assert found is not None
    assert step(found, "approve")["event_by"] == "operator: by telephone"
    console.complaints.clear()  # Chromium reports every 4xx as an error


_QUESTION = "account: its outcome is unknown"


async def _in_question(bench: Bench, task: str, behaviour: Behaviour) -> None:
    """Bring a booking into `Error`: the outcome of its charge is unknown."""
    bench.remote.script(f"{task}/account/do", behaviour, Behaviour.ANSWERS)
    await bench.submit(task, "bookings")
    await bench.until_state(task, "Error")


async def _opened(page: Page, answer: str) -> Locator:
    await page.get_by_role("group", name="account").get_by_role("button", name=answer).click()
    return page.get_by_role("dialog", name=f"account: {answer.lower()}")


async def test_operator_says_that_it_was_done_and_gives_the_result(bench: Bench, console: Console) -> None:
    """The task continues after the step, which has one effect."""
    await _in_question(bench, "paid", Behaviour.FORGETS)
    await console.open("#/tasks/paid")
    page = console.page
    await expect(page.get_by_role("region", name="Was it done?")).to_contain_text(_QUESTION)
    await expect(page.get_by_role("button", name="Resubmit…")).to_be_disabled()
    dialog = await _opened(page, "It was done")
    await expect(dialog.get_by_role("listitem")).to_have_text(["delivery"])
    await dialog.get_by_label("Reason").fill("it is on the account's statement")
    await dialog.get_by_label("Result of account").fill('{"receipt": "R-1"}')
    await dialog.get_by_role("button", name="It was done").click()
    await expect(dialog).to_have_count(0)
    await expect(page.get_by_text("Answer accepted: the task continues in epoch 2.")).to_be_visible()
    await expect(page.get_by_role("definition").filter(has_text="Processed")).to_be_visible()
    history = page.get_by_role("listitem").filter(has_text="answered by operator")
    await expect(history).to_contain_text("it is on the account's statement")
    assert bench.remote.called("paid/account/do") == 1


async def test_large_numbers_of_a_result_are_recorded_as_they_were_written(
    bench: Bench, console: Console
) -> None:
    """A browser rounds what has more than 16 digits; a number alone is no object, however it is kept."""
    await _in_question(bench, "numbered", Behaviour.FORGETS)
    await console.open("#/tasks/numbered")
    page = console.page
    dialog = await _opened(page, "It was done")
    await dialog.get_by_label("Reason").fill("it is on the account's statement")
    result = dialog.get_by_label("Result of account")
    await result.fill("1234567890123456789")
    await dialog.get_by_role("button", name="It was done").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("This must be a JSON object")
    await result.fill('{"receipt": 1234567890123456789, "of": [0.10, -7]}')
    await dialog.get_by_role("button", name="It was done").click()
    await bench.until_state("numbered", "Processed")
    async with bench.session.get("/api/ops/tasks/numbered/steps/account/contents") as answer:
        shown = (await answer.json())["result"]["text"]
    assert json.loads(shown) == {"receipt": 1234567890123456789, "of": [0.1, -7]}


async def test_request_of_a_refused_step_is_rebuilt(bench: Bench, console: Console) -> None:
    """The page counts the rebuilt requests."""
    await _refused(bench, "rebuilt")
    await console.open("#/tasks/rebuilt")
    await console.act("Rebuild the request of drone", "the address is fixed")
    await bench.until("rebuilt", lambda task: step(task, "drone")["rebuilt"] == 1)
    await expect(console.page.get_by_role("cell").filter(has_text="request rebuilt once")).to_be_visible()


async def _undo_refused(bench: Bench, task: str) -> None:
    """Bring a delivery into `Error` because the undo of its package is refused."""
    await _refused(bench, task)
    bench.remote.script(f"{task}/package/undo", Behaviour.REFUSES)
    assert await bench.act(task, "undo") == 202
    await bench.until(task, lambda found: found["state"] == "Error" and found["direction"] == "undo")


_REASON = "found out by telephone"
_asked = partial(_in_question, behaviour=Behaviour.FORGETS)


async def _suspended(bench: Bench, task: str) -> None:
    await _approval(bench, task)
    assert await bench.act(task, "suspend") == 202


@dataclass(frozen=True, slots=True)
class _Action:
    """A button, what comes before it, what its dialog takes before the reason, and the state in the end."""

    button: str
    before: Callable[[Bench, str], Awaitable[None]]
    after: str
    content: str | None = None


_ACTIONS = {
    "resubmit": _Action("Resubmit…", _refused, "Processed"),
    "undo": _Action("Undo…", _refused, "Compensated"),
    "cancel": _Action("Cancel task…", _approval, "Compensated"),
    "suspend": _Action("Suspend…", _approval, "Pending"),
    "resume": _Action("Resume…", _suspended, "Pending"),
    "skip": _Action("Skip drone…", _refused, "Processed", '{"by": "hand"}'),
    "done": _Action(
        "account: It was done…",
        _asked,
        "Processed",
        '{"receipt": "R-1"}',
    ),
    "not-done": _Action("account: It was not done…", _asked, "Processed"),
    "undone": _Action("package: Undone by hand…", _undo_refused, "Compensated"),
    "leave": _Action("package: Leave it…", _undo_refused, "Compensated"),
    "event": _Action("Send the event of approve…", _approval, "Processed", '{"approved": true}'),
}


@pytest.mark.parametrize("name", _ACTIONS)
async def test_action_is_done_by_keyboard_alone(bench: Bench, tab: Console, name: str) -> None:
    """From the button into the dialog, out of it, and in again; the task then reaches its state."""
    action, task = _ACTIONS[name], f"{name}-{tab.width}"
    await action.before(bench, task)
    await tab.open(f"#/tasks/{task}")
    page, keyboard = tab.page, tab.page.keyboard
    button, dialog = page.get_by_role("button", name=action.button, exact=True), page.get_by_role("dialog")
    await tab.tab_to(button)
    await keyboard.press("Enter")
    await expect(dialog).to_be_visible()
    assert await tab.overflow() <= 0
    await keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    await expect(button).to_be_focused()
    await keyboard.press("Enter")
    if action.content is not None:
        await keyboard.press("ControlOrMeta+a")
        await keyboard.type(action.content)
        await keyboard.press("Tab")
    await keyboard.type(_REASON)
    await keyboard.press("Tab")
    await keyboard.press("Enter")
    await expect(dialog).to_have_count(0)
    await bench.until_state(task, action.after)
    assert await tab.overflow() <= 0
