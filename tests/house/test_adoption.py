"""An adopter adds a workflow and may delete the samples; the tests of the project still pass."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.budgets import tracked
from tests.house.documents import ROOT, SAMPLES
from tests.infra.azure.published import FOLDER as AZURE_TYPES

pytestmark = [pytest.mark.night, pytest.mark.timeout(3_600)]

_WORKFLOW = '''
"""Luggage: a shelf is reserved, and a carrier behind a queue takes the bag."""

from __future__ import annotations

from pydantic import BaseModel

from functions.workflow import Json, QueueStep, Results, Step, Workflow
from functions.workflows.registry import Registration


class Bag(BaseModel):
    weight: float


def _request(bag: Bag, _results: Results) -> Json:
    return {"weight": bag.weight}


SHELF = Step("shelf", request=_request, undo=True)
CARRIER = QueueStep("carrier", needs=[SHELF], request=_request)
REGISTRATION = Registration(Workflow("luggage", payload=Bag, steps=[SHELF, CARRIER]))
'''
_REGISTRY = "functions/workflows/registry.py"
_PYTEST = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-m", "not night and not process"]
_COMMANDS = [
    ["git", "init", "--quiet"],
    ["git", "add", "--all"],
    [sys.executable, "-m", "local", "workflows", "lock"],
    [sys.executable, "-m", "local.queue_list"],
    [*_PYTEST, "tests/house", "tests/unit", "tests/infra", "tests/security"],
]


def adopt(folder: Path, *deleted: str) -> None:
    """Copy the project, add a workflow in front of the others, and delete some samples with their tests."""
    for path in tracked("*"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, folder / path)
    added = folder / "functions/workflows/luggage/__init__.py"
    added.parent.mkdir()
    added.write_text(_WORKFLOW.lstrip(), encoding="utf-8")
    registry = (folder / _REGISTRY).read_text(encoding="utf-8").replace("= [\n", '= [\n    "luggage",\n', 1)
    for name in deleted:
        registry = registry.replace(f'    "{name}",\n', "")
        shutil.rmtree(folder / "functions/workflows" / name)
        for tests in folder.glob(f"tests/*/workflows/{name}"):
            shutil.rmtree(tests)
    (folder / _REGISTRY).write_text(registry, encoding="utf-8")


@pytest.mark.parametrize("deleted", [(), SAMPLES], ids=["with the samples", "without the samples"])
def test_tests_of_the_project_pass_with_another_workflow(deleted: tuple[str, ...], tmp_path: Path) -> None:
    """After the two commands that write what follows from the definitions."""
    adopt(tmp_path, *deleted)
    sources = [tmp_path, *tmp_path.glob("packages/*/src")]
    path = os.pathsep.join(map(str, sources))
    environment = {**os.environ, "PYTHONPATH": path, "AZURE_TYPES": str(AZURE_TYPES)}
    for command in _COMMANDS:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-2_000:]
