"""A platform with the console's workflows, its scripted services and operators, and a browser tab."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

from azure.core.credentials import AzureNamedKeyCredential
from azure.data.tables import TableServiceClient
from playwright.async_api import Browser, ConsoleMessage, Locator, Page, Route, expect

from functions.storage.azure_table import AzureTable, StorageSession
from tests.e2e.console.story import Story
from tests.e2e.deliveries import SETTINGS
from tests.e2e.recovery.bench import Bench as RecoveryBench
from tests.e2e.recovery.bench import Task, bench_with
from tests.e2e.recovery.remote import Behaviour, RemoteService

_APP = Path(__file__).parent / "app"

SHARDS = 4
_STEPS = ("account", "package", "transport", "drone", "delivery", "payment")
#: A short limit for the steps that tests hold up.
_SETTINGS = {
    **SETTINGS,
    "STEP_SECONDS": "delivery.drone=4,delivery.account=4",
    "STATE_SHARDS": str(SHARDS),
}
#: The payload of a delivery.
PARCEL: Mapping[str, Any] = {"account": "A-1042", "package": {"weight_kg": 2.5, "tag": "spare parts"}}

#: Milliseconds that a test waits at most: more than any machine needs.
PATIENCE = 60_000

_MOST_TABS = 60

type Scheme = Literal["light", "dark"]


class Bench(RecoveryBench):
    """The platform, a session of its callers and operators, and the remote services of its steps."""

    async def submit(
        self, task: str, resource: str = "deliveries", content: Mapping[str, Any] = PARCEL
    ) -> None:
        """Submit an order under the given id."""
        await RecoveryBench.submit(self, task, resource, content)

    async def refuse(self, task: str, *later: Behaviour, resource: str = "deliveries") -> Task:
        """Bring a delivery into `Error`: its drone is refused, and behaves as given at later attempts."""
        self.remote.script(f"{task}/drone/do", Behaviour.REFUSES, *later)
        await self.submit(task, resource)
        return await self.until_state(task, "Error")

    async def overview(self) -> dict[str, Any]:
        """Read the overview."""
        async with self.session.get("/api/ops/overview") as answer:
            found: dict[str, Any] = await answer.json()
            return found

    async def write(self, story: Story) -> None:
        """Write a task to the state store."""
        async with self.tasks_table() as table:
            await story.write(table, SHARDS)

    @asynccontextmanager
    async def tasks_table(self) -> AsyncIterator[AzureTable]:
        """Open the table of the tasks."""
        with TableServiceClient.from_connection_string(self.platform.addresses.storage_connection) as service:
            assert isinstance(service.credential, AzureNamedKeyCredential)
            session = StorageSession(service.url, service.credential)
        try:
            yield AzureTable(session, "Tasks")
        finally:
            await session.aclose()


@asynccontextmanager
async def running(data: Path) -> AsyncIterator[Bench]:
    """Run a platform whose Supervisor sweeps every second."""
    async with RemoteService().serving() as remote:
        urls = {f"{each.upper()}_URL": f"{remote.url}/{each}" for each in _STEPS}
        async with bench_with(remote, data, {**_SETTINGS, **urls}, app=_APP) as bench:
            yield Bench(bench.settings, bench.platform, bench.session, bench.remote)


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
        """Return the window's width in pixels."""
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
            outline = "each => each === document.activeElement ? getComputedStyle(each).outlineStyle : null"
            if (style := await target.evaluate(outline)) is not None:
                assert style == "solid"
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
