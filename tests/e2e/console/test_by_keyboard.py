"""Every action on a task is done with the keyboard alone: at a desktop in light, on a phone in dark."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest
from playwright.async_api import expect

from tests.e2e.console.bench import Console
from tests.e2e.fleet.bench import PARCEL, submit
from tests.e2e.recovery.bench import Bench
from tests.e2e.recovery.remote import Behaviour

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="session")]

_REASON = "found out by telephone"


async def _refused(bench: Bench, task: str) -> None:
    """Bring a delivery into `Error`: its drone is refused once."""
    bench.remote.script(f"{task}/drone/do", Behaviour.REFUSES, Behaviour.ANSWERS)
    await submit(bench, task)
    await bench.until_state(task, "Error")


async def _in_question(bench: Bench, task: str) -> None:
    """Bring a booking into `Error`: nobody knows whether its account was charged."""
    bench.remote.script(f"{task}/account/do", Behaviour.FORGETS, Behaviour.ANSWERS)
    await bench.submit(task, "bookings", PARCEL)
    await bench.until_state(task, "Error")


async def _awaiting(bench: Bench, task: str) -> None:
    await bench.submit(task, "approvals", {"weight": 3})
    await bench.until_state(task, "Pending")


async def _parked(bench: Bench, task: str) -> None:
    await _awaiting(bench, task)
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
    "cancel": _Action("Cancel task…", _awaiting, "Compensated"),
    "park": _Action("Park…", _awaiting, "Pending"),
    "unpark": _Action("Unpark…", _parked, "Pending"),
    "skip": _Action("Skip drone…", _refused, "Processed", '{"by": "hand"}'),
    "done": _Action("account: It was done…", _in_question, "Processed", '{"receipt": "R-1"}'),
    "not-done": _Action("account: It was not done…", _in_question, "Processed"),
    "event": _Action("Tell approve…", _awaiting, "Processed", '{"approved": true}'),
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
