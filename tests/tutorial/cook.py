"""Runs the application with the workflows of pages, and the pages' commands."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local.platform import ANY_PORTS, Platform, PlatformOptions
from tests.e2e.caller import PATIENCE
from tests.house.documents import code_blocks
from tests.tutorial.project import RECIPES, TripServices, follow

_HOST = "http://127.0.0.1:7071"


@dataclass(frozen=True, slots=True)
class Cook:
    """Runs a page's commands."""

    platform: Platform
    services: TripServices

    async def types(self, command: str) -> str:
        """Run a command with the ports of this platform."""
        words = shlex.split(command.replace(_HOST, self.platform.addresses.host))
        process = await asyncio.create_subprocess_exec(
            *words, "--silent", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        printed, _ = await process.communicate()
        return printed.decode()

    async def until(self, command: str, reached: str) -> dict[str, Any]:
        """Look until the task has reached something."""
        async with asyncio.timeout(PATIENCE):
            while True:
                printed = await self.types(command)
                if reached in printed:
                    found: dict[str, Any] = json.loads(printed)
                    return found
                await asyncio.sleep(0.1)


@asynccontextmanager
async def cooking(
    folder: Path, settings: Mapping[str, str], pages: Sequence[str] = RECIPES
) -> AsyncIterator[Cook]:
    """Build the application from pages, and run it beside the tutorial's services."""
    app, elsewhere = folder / "app", folder / "elsewhere"
    app.mkdir()
    elsewhere.mkdir()
    with TripServices(elsewhere) as services:
        async with asyncio.timeout(PATIENCE):
            while not services.printed:
                await asyncio.sleep(0.05)
        follow(pages, app, services.printed[0])
        options = PlatformOptions(
            ports=ANY_PORTS, data=elsewhere / "data", app=app, in_memory_storage=True, settings=settings
        )
        async with Platform(options) as platform:
            yield Cook(platform, services)


def commands(resource: str) -> Sequence[str]:
    """Return the pages' commands for a resource, in order."""
    blocks = [block.text for page in RECIPES for block in code_blocks(page) if block.language == "sh"]
    [block] = [text for text in blocks if f"/api/{resource}/" in text]
    return block.splitlines()
