"""The page of a task: its contents without secrets, its items, and the chart of the last hour."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from playwright.async_api import Locator, Page, expect

from functions.telemetry.task_counts import TaskCounter
from functions.workflow import Step, Workflow
from local.callers.client import SAMPLE_ORDER
from tests.e2e.console.bench import Bench, Console
from tests.e2e.console.story import Story
from tests.e2e.console.test_page import EVIL
from tests.e2e.console.workflows import Weight
from tests.e2e.recovery.remote import Behaviour

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="session")]


_CANARY = "c4n4ry-word"


def _line(name: str, *names: str) -> Workflow[Weight]:
    """Return a workflow, which is not deployed, of steps that need each other in a row."""
    steps: list[Step[object]] = []
    for each in names:
        steps.append(Step(each, request=lambda _parcel, _results: {}, needs=steps[-1:]))
    return Workflow(name, payload=Weight, steps=steps)


_SLOW = _line("slow", "pick", "send", "rest", "bill")
_NAMES = [f"step-{number}" for number in range(7)]
_ROW = _line("row", *_NAMES)
_PAYLOAD: dict[str, object] = {"weight": 3}


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
        for name in ("Payload and output", "Step drone", "Step delivery"):
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
    """After a change of the task, its request and result are read again; the focus stays."""
    bench.remote.script("guarded-2/delivery/do", Behaviour.REFUSES, Behaviour.ANSWERS)
    await bench.submit("guarded-2", "guarded", {"account": "A-1", "word": _CANARY})
    await bench.until_state("guarded-2", "Error")
    await console.open("#/tasks/guarded-2")
    await _open(console.page, "Step delivery")
    await expect(console.page.get_by_text("No result is recorded.")).to_be_visible()
    assert await bench.act("guarded-2", "resubmit") == 202
    await expect(console.page.get_by_text("Result of delivery")).to_be_visible()
    await expect(console.page.locator("summary").filter(has_text="Step delivery")).to_be_focused()


async def test_day_long_step_does_not_flatten_the_others(
    bench: Bench, console: Console, phone: Console
) -> None:
    """Steps of 0.2 seconds, 3 seconds and a day differ in their bars and their labels."""
    story = Story.begin(_SLOW, "slow-1", datetime.now(UTC) - timedelta(days=1, seconds=60), payload=_PAYLOAD)
    for name, begun, ended in (("pick", 0.2, 0.4), ("send", 0.4, 3.4), ("rest", 3.4, 86_403)):
        story.begun(name, begun, within=86_500)
        story.done(name, ended)
    story.begun("bill", 86_404, within=30)
    story.done("bill", 86_405)
    await bench.write(story)
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
    story = Story.begin(_ROW, task, datetime.now(UTC) - timedelta(seconds=700), payload=_PAYLOAD)
    for number, name in enumerate(_NAMES):
        story.begun(name, 0.2 + number, within=900)
        story.done(name, 0.4 + number if number < 6 else 600.2)
    await bench.write(story)
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
    """On the overview, the queue's line has the keyboard's focus; it links to its rejected messages."""
    await bench.submit("queued-1", "orders", SAMPLE_ORDER)
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


_LOAD = Step("load", request=lambda _parcel, _results: {})
_STOP, _TOLL = (
    Step(name, request=lambda _parcel, _results, _item: {}, for_each=lambda _parcel: [1, 2, 3], needs=[_LOAD])
    for name in ("stop", "toll")
)
_GARAGE = Step("garage", request=lambda _parcel, _results: {}, needs=[_STOP, _TOLL])
_ROUND = Workflow("round", payload=Weight, steps=[_LOAD, _STOP, _TOLL, _GARAGE])


async def _refused(bench: Bench) -> None:
    """Leave a task in `Error`: of three stops, one is refused, and one was not begun."""
    story = Story.begin(_ROUND, "round", datetime.now(UTC) - timedelta(seconds=30), payload=_PAYLOAD)
    for number, name in enumerate(("load", "stop.0", "toll.0", "toll.1", "toll.2")):
        story.begun(name, 0.2 + number)
        story.done(name, 0.6 + number)
    story.begun("stop.1", 6)
    story.refused("stop.1", 7, "stop answered 422")
    await bench.write(story)


async def test_items_are_gathered_in_the_graph_and_listed_one_by_one(bench: Bench, phone: Console) -> None:
    """On a phone; the box of a step has the number of items in its state."""
    await _refused(bench)
    await phone.open("#/tasks/round")
    graph = phone.page.get_by_role("group", name="Workflow").get_by_role("img")
    await expect(graph).to_have_attribute(
        "aria-label", "load: Completed, stop: 1 of 3 refused, toll: 3 of 3 completed, garage: Not started"
    )
    section = phone.page.locator("section").filter(
        has=phone.page.get_by_role("heading", name="Steps", exact=True)
    )
    items = [f"{name}.{number}" for name in ("stop", "toll") for number in range(3)]
    await expect(section.get_by_role("rowheader")).to_have_text(["load", *items, "garage"])
    assert await phone.overflow() <= 0


async def test_chart_is_there_in_numbers(bench: Bench, phone: Console) -> None:
    """A table that opens by keyboard, the newest minute first; neither is wider than a phone."""
    overview = await bench.overview()
    names = [str(counter) for counter in TaskCounter]
    for minute in overview["last_hour"]:
        minute.update(dict.fromkeys(names, 0))
    overview["last_hour"][-3] |= dict(zip(names, (1_040, 30, 4, 2, 9), strict=True))
    overview["last_hour"][10] |= {"accepted": 60, "recovered": 1}
    await phone.answer("overview", overview)
    await phone.open()
    page = phone.page
    accepted = page.get_by_role("img", name=re.compile("^Accepted: "))
    await expect(accepted).to_have_accessible_name("Accepted: 1,100 in the last hour, at most 1,040 a minute")
    recoveries = page.get_by_role("img", name=re.compile("^Recoveries: "))
    await expect(recoveries).to_have_accessible_name("Recoveries: 10 in the last hour, at most 9 a minute")
    await phone.tab_to(page.get_by_text("As numbers"))
    await page.keyboard.press("Enter")
    rows = page.locator("details.numbers").get_by_role("row")
    await expect(rows).to_have_count(61)
    await expect(rows.nth(3)).to_have_accessible_name(re.compile(" 1,040 30 4 2 9$"))
    assert await phone.overflow() <= 0
