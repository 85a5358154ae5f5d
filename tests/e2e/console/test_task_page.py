"""The page of a task: its contents without secrets, its items, and the chart of the last hour."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from playwright.async_api import Locator, Page, expect

from functions.operations.overview import minutes
from functions.pattern.identity import TaskId
from functions.pattern.occurrences import TaskCounter
from tests.e2e.caller import ORDER
from tests.e2e.console.bench import Console, write_story
from tests.e2e.console.story import Story
from tests.e2e.console.test_page import EVIL
from tests.e2e.recovery.bench import Bench
from tests.e2e.recovery.remote import Behaviour
from tests.fakes.tasks import pending
from tests.fakes.workflows import each as for_each
from tests.fakes.workflows import step, timer, workflow

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="session")]


_CANARY = "c4n4ry-word"

#: Is not deployed.
_SLOW = workflow(step("pick"), step("send", "pick"), timer("rest", "send"), step("bill", "rest"), name="slow")
_NAMES = [f"step-{number}" for number in range(7)]
_ROW = workflow(*(step(name, *_NAMES[:at][-1:]) for at, name in enumerate(_NAMES)), name="row")


async def _open(page: Page, name: str) -> None:
    """Open a part by keyboard."""
    await page.locator("summary").filter(has_text=name).focus()
    await page.keyboard.press("Enter")


def _part(page: Page, name: str) -> Locator:
    return page.get_by_label(name, exact=True)


async def test_operator_reads_a_task_without_its_secrets(
    bench: Bench, console: Console, phone: Console, capfd: pytest.CaptureFixture[str]
) -> None:
    """By keyboard, on a phone too: its service gets the secret; no page, alert or log has it."""
    bench.remote.script("guarded-1/delivery/do", Behaviour.REFUSES)
    await bench.submit("guarded-1", "guarded", {"account": EVIL, "word": _CANARY})
    await bench.until_state("guarded-1", "Error")
    await bench.until_alerted("guarded-1")
    for each in (console, phone):
        await each.open("#/tasks/guarded-1")
        page = each.page
        for name in ("Payload", "Step drone", "Step delivery"):
            await _open(page, name)
        await expect(_part(page, "Payload")).to_contain_text('"word": "(hidden)"')
        await expect(_part(page, "Payload")).to_contain_text(EVIL.replace('"', '\\"'))
        await expect(page.get_by_text("Not shown: its workflow has secret fields")).to_have_count(2)
        await expect(_part(page, "Result of drone")).to_have_text("{}")
        await expect(page.get_by_text("No result is recorded.")).to_be_visible()
        assert await each.overflow() <= 0
        assert _CANARY not in await page.content()
        assert await page.evaluate("window.broken") is None
    assert _CANARY not in str(bench.remote.alerts)
    captured = capfd.readouterr()
    assert _CANARY not in captured.out + captured.err


async def test_what_is_open_stays_open_and_is_renewed(bench: Bench, console: Console) -> None:
    """When the task goes on, its request and result are read again, without the keyboard's focus lost."""
    bench.remote.script("guarded-2/delivery/do", Behaviour.REFUSES, Behaviour.ANSWERS)
    await bench.submit("guarded-2", "guarded", {"account": "A-1", "word": _CANARY})
    await bench.until_state("guarded-2", "Error")
    await console.open("#/tasks/guarded-2")
    await _open(console.page, "Step delivery")
    await expect(console.page.get_by_text("No result is recorded.")).to_be_visible()
    assert await bench.act("guarded-2", "resubmit") == 202
    await expect(_part(console.page, "Result of delivery")).to_have_text("{}")
    await expect(console.page.locator("summary").filter(has_text="Step delivery")).to_be_focused()


async def test_what_can_not_be_shown_says_why(bench: Bench, console: Console) -> None:
    """A version that is gone does not tell what is secret."""
    story = Story.begin(_SLOW, "unshown", datetime.now(UTC) - timedelta(seconds=30))
    await story.claimed(0.1)
    await story.begun("pick", 0.2)
    await story.done("pick", 0.6)
    await story.parked(3)
    await write_story(bench, story)
    await console.open("#/tasks/unshown")
    for name in ("Payload", "Step pick", "Step send"):
        await _open(console.page, name)
    told = "Not shown: version 1 of 'slow' is not deployed here"
    await expect(console.page.get_by_text(told)).to_have_count(2)
    await expect(console.page.get_by_text("Not shown: It is made when the step begins.")).to_be_visible()


async def test_what_can_not_be_read_now_is_read_later(bench: Bench, console: Console) -> None:
    """It says so, and needs no other click."""
    await bench.submit("guarded-3", "guarded", {"account": "A-1", "word": _CANARY})
    await bench.until_state("guarded-3", "Processed")
    await console.page.route("**/contents", lambda route: route.abort())
    await console.open("#/tasks/guarded-3")
    await _open(console.page, "Payload")
    await expect(console.page.get_by_text("be read now: not reachable")).to_be_visible()
    await console.page.unroute("**/contents")
    await expect(_part(console.page, "Payload")).to_contain_text("A-1")
    console.complaints.clear()  # Chromium reports what was aborted


