"""A platform whose deliveries can be refused, and a browser tab with its console."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from azure.data.tables.aio import TableServiceClient
from playwright.async_api import Browser, ConsoleMessage, Locator, Page, Route, expect

from functions.store.tables import TASKS_TABLE
from tests.e2e.console.story import Story
from tests.e2e.fleet import bench as fleet
from tests.e2e.recovery.bench import Bench

_APP = Path(__file__).parent / "app"

SHARDS = 2
_SETTINGS = {
    "STEP_SECONDS": "orders.payment=4,delivery.account=4,delivery.drone=4",
    "AGENTS_PICK_UP_SECONDS": "4",
    "STATE_SHARDS": str(SHARDS),
}

#: Milliseconds that a test waits at most: more than any machine needs.
PATIENCE = 60_000

_MOST_TABS = 60

type Scheme = Literal["light", "dark"]


@asynccontextmanager
async def running(data: Path) -> AsyncIterator[Bench]:
    """Run a platform whose Supervisor sweeps every second."""
    async with fleet.running(data, _SETTINGS, app=_APP) as bench:
        yield bench


async def write_story(bench: Bench, story: Story) -> None:
    """Write a task to the state store."""
    async with TableServiceClient.from_connection_string(bench.settings["StateStore"]) as service:
        await story.write(service.get_table_client(TASKS_TABLE), SHARDS)


class Console:
    """One tab with the console; `complaints` are the browser's errors and CSP violations."""

    def __init__(self, page: Page, host: str) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.host = host
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._hear)

    @classmethod
    @asynccontextmanager
    async def of(
        cls, browser: Browser, host: str, *, width: int = 1280, height: int = 900, scheme: Scheme = "light"
    ) -> AsyncIterator[Console]:
        """Open a separate tab."""
        context = await browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
        )
        try:
            yield cls(await context.new_page(), host)
        finally:
            await context.close()

    @property
    def width(self) -> int:
        """Give the window's width, in pixels."""
        size = self.page.viewport_size
        assert size is not None
        return size["width"]

    async def open(self, view: str = "") -> None:
        """Open a view by its URL fragment."""
        await self.page.goto(f"{self.host}/api/ops{view}")
        await self.page.get_by_text("updated").wait_for()

    async def act(self, button: str, reason: str) -> None:
        """Open an action's dialog, give the reason, and confirm; the dialog must be gone then."""
        await self.page.get_by_role("button", name=f"{button}…", exact=True).click()
        dialog = self.page.get_by_role("dialog")
        await dialog.get_by_label("Reason").fill(reason)
        await dialog.get_by_role("button", name=button, exact=True).click()
        await expect(dialog).to_have_count(0)

    async def tab_to(self, target: Locator) -> None:
        """Press Tab until an element has the focus, which must be seen."""
        await target.wait_for()
        for _ in range(_MOST_TABS):
            await self.page.keyboard.press("Tab")
            if await target.evaluate("each => each === document.activeElement"):
                outline = "each => getComputedStyle(each).outlineStyle"
                assert await target.evaluate(outline) == "solid"
                return
        raise AssertionError(f"the Tab key never reaches {target}")

    async def answer(self, path: str, content: object) -> None:
        """Replace the API's responses for all matching addresses below `/api/ops`."""

        async def fulfil(route: Route) -> None:
            await route.fulfill(json=content)

        await self.page.route(f"{self.host}/api/ops/{path}", fulfil)

    async def overflow(self) -> int:
        """Return by how many pixels the page is wider than its window."""
        width: int = await self.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        return width

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.complaints.append(message.text)
