"""`make screenshots`: screenshots of the console for the documentation, in light and in dark mode.

The platform runs as in tests; the tasks of one hour are written to its state store first.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

from playwright.async_api import Browser

from tests.e2e.console.bench import SHARDS, Bench, Console, Scheme, running
from tests.e2e.console.browser import browsing
from tests.e2e.console.scenes import IN_QUESTION, STUCK, write_hour

FOLDER = Path(__file__).parents[3] / "docs" / "images"
MOST_BYTES = 256 * 1024

_WIDTH = 1120
_VIEWS = {
    "overview": "",
    "list": "#/tasks",
    "task": f"#/tasks/{STUCK}",
    "question": f"#/tasks/{IN_QUESTION}",
}
#: A text that the picture needs, because an instance reads some figures every few seconds only.
_NEEDED = {"overview": "the carrier moves its office"}


async def screenshots(folder: Path) -> Sequence[Path]:
    """Take all screenshots. Raises `ValueError` for one that is too large for a document."""
    with tempfile.TemporaryDirectory() as data:
        async with running(Path(data)) as bench, browsing() as browser:
            async with bench.tasks_table() as table:
                await write_hour(table, SHARDS, datetime.now(UTC))
            return [
                await _taken(bench, browser, folder, name, scheme)
                for scheme in get_args(Scheme.__value__)
                for name in _VIEWS
            ]


async def _taken(bench: Bench, browser: Browser, folder: Path, name: str, scheme: Scheme) -> Path:
    path = folder / f"console-{name}-{scheme}.png"
    host = bench.platform.addresses.host
    async with Console.of(browser, host, width=_WIDTH, height=600, scheme=scheme) as console:
        await console.open(_VIEWS[name])
        if name in _NEEDED:
            await console.page.get_by_text(_NEEDED[name]).wait_for()
        await console.page.screenshot(path=path, full_page=True)
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"{path} has more than {MOST_BYTES} bytes")
    return path


def main() -> None:
    """Take the screenshots, and print their names."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in asyncio.run(screenshots(FOLDER)):
        print(f"{path.name}: {path.stat().st_size // 1024} KB")  # noqa: T201 - a command's output


if __name__ == "__main__":
    main()
