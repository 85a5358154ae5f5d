"""Actions on all that a filter selects, from the list: what each asks for, and what becomes of the tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.async_api import expect

from tests.e2e.console.bench import Console
from tests.e2e.fleet.bench import PARCEL
from tests.e2e.recovery.bench import Bench, events
from tests.e2e.recovery.remote import Behaviour

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="session")]


@dataclass(frozen=True, slots=True)
class _Bulk:
    """An action that is called `verb`, on tasks in `state`, to which they come when a service `does` this.

    It leaves them in `end`, with `told` in their history; an event ends no epoch.
    """

    verb: str
    resource: str
    state: str
    end: str
    told: str | None
    does: tuple[str, Behaviour] | None = None
    step: str | None = None
    content: tuple[str, str] | None = None


_REFUSED = ("drone", Behaviour.REFUSES)
_ACTIONS: Mapping[str, _Bulk] = {
    "undo": _Bulk("Undo", "errands", "Error", "Compensated", "undo requested", _REFUSED),
    "cancel": _Bulk("Cancel", "approvals", "Pending", "Compensated", "cancelled"),
    "done": _Bulk(
        verb="“It was done” for",
        resource="bookings",
        state="Error",
        end="Processed",
        told="found done",
        does=("account", Behaviour.FORGETS),
        step="account",
        content=("Result of the step", '{"receipt": "R-1"}'),
    ),
    "not-done": _Bulk(
        verb="“It was not done” for",
        resource="bookings",
        state="Error",
        end="Processed",
        told="found not done",
        does=("account", Behaviour.HANGS),
        step="account",
    ),
    "event": _Bulk(
        verb="Tell a step of",
        resource="approvals",
        state="Pending",
        end="Processed",
        told=None,
        step="approve",
        content=("Event of the step", '{"approved": true}'),
    ),
}


async def _brought(bench: Bench, bulk: _Bulk, tasks: list[str]) -> None:
    """Submit tasks, and wait until they take the action."""
    for task in tasks:
        if bulk.does is not None:
            step, behaviour = bulk.does
            bench.remote.script(f"{task}/{step}/do", behaviour, Behaviour.ANSWERS)
        content: Mapping[str, Any] = {"weight": 3} if bulk.resource == "approvals" else PARCEL
        await bench.submit(task, bulk.resource, content)
    for task in tasks:
        await bench.until_state(task, bulk.state)


@pytest.mark.parametrize("action", _ACTIONS)
async def test_action_is_done_to_all_of_a_list(bench: Bench, tab: Console, action: str) -> None:
    """With what it needs besides a reason; each task keeps that reason."""
    bulk, page, prefix = _ACTIONS[action], tab.page, f"all-{action}-{tab.width}"
    tasks = [f"{prefix}-{number}" for number in range(2)]
    await _brought(bench, bulk, tasks)
    await tab.open(f"#/tasks?prefix={prefix}&state={bulk.state}")
    await page.get_by_role("button", name="Act on all of these…").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Action").select_option(action)
    await expect(dialog.get_by_label("Step", exact=True)).to_have_count(0 if bulk.step is None else 1)
    if bulk.step is not None:
        await dialog.get_by_label("Step", exact=True).fill(bulk.step)
    if bulk.content is not None:
        await dialog.get_by_label(bulk.content[0]).fill(bulk.content[1])
    await dialog.get_by_label("Reason").fill("by hand")
    assert await tab.overflow() <= 0
    await dialog.get_by_role("button", name=f"{bulk.verb} 2 tasks", exact=True).click()
    run = page.get_by_role("dialog", name=f"{bulk.verb} 2 tasks", exact=True)
    await expect(run.get_by_role("alert")).to_contain_text("Finished.2 done, 0 refused.")
    assert await tab.overflow() <= 0
    for task in tasks:
        found = await bench.until_state(task, bulk.end)
        told = [found["steps"][0]["told_why"], *(entry["reason"] for entry in found["history"])]
        assert told.count("by hand") == 1
        assert events(found)[1:] == [bulk.told] * (bulk.told is not None)
