"""An operator finds a task in the console, sees why it is stuck, and repairs it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

import pytest
from playwright.async_api import Locator, Page, expect

from tests.e2e.console.bench import Console
from tests.e2e.fleet.bench import PARCEL, submit
from tests.e2e.recovery.bench import Bench, events, step
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


async def _approval(bench: Bench, task: str) -> None:
    await bench.submit(task, "approvals", {"weight": 3})
    await bench.until_state(task, "Pending")


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


_QUESTION = "account: its outcome is unknown, and it must not run twice"


async def _in_question(bench: Bench, task: str, behaviour: Behaviour) -> None:
    """Bring a booking into `Error`: nobody knows whether its account was charged."""
    bench.remote.script(f"{task}/account/do", behaviour, Behaviour.ANSWERS)
    await bench.submit(task, "bookings", PARCEL)
    await bench.until_state(task, "Error")


async def _opened(page: Page, answer: str) -> Locator:
    await page.get_by_role("group", name="account").get_by_role("button", name=answer).click()
    return page.get_by_role("dialog", name=f"account: {answer.lower()}")


async def test_operator_says_that_it_was_done_and_gives_the_result(bench: Bench, console: Console) -> None:
    """Only JSON is sent; the task goes on after the step, which has one effect."""
    await _in_question(bench, "paid", Behaviour.FORGETS)
    await console.open("#/tasks/paid")
    page = console.page
    await expect(page.get_by_role("region", name="Was it done?")).to_contain_text(_QUESTION)
    await expect(page.get_by_role("button", name="Resubmit…")).to_be_disabled()
    dialog = await _opened(page, "It was done")
    await expect(dialog.get_by_role("listitem")).to_have_text(["delivery"])
    await dialog.get_by_label("Reason").fill("it is on the account's statement")
    result, alert = dialog.get_by_label("Result of account"), dialog.get_by_role("alert")
    for wrong, why in (("{oops", "This is not JSON"), ("[1]", "This must be a JSON object")):
        await result.fill(wrong)
        await dialog.get_by_role("button", name="It was done").click()
        await expect(alert).to_contain_text(why)
        await expect(result).to_be_focused()
    await result.fill('{"receipt": "R-1"}')
    await dialog.get_by_role("button", name="It was done").click()
    await expect(dialog).to_have_count(0)
    await expect(page.get_by_text("Answer accepted: it goes on in epoch 2.")).to_be_visible()
    await expect(page.get_by_role("definition").filter(has_text="Processed")).to_be_visible()
    history = page.get_by_role("listitem").filter(has_text="found done by operator")
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


async def test_operator_says_that_it_was_not_done(bench: Bench, phone: Console) -> None:
    """On a phone; it is run once more, for the first time in effect."""
    await _in_question(bench, "unpaid", Behaviour.HANGS)
    await phone.open("#/tasks/unpaid")
    page = phone.page
    assert await phone.overflow() <= 0
    dialog = await _opened(page, "It was not done")
    await expect(dialog.get_by_role("listitem")).to_have_text(["account", "delivery"])
    await expect(dialog.get_by_label("Result of account")).to_have_count(0)
    await dialog.get_by_label("Reason").fill("nothing is booked there")
    await dialog.get_by_role("button", name="It was not done").click()
    await expect(page.get_by_role("definition").filter(has_text="Processed")).to_be_visible()
    await expect(page.locator(".history")).to_contain_text("found not done by operator")
    assert bench.remote.effects("unpaid").count("account/do") == 1


async def test_answer_that_is_refused_says_why(bench: Bench, console: Console) -> None:
    """It was begun again since, and is in question again; this answer is for the start before."""
    await _in_question(bench, "answered", Behaviour.HANGS)
    await console.open("#/tasks/answered")
    page = console.page
    dialog = await _opened(page, "It was done")
    await dialog.get_by_label("Reason").fill("mine")
    bench.remote.script("answered/account/do", Behaviour.HANGS)
    assert await bench.act("answered", "steps/account/not-done") == 202
    await bench.until("answered", lambda task: task["epoch"] == 2 and task["state"] == "Error")
    await dialog.get_by_role("button", name="It was done").click()
    await expect(dialog.get_by_role("alert")).to_contain_text(
        "Not done.The task is in epoch 2 now, and not in epoch 1."
    )
    await dialog.get_by_role("button", name="Close").click()
    dialog = await _opened(page, "It was done")  # by what the page shows now
    await dialog.get_by_label("Reason").fill("mine")
    await dialog.get_by_role("button", name="It was done").click()
    await expect(page.get_by_role("definition").filter(has_text="Processed")).to_be_visible()
    console.complaints.clear()  # Chromium reports every 4xx as an error


async def test_step_that_is_known_to_be_done_is_only_asked_for_its_result(
    bench: Bench, console: Console
) -> None:
    """There is one answer to it; what would follow is shown as the interface tells it."""
    await _in_question(bench, "half-known", Behaviour.FORGETS)
    found = await bench.look_at("half-known")
    assert found is not None
    found["prospects"]["answers"][0]["not_done"] = None
    await console.answer("tasks/half-known", found)
    await console.open("#/tasks/half-known")
    group = console.page.get_by_role("group", name="account")
    await expect(group.get_by_role("button")).to_have_text(["Give its result…"])
    await expect(console.page.get_by_role("region", name="Its result is missing")).to_be_visible()


_REASON = "found out by telephone"
_asked = partial(_in_question, behaviour=Behaviour.FORGETS)


async def _parked(bench: Bench, task: str) -> None:
    await _approval(bench, task)
    assert await bench.act(task, "park") == 202


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
    "park": _Action("Park…", _approval, "Pending"),
    "unpark": _Action("Unpark…", _parked, "Pending"),
    "skip": _Action("Skip drone…", _refused, "Processed", '{"by": "hand"}'),
    "done": _Action(
        "account: It was done…",
        _asked,
        "Processed",
        '{"receipt": "R-1"}',
    ),
    "not-done": _Action("account: It was not done…", _asked, "Processed"),
    "event": _Action("Tell approve…", _approval, "Processed", '{"approved": true}'),
}


@pytest.mark.parametrize("name", _ACTIONS)
async def test_action_is_done_by_keyboard_alone(bench: Bench, tab: Console, name: str) -> None:
    """From the button into the dialog, out of it, and in again; the reason is on the page afterwards."""
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
    await expect(page.get_by_role("main").get_by_text(_REASON).first).to_be_visible()
    await bench.until_state(task, action.after)
    assert await tab.overflow() <= 0
