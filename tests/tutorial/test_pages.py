"""The pages' definitions can be deployed together. Other modules import no workflow."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Secret, SecretStr

import functions.workflows
from functions.core.definition.workflow_definition import WorkflowRegistry
from functions.http.redaction import REDACTED, redacted
from functions.workflows.registry import FOLDERS, agent_classes, load_registration
from tests.house.documents import ROOT, CodeBlock, code_blocks
from tests.tutorial.project import (
    RECIPES,
    REGISTRY,
    WORKFLOW,
    folders_of,
    shown,
    write_workflows,
)

#: Makes the workflows of code blocks importable; returns their folder.
type Deploy = Callable[[Sequence[CodeBlock]], Path]


@pytest.fixture
def deploy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deploy]:
    """Return a function that makes the workflows of code blocks importable until the end of the test."""
    known = set(sys.modules)

    def write(blocks: Sequence[CodeBlock]) -> Path:
        write_workflows(blocks, tmp_path)
        folder = tmp_path / "functions/workflows"
        path = [*functions.workflows.__path__, str(folder)]
        monkeypatch.setattr(functions.workflows, "__path__", path)
        return folder

    yield write
    for name in [each for each in sys.modules if each not in known and "workflows." in each]:
        del sys.modules[name]


def test_all_recipes_can_be_deployed_together(deploy: Deploy) -> None:
    """The tutorial's workflow, children, versions and own Agents included."""
    blocks = [block for document in RECIPES for block in code_blocks(document)]
    deploy([*blocks, *shown()])
    registrations = [load_registration(folder) for folder in [*folders_of(blocks), "trips"]]
    versions = [version for each in registrations for version in each.versions]
    registry = WorkflowRegistry(versions)
    assert len(list(registry)) == len(registrations) == 13
    own = {"card", "contract", "report-state", "logistics", "statement"}
    assert agent_classes(registrations).keys() == own


def test_secret_fields_are_hidden_and_can_be_used() -> None:
    """The functions of a step read them."""
    [listing] = [block.text for block in shown() if "Secret[int]" in block.text]
    names: dict[str, Any] = {"BaseModel": BaseModel, "Secret": Secret, "SecretStr": SecretStr}
    exec(compile(listing, "page", "exec", dont_inherit=True), names)  # noqa: S102 - the page's own
    sent = {"card": "4111 1111", "pin": 7}
    assert redacted(names["Payer"], json.dumps(sent)) == {"card": REDACTED, "pin": REDACTED}
    payer = names["Payer"].model_validate(sent)
    assert payer.card.get_secret_value() == sent["card"]
    assert payer.model_dump(mode="json")["card"] == "*" * 10


def _file(name: str) -> str:
    [text] = [block.text for block in shown() if block.file == name]
    return text


def test_application_differs_in_the_workflow_and_the_registry() -> None:
    """A workflow is a folder, and an entry in one list."""
    changed = {block.file for block in shown() if block.file and block.file.startswith("functions/")}
    assert {name for name in changed if not name.startswith(f"{WORKFLOW}/")} == {REGISTRY}


def test_registry_has_one_line_for_each_workflow() -> None:
    """The tutorial adds such a line; removing a workflow removes one."""
    assert _file(REGISTRY) == '    "trips",\n'
    lines = (ROOT / REGISTRY).read_text(encoding="utf-8").splitlines()
    expected = [f'    "{folder}",' for folder in FOLDERS]
    assert [line for line in lines if line in expected] == expected


@pytest.mark.parametrize("name", FOLDERS)
def test_nothing_else_imports_the_workflow(name: str) -> None:
    """Only the workflow's own folders, in the application and in the tests, import it."""
    imported = re.compile(rf"functions\.workflows(\.| import ([\w ,]*|\([\w\s,]*)\b){name}\b")
    files = [path for ring in ("functions", "local", "tests") for path in (ROOT / ring).rglob("*.py")]
    outside = [path for path in files if f"workflows/{name}/" not in str(path)]
    assert [str(path.relative_to(ROOT)) for path in outside if imported.search(path.read_text("utf-8"))] == []
