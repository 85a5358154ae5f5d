"""A copy of the project in which a reader has followed `docs/your-own-workflow.md`."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import replace
from filecmp import cmp, dircmp
from pathlib import Path
from typing import Self

from tests.house.documents import ROOT, CodeBlock, code_blocks

_TUTORIAL = "docs/your-own-workflow.md"
_SERVICES_FILE = "trip_services.py"
_SETTINGS_FILE = "local.settings.json"
_SERVICES_ADDRESS = "http://127.0.0.1:8090"
_COPIED = ("function_app.py", "host.json", "infra/queues.json", "local.settings.sample.json")
_HEADING = "\n## "

#: What the registry says of each workflow, and the tutorial's own.
REGISTRY = "functions/workflows/registry.py"
_NEW = "trips"
_ENTRY = re.compile(r'^    "(\w+)",\n', re.MULTILINE)


def shown() -> list[CodeBlock]:
    """Give the tutorial's blocks of code; its registry names none of the samples that were removed here."""
    return [
        replace(block, text=_ENTRY.sub(_if_there, block.text)) if block.file == REGISTRY else block
        for block in code_blocks(_TUTORIAL)
    ]


def _if_there(entry: re.Match[str]) -> str:
    there = entry[1] == _NEW or (ROOT / REGISTRY).with_name(entry[1]).is_dir()
    return entry[0] if there else ""


class TripServices:
    """The tutorial's stand-ins, in a process of their own, on a free port."""

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
        """Give the lines that its shell shows: the address, then each call with its answer."""
        return self._printed.read_text(encoding="utf-8").splitlines()

    def calls_of(self, trip: str) -> list[str]:
        """Give the calls for one trip."""
        return [line for line in self.printed[1:] if f"/{trip} " in line]


def follow_tutorial(folder: Path, services: str) -> None:
    """Copy the application to `folder`, and write what the tutorial shows; `services` is their address."""
    shutil.copytree(ROOT / "functions", folder / "functions", ignore=shutil.ignore_patterns("__pycache__"))
    for name in _COPIED:
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    for block in shown():
        if block.file is not None and block.file != _SERVICES_FILE:
            path = folder / block.file
            path.parent.mkdir(exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
    settings = folder / _SETTINGS_FILE
    settings.write_text(settings.read_text(encoding="utf-8").replace(_SERVICES_ADDRESS, services))


def changed_files(folder: Path) -> set[str]:
    """Name what differs between the copy and the project."""
    functions = dircmp(ROOT / "functions", folder / "functions", ignore=["__pycache__"])
    copied = {name for name in _COPIED if not cmp(ROOT / name, folder / name, shallow=False)}
    return copied | _changed(functions, "functions")


def _changed(compared: dircmp[str], path: str) -> set[str]:
    below = (_changed(each, f"{path}/{name}") for name, each in compared.subdirs.items())
    here = (*compared.left_only, *compared.right_only, *compared.diff_files)
    return {f"{path}/{name}" for name in here}.union(*below)


def scene(number: int) -> tuple[list[str], list[list[str]]]:
    """Give a numbered section's `curl` lines, and the lines that each of its outputs shows."""
    text = (ROOT / _TUTORIAL).read_text(encoding="utf-8")
    [section] = [part for part in text.split(_HEADING) if part.startswith(f"{number}. ")]
    blocks = [block for block in shown() if block.text in section]
    commands = [
        line
        for block in blocks
        if block.language == "sh"
        for line in block.text.splitlines()
        if "curl" in line
    ]
    return commands, [block.text.splitlines() for block in blocks if block.language == "text"]
