"""Finds the browser for the console's tests and screenshots; run as a command, it prints its name."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.async_api import Browser, Playwright, async_playwright

#: Where `make test` unpacks npm's `@sparticuz/chromium`, which is built for Linux on x64.
_UNPACKED = Path(__file__).parents[3] / "node_modules" / ".chromium"
_INSTALLED = (
    "google-chrome",
    "google-chrome-stable",
    "chromium",
    "chromium-browser",
    "microsoft-edge",
    "microsoft-edge-stable",
    "chrome",
    "msedge",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
)
_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-lcd-text",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class BrowserNotFoundError(Exception):
    """There is no browser on this machine."""

    def __init__(self) -> None:
        super().__init__(
            "No browser for the console's tests: install Chrome, Chromium or Edge,"
            " or run '.venv/bin/playwright install chromium'"
        )


@dataclass(frozen=True, slots=True)
class Executable:
    """A browser's executable, and the additional environment variables that it needs."""

    path: Path
    environment: Mapping[str, str] = field(default_factory=dict)


def find_browser(playwright: Playwright) -> Executable:
    """Find npm's Chromium, an installed browser, or Playwright's own. Raises `BrowserNotFoundError`."""
    unpacked = _UNPACKED / "chromium"
    if unpacked.exists():
        libraries = [str(_UNPACKED / "al2023" / "lib"), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        fonts = _UNPACKED / "fonts" / "fonts.conf"
        return Executable(
            unpacked, {"LD_LIBRARY_PATH": os.pathsep.join(libraries), "FONTCONFIG_FILE": str(fonts)}
        )
    for name in _INSTALLED:
        if installed := shutil.which(name):
            return Executable(Path(installed))
    downloaded = Path(playwright.chromium.executable_path)
    if downloaded.exists():
        return Executable(downloaded)
    raise BrowserNotFoundError


@asynccontextmanager
async def browsing() -> AsyncIterator[Browser]:
    """Run a headless browser with an empty profile. Raises `BrowserNotFoundError`."""
    async with async_playwright() as playwright:
        found = find_browser(playwright)
        browser = await playwright.chromium.launch(
            executable_path=found.path, args=_ARGUMENTS, env={**os.environ, **found.environment}
        )
        try:
            yield browser
        finally:
            await browser.close()


async def _report() -> str:
    async with async_playwright() as playwright:
        try:
            return f"The console's tests will use {find_browser(playwright).path}"
        except BrowserNotFoundError as error:
            return f"{error}; until then these tests are skipped"


if __name__ == "__main__":
    print(asyncio.run(_report()))  # noqa: T201 - a command's output