async def test_day_long_step_does_not_flatten_the_others(
    bench: Bench, console: Console, phone: Console
) -> None:
    """Steps of 0.2 seconds, 3 seconds and a day can be told apart, by their bars and their labels."""
    story = Story.begin(_SLOW, "slow-1", datetime.now(UTC) - timedelta(days=1, seconds=60))
    await story.claimed(0.1)
    for name, begun, ended in (("pick", 0.2, 0.4), ("send", 0.4, 3.4), ("rest", 3.4, 86_403)):
        await story.begun(name, begun, within=86_500)
        await story.done(name, ended)
    await story.begun("bill", 86_404, within=30)
    await story.done("bill", 86_405)
    await write_story(bench, story)
    for each in (console, phone):
        await each.open("#/tasks/slow-1")
        timeline = each.page.locator(".timeline")
        await expect(timeline).to_contain_text("Not to scale")
        widths = [
            float(await bar.get_attribute("width") or 0) for bar in await timeline.locator(".bar").all()
        ]
        assert len(widths) == 4
        assert min(widths) >= 30
        assert widths[0] < widths[1] < widths[2]
        await expect(timeline.locator(".row-state")).to_have_text(["200 ms", "3.0 s", "24 h", "1.0 s"])
        await expect(timeline.locator(".axis text").last).to_have_text("+24 h")
        assert await each.overflow() <= 0


async def test_seven_steps_in_a_row_fit_the_page(bench: Bench, tab: Console) -> None:
    """Their graph need not be scrolled, and the timeline's labels do not cover each other."""
    task = f"row-{tab.width}"
    story = Story.begin(_ROW, task, datetime.now(UTC) - timedelta(seconds=60))
    await story.claimed(0.1)
    for number, (name, within) in enumerate(zip(_NAMES, (600, 20, 20, 360, 20, 20, 20), strict=True)):
        await story.begun(name, 0.2 + number, within=within)
        await story.done(name, 0.4 + number)
    await write_story(bench, story)
    await tab.open(f"#/tasks/{task}")
    graph = tab.page.get_by_role("group", name="Workflow")
    assert await graph.evaluate("each => each.scrollWidth - each.clientWidth") == 0
    labels = tab.page.locator(".axis text")
    await expect(labels.last).to_have_text("+10 min")
    boxes = [await label.bounding_box() for label in await labels.all()]
    sides = [(box["x"], box["x"] + box["width"]) for box in boxes if box is not None]
    assert len(sides) > 2
    assert all(end < begin for (_, end), (begin, _) in pairwise(sides))


async def test_step_behind_a_queue_leads_to_its_queue(bench: Bench, console: Console) -> None:
    """On the overview, the queue's line has the keyboard's focus; it leads to what was rejected there."""
    await bench.submit("queued-1", "orders", ORDER)
    await bench.until_state("queued-1", "Processed")
    await console.open("#/tasks/queued-1")
    page = console.page
    await page.get_by_role("link", name="agent-payment-requests").focus()
    await page.keyboard.press("Enter")
    line = page.get_by_role(
        "link", name="agent-payment-requests: rejected messages of agent-payment-requests"
    )
    await expect(line).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="agent-payment-requests: 0")).to_be_visible()


_ROUND = workflow(
    step("load"), for_each("stop", "load"), for_each("toll", "load"), step("park", "stop", "toll")
)


async def _refused(bench: Bench) -> None:
    """Leave a task in `Error`: of three stops, one is refused, and one was not begun."""
    story = Story(pending(_ROUND, TaskId("round")))
    await story.claimed(0.1)
    for number, name in enumerate(("load", "stop.0", "toll.0", "toll.1", "toll.2")):
        await story.begun(name, 0.2 + number)
        await story.done(name, 0.6 + number)
    await story.begun("stop.1", 6)
    await story.refused("stop.1", 7, "stop answered 422")
    await write_story(bench, story)


async def test_items_are_gathered_in_the_graph_and_listed_one_by_one(bench: Bench, phone: Console) -> None:
    """On a phone; the box of a step tells of how many items its state is."""
    await _refused(bench)
    await phone.open("#/tasks/round")
    graph = phone.page.get_by_role("group", name="Workflow").get_by_role("img")
    await expect(graph).to_have_attribute(
        "aria-label", "load: Completed, stop: 1 of 3 failed, toll: 3 of 3 completed, park: Not started"
    )
    section = phone.page.locator("section").filter(has=phone.page.get_by_role("heading", name="Steps now"))
    items = [f"{name}.{number}" for name in ("stop", "toll") for number in range(3)]
    await expect(section.get_by_role("rowheader")).to_have_text(["load", *items, "park"])
    assert await phone.overflow() <= 0


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
