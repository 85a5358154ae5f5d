"""The console's data: its keys, its failures, and texts from outside that never become markup."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.async_api import Page, Route, expect

from tests.e2e.console.bench import Bench, Console

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="session")]


async def test_key_is_removed_from_the_address_and_sent_in_a_header(console: Console) -> None:
    """It is sent in a header, and kept when the page is reloaded."""
    sent: list[str | None] = []
    console.page.on(
        "request",
        lambda request: (
            sent.append(request.headers.get("x-functions-key")) if request.url.endswith("/overview") else None
        ),
    )
    await console.open("?code=very-secret#/")
    assert "secret" not in console.page.url
    await console.page.reload()
    await console.page.get_by_text("updated").wait_for()
    assert set(sent) == {"very-secret"}
    assert len(sent) >= 2


async def test_key_is_asked_for_when_the_api_requires_one(bench: Bench, console: Console) -> None:
    """With a valid key the view is shown; a wrong key is reported as wrong, also one that can't be sent."""

    async def guarded(route: Route) -> None:
        if route.request.headers.get("x-functions-key") == "right":
            await route.continue_()
        else:
            await route.fulfill(status=401)

    await console.page.route("**/api/ops/overview", guarded)
    await console.page.goto(f"{bench.platform.addresses.host}/api/ops")
    key = console.page.get_by_role("textbox", name="Key")
    for number, given in enumerate(("wrong", "gesch\u00fctzt \u2026", "right")):
        await expect(key).to_have_value("")  # it is empty again
        await expect(console.page.get_by_text("was not accepted")).to_have_count(min(number, 1))
        await key.fill(given)
        await console.page.keyboard.press("Enter")
    await expect(console.page.get_by_role("heading", name="The last hour")).to_be_visible()
    await expect(console.page.get_by_text("not reachable")).to_have_count(0)
    console.complaints.clear()  # Chromium reports the 401 as an error


async def test_user_who_is_not_signed_in_is_sent_to_sign_in(console: Console) -> None:
    """When the application itself returns 401, no key is asked for; after sign-in the same view is shown."""
    refusal = {"title": "Unauthorized", "status": 401, "detail": "Sign in first."}
    answers = [(401, refusal)]

    async def guarded(route: Route) -> None:
        if answers:
            status, body = answers.pop()
            await route.fulfill(status=status, json=body, content_type="application/problem+json")
        else:
            await route.continue_()

    await console.page.route("**/api/ops/tasks**", guarded)
    await console.page.goto(f"{console.host}/api/ops#/tasks")
    link = console.page.get_by_role("dialog", name="Sign in").get_by_role("link")
    address = await link.get_attribute("href")
    assert address == "/.auth/login/aad?post_login_redirect_uri=%2Fapi%2Fops%23%2Ftasks"
    await console.page.get_by_role("button", name="Try again").click()
    await expect(console.page.get_by_text("updated")).to_be_visible()
    console.complaints.clear()  # Chromium reports the 401 as an error


async def test_console_says_when_its_data_is_unavailable(console: Console) -> None:
    """It says that what it shows is old, and when the data is up to date again."""
    await console.open()
    await console.page.route("**/api/ops/overview", lambda route: route.abort())
    freshness = console.page.locator("#freshness")
    await expect(freshness).to_contain_text("not reachable")
    await expect(freshness).to_contain_text("as of")
    await expect(console.page.get_by_role("status")).to_contain_text("Not up to date")
    await expect(console.page.get_by_role("heading", name="The last hour")).to_be_visible()
    await console.page.unroute("**/api/ops/overview")
    await expect(freshness).to_contain_text("updated")
    console.complaints.clear()  # Chromium reports aborted requests as errors


async def test_fault_of_the_page_itself_is_called_so(console: Console) -> None:
    """An answer that its script can't show does not pass for an application that can't be reached."""
    await console.answer("overview", {"unexpected": True})
    await console.page.goto(f"{console.host}/api/ops")
    await expect(console.page.locator("#freshness")).to_contain_text("this page has an error")
    await expect(console.page.get_by_text("not reachable")).to_have_count(0)
    await console.page.goto("about:blank")  # it would try again
    assert console.complaints  # the browser's log has the trace
    console.complaints.clear()


async def test_answer_that_is_a_page_is_called_so(console: Console) -> None:
    """A sign-in or a proxy may send it; the page does not call it unreachable."""

    async def page(route: Route) -> None:
        await route.fulfill(body="<p>Sign in</p>", content_type="text/html")

    await console.page.route("**/api/ops/overview", page)
    await console.page.goto(f"{console.host}/api/ops")
    await expect(console.page.locator("#freshness")).to_contain_text("200: the answer is not JSON")


