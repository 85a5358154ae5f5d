"""Messages that were rejected: an operator sees why, and has one sent again."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient
from playwright.async_api import Route, expect

from tests.e2e.console.bench import Bench, Console
from tests.e2e.console.test_page import EVIL

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="session")]

#: An order without an id.
_POISON = json.dumps({"workflow": "orders", "payload": {}}).encode()
_AT = "2026-11-21T12:00:00Z"


def _id(number: int) -> str:
    return f"{number:018d}-{number:064x}"


def _message(number: int, **more: Any) -> dict[str, Any]:
    never = {"resends": 0, "resent_by": None, "resent_why": None, "resent_at": None, "discarded_at": None}
    return {
        "id": _id(number),
        "queue": "submissions/$DeadLetterQueue",
        "message_id": f"order-{number}",
        "size": 412,
        "whole": True,
        "reason": EVIL,
        "rejected_at": _AT,
        **never,
        **more,
    }


def _list(*messages: dict[str, Any], more: bool = False) -> dict[str, Any]:
    return {"messages": messages, "more": more}


async def _resent_as(bench: Bench, name: str) -> str:
    """Wait until a message was sent again, and return its new id."""
    async with asyncio.timeout(120):
        while True:
            async with bench.session.get("/api/ops/rejected") as answer:
                messages = (await answer.json())["messages"]
            for message in messages:
                if message["message_id"] == name and message["resent_as"] is not None:
                    return str(message["resent_as"])
            await asyncio.sleep(0.1)


async def test_rejected_message_goes_to_its_queue_again(bench: Bench, console: Console) -> None:
    """It is rejected again, under its new id, because its fault remains."""
    connection = bench.platform.addresses.service_bus_connection
    async with (
        ServiceBusClient.from_connection_string(connection) as client,
        client.get_queue_sender("submissions") as sender,
    ):
        await sender.send_messages(ServiceBusMessage(_POISON, message_id="poison"))
    await console.open("#/rejected")
    page = console.page
    await page.get_by_role("button", name="Resend poison…").click()
    await page.get_by_role("dialog").get_by_label("Reason").fill("try again")
    await page.get_by_role("dialog").get_by_role("button", name="Resend").click()
    again = await _resent_as(bench, "poison")
    first, second = (page.get_by_text(name, exact=True) for name in ("poison", again))
    await expect(second).to_be_visible()
    line = page.get_by_role("listitem").filter(has=first)
    await expect(line).to_contain_text("Sent again once, last")
    await expect(line).to_contain_text("by operator: try again")
    await page.get_by_role("link", name=again).click()
    await expect(page.get_by_role("heading", name="Rejected message")).to_be_visible()
    await expect(page.get_by_label("Body", exact=True)).to_have_text(_POISON.decode())
    await page.get_by_role("link", name="submissions").first.click()
    await expect(page.get_by_role("heading", name="submissions: 2")).to_be_visible()
    await expect(second).to_be_visible()


async def test_task_leads_to_its_rejected_messages(bench: Bench, phone: Console) -> None:
    """On a phone, with the step and the reason of each."""
    content = await bench.refuse("misread") | {"rejected": [_message(1, step="payment")]}
    await phone.answer("tasks/misread", content)
    await phone.answer("rejected?*", _list(_message(1)))
    await phone.open("#/tasks/misread")
    row = phone.page.get_by_role("row").filter(has_text="order-1")
    await expect(row).to_contain_text("payment")
    await expect(row).to_contain_text(EVIL)
    assert await phone.overflow() <= 0
    await phone.page.get_by_role("link", name="Send them again").click()
    await expect(phone.page.get_by_role("listitem").filter(has_text="order-1")).to_be_visible()


@pytest.mark.parametrize(
    ("body", "more", "text"),
    [
        (EVIL, False, EVIL),
        ("", False, "The body is empty."),
        (None, False, "It is no text, or a secret."),
        ("{", True, "{… (only the beginning is shown)"),
    ],
    ids=["text", "empty", "no text", "more"],
)
async def test_body_of_a_message_is_shown(phone: Console, body: str | None, text: str, *, more: bool) -> None:
    """As text, on a phone too; from there it can be sent again."""
    await phone.answer("rejected?*", _list(_message(1)))
    await phone.answer(f"rejected/{_id(1)}", _message(1, body=body, more=more, why=text))
    await phone.open("#/rejected")
    page = phone.page
    await page.get_by_role("link", name="order-1").click()
    await expect(page.get_by_label("Body", exact=True)).to_have_text(text)
    await expect(page.get_by_role("button", name="Resend order-1…")).to_be_visible()
    assert await phone.overflow() <= 0
    assert await page.evaluate("window.broken") is None


async def test_message_that_is_not_whole_is_not_offered(console: Console) -> None:
    """It says so; what the interface refuses is shown in the dialog."""
    refusal = {"status": 409, "title": "Conflict", "detail": "It was deleted meanwhile."}

    async def refuse(route: Route) -> None:
        await route.fulfill(status=409, json=refusal, content_type="application/problem+json")

    await console.page.route("**/api/ops/rejected/*/resend", refuse)
    await console.answer("rejected?*", _list(_message(1, whole=False), _message(2), more=True))
    await console.open("#/rejected")
    page = console.page
    line = page.get_by_role("listitem").filter(has_text="order-1")
    await expect(line).to_contain_text("Only the beginning is kept")
    buttons = page.locator(".message").get_by_role("button")
    await expect(buttons).to_have_text(["Discard…", "Resend…", "Discard…"])
    await expect(page.get_by_role("link", name="Next page")).to_be_visible()
    await page.get_by_role("button", name="Resend order-2…").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Reason").fill("again")
    await dialog.get_by_role("button", name="Resend").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("It was deleted meanwhile.")
    console.complaints.clear()  # Chromium reports every 4xx as an error


async def _reject(bench: Bench, *names: str) -> None:
    """Have messages rejected, and wait until they are."""
    connection = bench.platform.addresses.service_bus_connection
    async with (
        ServiceBusClient.from_connection_string(connection) as client,
        client.get_queue_sender("scheduler-requests") as sender,
    ):
        for name in names:
            await sender.send_messages(ServiceBusMessage(json.dumps({"of": name}), message_id=name))
    await bench.until_empty("scheduler-requests")


async def test_operator_discards_a_message(bench: Bench, console: Console, phone: Console) -> None:
    """By keyboard, on a phone too; who did it and why is listed, the message is not."""
    await _reject(bench, "junk-1", "junk-2")
    for name, each in (("junk-1", console), ("junk-2", phone)):
        await each.open("#/rejected?queue=scheduler-requests")
        page = each.page
        await each.tab_to(page.get_by_role("button", name=f"Discard {name}…"))
        await page.keyboard.press("Enter")
        dialog = page.get_by_role("dialog", name=f"Discard {name}?")
        await expect(dialog).to_contain_text("Its body is deleted")
        assert await each.overflow() <= 0
        await page.keyboard.type("a test")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await expect(page.locator("#answer")).to_have_text(f"Discarded: {name}.")
        await expect(page.get_by_role("link", name=name)).to_have_count(0)
        await page.get_by_role("link", name="Discarded").click()
        line = page.get_by_role("listitem").filter(has_text=name)
        await expect(line).to_contain_text("by operator: a test")
        await expect(line.get_by_role("button")).to_have_count(0)
        assert await each.overflow() <= 0


async def test_many_are_discarded_in_turn(console: Console) -> None:
    """The page asks again while some are left, and shows how far it is; later messages stay."""
    asked: list[Any] = []
    left = [True, True, False]

    async def discard(route: Route) -> None:
        asked.append(route.request.post_data_json)
        await route.fulfill(status=202, json={"discarded": 100, "left": left[len(asked) - 1]})

    await console.page.route("**/api/ops/rejected/discard", discard)
    await console.answer("rejected?*", _list(_message(1), _message(2), more=True))
    await console.open("#/rejected")
    await console.page.get_by_role("button", name="Discard all…").click()
    dialog = console.page.get_by_role("dialog", name="Discard 2+ messages?")
    await dialog.get_by_label("Reason").fill("a test")
    await dialog.get_by_role("button", name="Discard all").click()
    await expect(console.page.locator("#answer")).to_have_text("Discarded: 300 messages.")
    assert asked == [{"reason": "a test", "queue": None, "until": _AT}] * 3


async def test_figures_of_the_supervisor_are_explained_in_place(phone: Console) -> None:
    """By keyboard; what was opened stays open while the page is renewed."""
    await phone.open()
    page = phone.page
    summary = page.get_by_text("Meaning of these figures")
    await summary.focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("Overdue tasks whose next epoch began")).to_be_visible()
    async with page.expect_response("**/api/ops/overview"):
        pass
    await expect(page.get_by_text("Overdue tasks whose next epoch began")).to_be_visible()
    await expect(summary).to_be_focused()
    assert await phone.overflow() <= 0
