"""What happened over time, and which step is hot now, as an operator sees it."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import Locator, Route, expect

from functions.operations.trends.heat import heat_map
from functions.operations.trends.views import Over, trends
from functions.pattern.identity import StepName
from functions.pattern.states import Direction
from functions.pattern.trends import StoredTrend, Trend, TrendKey
from tests.e2e.console.bench import Console
from tests.e2e.fleet.bench import submit
from tests.e2e.fleet.workflows import HOLDING
from tests.e2e.recovery.bench import Bench
from tests.fakes.orders import ORDERS
from tests.fakes.trends import attempts, trend_of

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="session")]

#: Seconds after which a process has surely written what it counted in a minute, and the page has read it.
_WRITTEN_WITHIN = 100


#: Pixels.
_PHONE = 390

#: As usual: a second each.
_ONE = attempts(900)


def _bad_minutes() -> Trend:
    """Return a slow package, a failing drone, and an undo that fails."""
    trend = trend_of(
        accepted=40,
        processed=30,
        error=2,
        took=4,
        account=attempts(40, took=0.2),
        package=attempts(40, took=6),
        drone=attempts(30, 10),
    )
    trend.steps[StepName("transport"), Direction.UNDO] = attempts(0, 6)
    return trend


def _rows() -> list[StoredTrend]:
    good = trend_of(accepted=900, processed=900, took=3, account=_ONE, package=_ONE)
    ago = {timedelta(minutes=4): _bad_minutes(), timedelta(hours=6): good, timedelta(days=3): good}
    now = datetime.now(UTC)
    rows = [StoredTrend(TrendKey("delivery", now - past, "a"), trend) for past, trend in ago.items()]
    return [*rows, StoredTrend(TrendKey("orders", now - timedelta(hours=1), "a"), trend_of(accepted=7))]


async def _open(console: Console, view: str = "#/trends") -> None:
    """Open the page over these rows, by the application's own counting."""

    async def answer(route: Route) -> None:
        now, address = datetime.now(UTC), urlsplit(route.request.url)
        asked = {name: values[0] for name, values in parse_qs(address.query).items()}
        if address.path.endswith("/heat"):
            day = [row for row in _rows() if row.key.at > now - timedelta(days=1)]
            view = heat_map(day, (HOLDING, ORDERS), now).model_dump(mode="json")
        else:
            view = trends(_rows(), Over(asked["over"]), now, asked.get("workflow")).model_dump(mode="json")
        await route.fulfill(json=view)

    for path in ("trends", "trends?**", "heat"):
        await console.page.route(f"{console.host}/api/ops/{path}", answer)
    await console.open(view)


def _graph(console: Console) -> Locator:
    return console.page.get_by_role("group", name="delivery now").get_by_role("img")


async def test_hot_steps_are_told_in_words_and_signs_and_not_only_by_colour(console: Console) -> None:
    """Slow with how long it takes, failing with how many of how many; an undo is called one."""
    await _open(console)
    told = (
        r"account: as usual, \d+ ms, package: slow, \d\.\d s, transport: undo failing, 6 of 6,"
        r" drone: failing, 10 of 40, delivery: quiet"
    )
    await expect(_graph(console)).to_have_accessible_name(re.compile(told))
    await expect(_graph(console).locator(".box.bad .icon")).to_have_count(2)
    await expect(_graph(console).locator(".box.late .icon")).to_have_count(1)


async def test_times_and_workflows_are_chosen_by_keyboard(console: Console) -> None:
    """Each choice is an address of its own, so that going back works."""
    await _open(console)
    page = console.page
    accepted = page.get_by_role("img", name=re.compile("^Accepted: "))
    await expect(accepted).to_have_accessible_name(re.compile("Accepted: 947 in the last day"))
    await page.get_by_role("link", name="The last 30 days").focus()
    await page.keyboard.press("Enter")
    await expect(accepted).to_have_accessible_name(re.compile("Accepted: 1,847 in the last 30 days"))
    await page.get_by_role("rowheader").get_by_role("link", name="orders").focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="orders", exact=True, level=2)).to_be_visible()
    await expect(accepted).to_have_accessible_name(re.compile("Accepted: 7 in the last 30 days"))
    await expect(page.get_by_role("group", name="delivery now")).to_have_count(0)
    await page.go_back()
    await expect(page.get_by_role("group", name="delivery now")).to_be_visible()


async def test_chart_is_there_in_numbers(console: Console) -> None:
    """For whoever can't see it: a table, which opens by keyboard, the newest first."""
    await _open(console, "#/trends?over=hour")
    page = console.page
    await page.get_by_text("The same in numbers").focus()
    await page.keyboard.press("Enter")
    rows = page.locator("details").get_by_role("row")
    await expect(rows).to_have_count(61)
    await expect(rows.and_(page.get_by_role("row", name=re.compile(" 40 30 0 2 0 ")))).to_have_count(1)
    await expect(page.get_by_role("row", name=re.compile("undo of transport 0 6 0"))).to_be_visible()


async def test_all_of_it_fits_a_phone(phone: Console) -> None:
    """At 390 pixels, with the table open, no page is wider than the window; the graph stands upright."""
    await _open(phone)
    await phone.page.get_by_text("The same in numbers").click()
    await expect(phone.page.locator("details").get_by_role("row")).to_have_count(25)
    assert await phone.overflow() <= 0
    box = await _graph(phone).bounding_box()
    assert box is not None
    assert box["width"] < _PHONE


async def test_what_happens_is_in_the_trends_when_its_minute_is_over(bench: Bench) -> None:
    """Counted by the processes themselves, and written by none of the tasks."""
    await submit(bench, "counted")
    await bench.until_state("counted", "Processed")
    async with asyncio.timeout(_WRITTEN_WITHIN):
        while not await _processed(bench):
            await asyncio.sleep(1)


async def _processed(bench: Bench) -> bool:
    async with bench.session.get("/api/ops/trends?over=hour") as answer:
        shown = await answer.json()
    found = {each["workflow"]: each for each in shown["workflows"]}.get("delivery")
    if found is None or found["processed"] == 0:
        return False
    return {step.name for step in HOLDING.steps} <= {each["step"] for each in found["steps"]}
