"""What an operator sees of a step for each item: one box for all of them, and a line for each."""

from __future__ import annotations

import pytest
from azure.data.tables.aio import TableServiceClient
from playwright.async_api import expect

from functions.pattern.identity import TaskId
from functions.store.tables import TASKS_TABLE
from tests.e2e.console.bench import SHARDS, Console
from tests.e2e.console.story import Story
from tests.e2e.recovery.bench import Bench
from tests.fakes.tasks import pending
from tests.fakes.workflows import each, step, workflow

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="session")]

_ROUND = workflow(step("load"), each("stop", "load"), each("toll", "load"), step("park", "stop", "toll"))


async def _refused(bench: Bench) -> None:
    """Leave a task in `Error`: of three stops, one is refused, and one was not begun."""
    story = Story(pending(_ROUND, TaskId("round")))
    await story.claimed(0.1)
    for number, name in enumerate(("load", "stop.0", "toll.0", "toll.1", "toll.2")):
        await story.begun(name, 0.2 + number)
        await story.done(name, 0.6 + number)
    await story.begun("stop.1", 6)
    await story.refused("stop.1", 7, "stop answered 422")
    async with TableServiceClient.from_connection_string(bench.settings["StateStore"]) as service:
        await story.write(service.get_table_client(TASKS_TABLE), SHARDS)


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