async def test_polling_slows_down_while_nothing_answers(console: Console) -> None:
    """The time until the next attempt is shown."""
    page = console.page
    await page.route("**/api/ops/overview", lambda route: route.abort())
    await page.clock.install()
    await page.goto(f"{console.host}/api/ops")
    freshness = page.locator("#freshness")
    for pause in ("[34]", "[78]", "1[56]"):
        await expect(freshness).to_have_text(re.compile(f"next try in {pause} s"))
        await page.clock.run_for(16_000)
    console.complaints.clear()  # Chromium reports aborted requests as errors


async def test_no_request_is_sent_while_the_tab_is_hidden(console: Console) -> None:
    """A background tab sends no requests; it sends one at once when it is visible again."""
    page = console.page
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    await page.clock.install()
    await console.open()
    await _hide(page, hidden=True)
    asked.clear()
    await page.clock.run_for(60_000)
    assert asked == []
    async with page.expect_request("**/api/ops/overview"):
        await _hide(page, hidden=False)


async def _hide(page: Page, *, hidden: bool) -> None:
    await page.evaluate(
        "hidden => { Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });"
        " document.dispatchEvent(new Event('visibilitychange')); }",
        hidden,
    )


async def test_unknown_task_is_reported(console: Console) -> None:
    """The page is not empty."""
    await console.open("#/tasks/nobody")
    await expect(console.page.get_by_text("No task is recorded under this id.")).to_be_visible()
    console.complaints.clear()  # Chromium reports the 404 as an error


@pytest.mark.parametrize(
    ("view", "what"),
    [
        ("tasks/b%ad", "422: task_id: String should match"),
        ("tasks?cursor=old", "422: cursor: not a cursor of this list"),
    ],
)
async def test_page_with_nothing_to_show_says_why(console: Console, view: str, what: str) -> None:
    """With a truncated or invalid address, the page shows the error."""
    await console.page.goto(f"{console.host}/api/ops#/{view}")
    await expect(console.page.get_by_role("main")).to_contain_text(f"No data yet: {what}")
    console.complaints.clear()  # Chromium reports every 4xx as an error


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


#: Times, cursors, and the names that the console depends on.
_OURS = frozenset(
    {"at", "since", "name", "step", "needs", "actions", "history", "state", "submitted_at", "due_at"}
    | {"finished_at", "started_at", "complete_by", "ended_at", "began_at", "deferred_since", "defer_by"}
    | {"find_by", "oldest_at", "next_at", "away_from", "cursor", "looked_to", "first_at", "last_at", "start"}
    | {"rejected_at", "suspension", "resume_at", "expires_at"}
)


async def _nothing_ran(console: Console) -> None:
    assert await console.page.evaluate("window.broken") is None
    assert await console.page.locator("main img").count() == 0
    assert await console.page.locator("main script").count() == 0


@pytest.mark.parametrize(
    ("view", "path"),
    [("", "overview"), ("#/tasks", "tasks"), ("#/errors", "errors"), ("#/tasks/evil-1", "tasks/evil-1")],
)
async def test_no_text_of_any_response_becomes_markup(
    bench: Bench, console: Console, view: str, path: str
) -> None:
    """Whatever the API returns, in every view."""
    await bench.refuse("evil-1")
    async with bench.session.get(f"/api/ops/{path}") as answer:
        content = _poisoned(await answer.json(), keep=_OURS)
    await console.answer(f"{path}*", content)
    await console.open(view)
    await expect(console.page.get_by_text(EVIL).first).to_be_attached()
    await _nothing_ran(console)


async def test_reasons_of_waiting_are_shown_as_text(bench: Bench, console: Console) -> None:
    """Suspensions, decisions, questions, and the notes of steps; in dialogs, too."""
    content = await bench.refuse("evil-2")
    step = content["steps"][0]
    step |= {"name": EVIL, "state": "Result missing", "note": EVIL, "event_by": EVIL}
    step["do"] |= {"error": EVIL}
    answer = {"action": "done", "step": EVIL, "runs": [EVIL], "undoes": [], "waits_until": None}
    content |= {"suspension": "suspended", "reason": EVIL, "workflow": EVIL, "question": EVIL}
    content |= {"decision": {"end": EVIL, "who": EVIL, "reason": EVIL}, "actions": [answer]}
    await console.answer("tasks/evil-2", content)
    await console.open("#/tasks/evil-2")
    page = console.page
    for region in ("Suspended", "Decision pending", "A result is missing"):
        await expect(page.get_by_role("region", name=region)).to_contain_text(EVIL)
    await page.get_by_role("button", name="Enter its result…").click()
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
