"""What only an operator can find out: whether a step was done whose outcome is unknown."""

from __future__ import annotations

import json

import pytest
from playwright.async_api import Locator, Page, expect

from tests.e2e.console.bench import Console
from tests.e2e.fleet.bench import PARCEL
from tests.e2e.recovery.bench import Bench
from tests.e2e.recovery.remote import Behaviour

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="session")]

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
