"""A copy of the project in which a reader has followed pages, running, with the pages' commands."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from local.platform import ANY_PORTS, Platform, PlatformOptions
from tests.e2e.caller import PATIENCE
from tests.house.documents import ROOT, CodeBlock, code_blocks

TUTORIAL = "docs/your-own-workflow.md"
#: The recipes' addresses and their lines in the registry are on the first page.
RECIPES = (
    "docs/recipes.md",
    "docs/recipes/waiting.md",
    "docs/recipes/failing.md",
    "docs/recipes/partners.md",
    "docs/recipes/workflows.md",
)
_SERVICES_FILE = "trip_services.py"
_SETTINGS_FILE = "local.settings.json"
_SERVICES_ADDRESS = "http://127.0.0.1:8090"
_COPIED = ("function_app.py", "host.json", "infra/queues.json", "local.settings.sample.json")
REGISTRY = "functions/workflows/registry.py"
_WORKFLOWS = "functions/workflows/"
WORKFLOW = f"{_WORKFLOWS}trips"
_LIST = "FOLDERS: Sequence[str] = [\n"
_HEADING = "\n## "
_HOST = "http://127.0.0.1:7071"


def shown() -> list[CodeBlock]:
    """Return the tutorial's code blocks."""
    return code_blocks(TUTORIAL)


class TripServices:
    """The tutorial's stand-in services, in a separate process, on a free port."""

    def __init__(self, folder: Path) -> None:
        [code] = [block.text for block in shown() if block.file == _SERVICES_FILE]
        (folder / _SERVICES_FILE).write_text(code, encoding="utf-8")
        self._printed = folder / "printed"
        with self._printed.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, _SERVICES_FILE, "0"], cwd=folder, stdout=output, stderr=subprocess.DEVNULL
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    @property
    def printed(self) -> list[str]:
        """Return the lines that its shell shows: the address, then each call with its response."""
        return self._printed.read_text(encoding="utf-8").splitlines()

    def calls_of(self, trip: str) -> list[str]:
        """Return the calls for one trip, without its run id."""
        called = map(without_run_ids, self.printed[1:])
        return [line for line in called if re.search(rf"/{trip}(\.\d+)? ", line)]


def without_run_ids(line: str) -> str:
    """Return a line of the services without run ids, which are random."""
    return re.sub(r"\.[0-9a-f]{8}(?=[ ./])", "", line)


def follow(documents: Iterable[str], folder: Path, services: str) -> None:
    """Copy the application to `folder`, and add the files of documents, with the address of the services."""
    blocks = [block for document in documents for block in code_blocks(document)]
    copied = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "functions", folder / "functions", ignore=copied)
    for name in _COPIED:
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    _add_workflows(blocks, folder)
    settings = folder / _SETTINGS_FILE
    [shown_settings] = [block.text for block in blocks if block.file == _SETTINGS_FILE]
    settings.write_text(shown_settings.replace(_SERVICES_ADDRESS, services), encoding="utf-8")


def _add_workflows(blocks: Sequence[CodeBlock], folder: Path) -> None:
    write_workflows(blocks, folder)
    [line] = [block.text for block in blocks if block.file == REGISTRY]
    registry = folder / REGISTRY
    before = registry.read_text(encoding="utf-8").replace(line, "")
    registry.write_text(before.replace(_LIST, _LIST + line), encoding="utf-8")


def write_workflows(blocks: Iterable[CodeBlock], folder: Path) -> None:
    """Write the files of workflows."""
    for block in blocks:
        if block.file is not None and block.file.startswith(_WORKFLOWS) and block.file != REGISTRY:
            path = folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")


def folders_of(blocks: Iterable[CodeBlock]) -> list[str]:
    """Return the folders that the lines for the registry name."""
    return [name for block in blocks if block.file == REGISTRY for name in re.findall(r'"(\w+)"', block.text)]


def scene(number: int) -> tuple[list[str], list[list[str]]]:
    """Return the `curl` lines of a numbered section, and the lines of each of its outputs."""
    text = (ROOT / TUTORIAL).read_text(encoding="utf-8")
    [section] = [part for part in text.split(_HEADING) if part.startswith(f"{number}. ")]
    blocks = [block for block in shown() if block.text in section]
    commands = [
        line
        for block in blocks
        if block.language == "sh"
        for line in block.text.splitlines()
        if "curl" in line
    ]
    outputs = [block.text.splitlines() for block in blocks if block.language == "text"]
    return commands, [[*map(without_run_ids, lines)] for lines in outputs]


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

    async def ends(self, submit: str, look: str, state: str = "Processed") -> dict[str, Any]:
        """Submit an order, and return it when it is in a state."""
        await self.types(submit)
        return await self.until(look, f'"state":"{state}"')

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
