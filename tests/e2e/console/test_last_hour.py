"""The last hour, as an operator sees it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.async_api import expect

from functions.operations.overview import minutes
from functions.pattern.occurrences import TaskCounter
from tests.e2e.console.bench import Console
from tests.e2e.recovery.bench import Bench

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="session")]


async def test_chart_is_there_in_numbers(bench: Bench, phone: Console) -> None:
    """A table that opens by keyboard, the newest minute first; neither is wider than a phone."""
    async with bench.session.get("/api/ops/overview") as answer:
        overview = await answer.json()
    now = datetime.now(UTC)
    minute = now.replace(second=0, microsecond=0)
    counts = {
        minute - timedelta(minutes=3): dict(zip(TaskCounter, (1_040, 30, 4, 2, 9), strict=True)),
        minute - timedelta(minutes=50): {TaskCounter.ACCEPTED: 60, TaskCounter.RECOVERED: 1},
    }
    overview["last_hour"] = [each.model_dump(mode="json") for each in minutes(counts, now)]
    await phone.answer("overview", overview)
    await phone.open()
    page = phone.page
    accepted = page.get_by_role("img", name=re.compile("^Accepted: "))
    await expect(accepted).to_have_accessible_name("Accepted: 1,100 in the last hour, at most 1,040 a minute")
    recoveries = page.get_by_role("img", name=re.compile("^Recoveries: "))
    await expect(recoveries).to_have_accessible_name("Recoveries: 10 in the last hour, at most 9 a minute")
    await phone.tab_to(page.get_by_text("The same in numbers"))
    await page.keyboard.press("Enter")
    rows = page.locator("details.numbers").get_by_role("row")
    await expect(rows).to_have_count(61)
    await expect(rows.nth(3)).to_have_accessible_name(re.compile(" 1,040 30 4 2 9$"))
    assert await phone.overflow() <= 0
