"""No text from outside is ever treated as markup, and no script but our own runs."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import expect

from tests.e2e.console.bench import Console
from tests.e2e.fleet.bench import submit
from tests.e2e.recovery.bench import Bench
from tests.e2e.recovery.remote import Behaviour

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="session")]

EVIL = '<img src=x onerror="window.broken=true"><script>window.broken=true</script>'


def _poisoned(content: Any, *, keep: frozenset[str]) -> Any:
    """Replace every text except our own names and times with the malicious text."""
    if isinstance(content, dict):
        return {
            name: value if name in keep else _poisoned(value, keep=keep) for name, value in content.items()
        }
    if isinstance(content, list):
        return [_poisoned(each, keep=keep) for each in content]
    return EVIL if isinstance(content, str) else content


#: What is not free text: times, and the names that the console depends on.
_OURS = frozenset(
    {"at", "since", "name", "needs", "prospects", "submitted_at", "updated_at", "due_at", "finished_at"}
    | {"started_at", "sent_at", "complete_by", "not_before", "oldest_at", "probe_at", "cursor"}
    | {"looked_to", "first_at", "last_at"}
)


async def _nothing_ran(console: Console) -> None:
    assert await console.page.evaluate("window.broken") is None
    assert await console.page.locator("main img").count() == 0
    assert await console.page.locator("main script").count() == 0


async def test_reason_that_looks_like_markup_is_shown_as_text(bench: Bench, console: Console) -> None:
    """It is stored as it was given, and shown as it was stored."""
    bench.remote.script("evil/drone/do", Behaviour.REFUSES)
    await submit(bench, "evil")
    await bench.until_state("evil", "Error")
    await console.open("#/tasks/evil")
    await console.page.get_by_role("button", name="Resubmit").click()
    dialog = console.page.get_by_role("dialog")
    await dialog.get_by_label("Reason").fill(EVIL)
    await dialog.get_by_role("button", name="Resubmit").click()
    await expect(console.page.locator(".history").get_by_text(EVIL)).to_be_visible()
    await _nothing_ran(console)


@pytest.mark.parametrize(
    ("view", "path"),
    [("", "overview"), ("#/tasks", "tasks"), ("#/errors", "errors"), ("#/tasks/evil-1", "tasks/evil-1")],
)
async def test_no_text_of_any_response_becomes_markup(
    bench: Bench, console: Console, view: str, path: str
) -> None:
    """Whatever the API returns, in every view."""
    bench.remote.script("evil-1/drone/do", Behaviour.REFUSES)
    await submit(bench, "evil-1")
    await bench.until_state("evil-1", "Error")
    async with bench.session.get(f"/api/ops/{path}") as answer:
        content = _poisoned(await answer.json(), keep=_OURS)
    await console.answer(f"{path}*", content)
    await console.open(view)
    await expect(console.page.get_by_text(EVIL).first).to_be_attached()
    await _nothing_ran(console)


async def test_what_a_task_waits_for_is_shown_as_text(bench: Bench, console: Console) -> None:
    """Reasons of parking and of decisions, questions, and what is noted of steps; in dialogs, too."""
    bench.remote.script("evil-2/drone/do", Behaviour.REFUSES)
    await submit(bench, "evil-2")
    content = await bench.until_state("evil-2", "Error")
    prospect = content["prospects"]["undo"]
    content |= {"parked": True, "last_error": EVIL, "workflow": EVIL}
    content["decision"] = {"ended_by": EVIL, "who": EVIL, "reason": EVIL, "until": None}
    content["prospects"] |= {
        "by_itself": prospect | {"undoes": [EVIL]},
        "question": EVIL,
        "answers": [{"step": EVIL, "done": prospect, "not_done": None}],
    }
    content["steps"][0] |= {"error": EVIL, "attempts": 3, "noted": EVIL}
    await console.answer("tasks/evil-2", content)
    await console.open("#/tasks/evil-2")
    page = console.page
    for region in ("Parked", "Decided, and waits", "Its result is missing"):
        await expect(page.get_by_role("region", name=region)).to_contain_text(EVIL)
    await page.get_by_role("button", name="Give its result…").click()
    await expect(page.get_by_role("dialog")).to_contain_text(EVIL)
    await _nothing_ran(console)


async def test_scripts_that_are_not_ours_are_blocked(console: Console) -> None:
    """The browser blocks them by the page's Content-Security-Policy."""
    await console.open()
    await console.page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {text: 'window.broken=true'}))"
    )
    assert await console.page.evaluate("window.broken") is None
    assert any("Content Security Policy" in complaint for complaint in console.complaints)
    console.complaints.clear()
