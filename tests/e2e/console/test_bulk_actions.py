"""Every action on all that a filter selects, by keyboard alone: what it asks for and brings about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.async_api import expect

from tests.e2e.console.bench import Console
from tests.e2e.fleet.bench import PARCEL
from tests.e2e.recovery.bench import Bench, events
from tests.e2e.recovery.remote import Behaviour

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="session")]

_REASON = "by hand"


@dataclass(frozen=True, slots=True)
class _Bulk:
    """An action that is called `verb`, on tasks in `state`, to which they come when a service `does` this.

    It leaves them in `end`, with `told` in their history after they were submitted; an event ends no epoch.
    """

    verb: str
    resource: str
    state: str
    end: str
    told: Sequence[str]
    does: tuple[str, Behaviour] | None = None
    step: str | None = None
    content: str | None = None


_REFUSED = ("drone", Behaviour.REFUSES)
_ACTIONS: Mapping[str, _Bulk] = {
    "resubmit": _Bulk("Resubmit", "errands", "Error", "Processed", ["resubmitted"], _REFUSED),
    "undo": _Bulk("Undo", "errands", "Error", "Compensated", ["undo requested"], _REFUSED),
    "cancel": _Bulk("Cancel", "approvals", "Pending", "Compensated", ["cancelled"]),
    "park": _Bulk("Park", "approvals", "Pending", "Pending", ["parked"]),
    "unpark": _Bulk("Unpark", "approvals", "Parked", "Pending", ["parked", "unparked"]),
    "skip": _Bulk(
        verb="Skip a step of",
        resource="errands",
        state="Error",
        end="Processed",
        told=["result given"],
        does=_REFUSED,
        step="drone",
        content='{"by": "hand"}',
    ),
    "done": _Bulk(
        verb="“It was done” for",
        resource="bookings",
        state="Error",
        end="Processed",
        told=["found done"],
        does=("account", Behaviour.FORGETS),
        step="account",
        content='{"receipt": "R-1"}',
    ),
    "not-done": _Bulk(
        verb="“It was not done” for",
        resource="bookings",
        state="Error",
        end="Processed",
        told=["found not done"],
        does=("account", Behaviour.HANGS),
        step="account",
    ),
    "event": _Bulk(
        verb="Tell a step of",
        resource="approvals",
        state="Pending",
        end="Processed",
        told=[],
        step="approve",
        content='{"approved": true}',
    ),
}


async def _brought(bench: Bench, bulk: _Bulk, tasks: list[str]) -> None:
    """Submit tasks, and wait until they take the action."""
    is_parked = bulk.state == "Parked"
    for task in tasks:
        if bulk.does is not None:
            step, behaviour = bulk.does
            bench.remote.script(f"{task}/{step}/do", behaviour, Behaviour.ANSWERS)
        content: Mapping[str, Any] = {"weight": 3} if bulk.resource == "approvals" else PARCEL
        await bench.submit(task, bulk.resource, content)
    for task in tasks:
        await bench.until_state(task, "Pending" if is_parked else bulk.state)
        if is_parked:
            assert await bench.act(task, "park") == 202


async def _asked(tab: Console, action: str, bulk: _Bulk) -> None:
    """Choose the action, and give all that it needs, from the field that has the focus to the last button."""
    keyboard, dialog = tab.page.keyboard, tab.page.get_by_role("dialog")
    chosen = dialog.get_by_label("Action")
    await expect(chosen).to_be_focused()
    for _ in range(await chosen.get_by_role("option").count()):
        if await chosen.input_value() == action:
            break
        await keyboard.press("ArrowDown")
    await expect(chosen).to_have_value(action)
    await expect(dialog.get_by_label("Step", exact=True)).to_have_count(0 if bulk.step is None else 1)
    for text in (bulk.step, bulk.content, _REASON):
        if text is not None:
            await keyboard.press("Tab")
            await keyboard.press("ControlOrMeta+a")
            await keyboard.type(text)
    assert await tab.overflow() <= 0
    await keyboard.press("Tab")
    await expect(dialog.get_by_role("button", name=f"{bulk.verb} 2 tasks", exact=True)).to_be_focused()
    await keyboard.press("Enter")


@pytest.mark.parametrize("action", _ACTIONS)
async def test_action_is_done_to_all_of_a_list_by_keyboard_alone(
    bench: Bench, tab: Console, action: str
) -> None:
    """The focus goes into the question, on to the progress, and back; each task keeps the reason."""
    bulk, page, prefix = _ACTIONS[action], tab.page, f"all-{action}-{tab.width}"
    tasks = [f"{prefix}-{number}" for number in range(2)]
    await _brought(bench, bulk, tasks)
    selected = "parked=true" if bulk.state == "Parked" else f"state={bulk.state}"
    await tab.open(f"#/tasks?prefix={prefix}&{selected}")
    button = page.get_by_role("button", name="Act on all of these…")
    await tab.tab_to(button)
    await page.keyboard.press("Enter")
    await _asked(tab, action, bulk)
    run = page.get_by_role("dialog", name=f"{bulk.verb} 2 tasks", exact=True)
    await expect(run.get_by_role("alert")).to_contain_text("Finished.2 done, 0 refused.")
    assert await tab.overflow() <= 0
    await expect(run.get_by_role("button", name="Close")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(button).to_be_focused()
    for task in tasks:
        found = await bench.until_state(task, bulk.end)
        told = [found["steps"][0]["told_why"], *(entry["reason"] for entry in found["history"])]
        assert told.count(_REASON) == 1
        assert events(found)[1:] == bulk.told
