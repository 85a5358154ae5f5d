"""A workflow can be removed or added without any other change; the tests pass either way."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from functions.workflows.registry import FOLDERS
from tests.house.documents import ROOT
from tests.infra.azure.published import FOLDER as AZURE_TYPES
from tests.tutorial.project import REGISTRY, add_workflow

_IGNORED = shutil.ignore_patterns(".*", "__pycache__", "node_modules")
#: The tests that cover the whole application, or every document.
_WHOLE = ("tests/security", "tests/infra", "tests/house/test_docs.py", "tests/unit/workflows")


def _remove_workflow(name: str, folder: Path) -> None:
    """Remove a workflow as the tutorial says."""
    for each in (folder / "functions", *(folder / "tests").iterdir()):
        shutil.rmtree(each / "workflows" / name, ignore_errors=True)
    registry = folder / REGISTRY
    line = f'    "{name}",\n'
    text = registry.read_text(encoding="utf-8")
    assert line in text
    registry.write_text(text.replace(line, ""), encoding="utf-8")


@pytest.mark.parametrize("name", FOLDERS)
def test_nothing_else_imports_the_workflow(name: str) -> None:
    """Neither the application nor the tests, except in the workflow's own folders."""
    imported = re.compile(rf"functions\.workflows(\.| import ([\w ,]*|\([\w\s,]*)\b){name}\b")
    files = [path for ring in ("functions", "local", "tests") for path in (ROOT / ring).rglob("*.py")]
    outside = [path for path in files if f"workflows/{name}/" not in str(path)]
    assert [str(path.relative_to(ROOT)) for path in outside if imported.search(path.read_text("utf-8"))] == []


@pytest.mark.night
@pytest.mark.process
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "change",
    [pytest.param(partial(_remove_workflow, name), id=f"without {name}") for name in FOLDERS]
    + [pytest.param(add_workflow, id="with another")],
)
def test_the_tests_still_pass(tmp_path: Path, change: Callable[[Path], None]) -> None:
    """In a copy of the project: those tests that cover the whole of it."""
    copy = tmp_path / "project"
    shutil.copytree(ROOT, copy, ignore=_IGNORED)
    for name in (".funcignore", ".gitignore", ".ci", ".github"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name)
        elif (ROOT / name).exists():
            shutil.copy(ROOT / name, copy / name)
    change(copy)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-m", "not process", "--quiet", "-p", "no:cacheprovider", *_WHOLE],
        cwd=copy,
        env={**os.environ, "AZURE_TYPES": str(AZURE_TYPES)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-4_000:] + ran.stderr[-1_000:]
