"""A workflow is loaded from its folder, and each fault is named with its fix."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from functions.agents.http_agent import RestAgent
from functions.core.definition.workflow_definition import WorkflowRegistry
from functions.services.service import SampleService
from functions.workflow import DefinitionError, Step, Workflow
from functions.workflows.registry import (
    FOLDERS,
    Registration,
    agent_classes,
    load_registration,
    load_registrations,
    sample_services,
)

_PACKAGE = "new_workflows_of_this_test"
_CODE = """
from pydantic import BaseModel
from functions.workflow import Step, Workflow
from functions.workflows.registry import Registration

class Line(BaseModel):
    pass

STEP = Step("pick", request=lambda line, results: {})
REGISTRATION = Registration(Workflow("line", payload=Line, steps=[STEP]))
"""


class Line(BaseModel):
    """The payload."""


class OwnAgent(RestAgent):
    """An Agent of a workflow's own."""


def _workflow(name: str, *agents: str, version: int = 1) -> Workflow[Line]:
    steps = [Step(agent, request=lambda _line, _results: {}) for agent in agents]
    return Workflow(name, payload=Line, steps=steps, version=version)


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make a package of workflows that can be imported."""
    package = tmp_path / _PACKAGE
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    yield package
    for name in [name for name in sys.modules if name.startswith(_PACKAGE)]:
        del sys.modules[name]


def _write(folders: Path, code: str) -> None:
    (folders / "lines").mkdir()
    (folders / "lines" / "__init__.py").write_text(code, encoding="utf-8")


def test_registered_workflows_can_be_served_together() -> None:
    """Each folder is loaded in its order, with its Agents and services."""
    loaded = load_registrations()
    assert len(loaded) == len(FOLDERS)
    registry = WorkflowRegistry([version for each in loaded for version in each.versions])
    assert [each.name for each in registry] == [each.workflow.name for each in loaded]
    assert agent_classes(loaded).keys() == {name for each in loaded for name in each.agents}
    assert list(sample_services(loaded)) == [service for each in loaded for service in each.services]


def test_workflow_is_loaded_from_its_folder(folders: Path) -> None:
    """Agents, services and older versions are optional."""
    _write(folders, _CODE)
    loaded = load_registration("lines", _PACKAGE)
    assert (loaded.workflow.name, loaded.agents, loaded.services, loaded.older) == ("line", {}, (), ())


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (
            None,
            f'the registry names "lines", but {_PACKAGE}/lines/ does not exist: add it, or remove the line',
        ),
        (
            "",
            f"{_PACKAGE}/lines/__init__.py has no REGISTRATION: add `REGISTRATION = Registration(WORKFLOW)`",
        ),
        (
            "from functions.workflow import Expire",
            f"{_PACKAGE}/lines cannot be imported: cannot import name 'Expire' from 'functions.workflow'",
        ),
    ],
    ids=["missing", "empty", "import"],
)
def test_folder_that_cannot_be_loaded_is_named(folders: Path, code: str | None, text: str) -> None:
    """In one line."""
    if code is not None:
        _write(folders, code)
    with pytest.raises(DefinitionError) as fault:
        load_registration("lines", _PACKAGE)
    assert str(fault.value).startswith(text)


@pytest.mark.parametrize(
    "parts", [{"older": _workflow("line", "pick")}, {"services": SampleService("parcels", BaseModel)}]
)
def test_one_part_without_its_comma_is_named(parts: Any) -> None:
    """Brackets alone make no tuple."""
    [name] = parts
    with pytest.raises(DefinitionError) as fault:
        Registration(_workflow("line", "pick", version=2), **parts)
    text = f'workflow "line": {name} of its registration is no tuple: use {name}=(ONE,), with the comma'
    assert str(fault.value).endswith(text)


def test_agent_has_one_class_and_a_step() -> None:
    """An Agent that only an older version names is known."""
    one, two = _workflow("one", "open"), _workflow("two", "open")
    shared = [Registration(each, {"open": OwnAgent}) for each in (one, two)]
    assert agent_classes(shared) == {"open": OwnAgent}
    with pytest.raises(DefinitionError, match=r'^two workflows define the Agent "open"'):
        agent_classes([shared[0], Registration(two, {"open": RestAgent})])
    newest = Registration(_workflow("one", "pack", version=2), {"open": OwnAgent}, older=(one,))
    assert agent_classes([newest]) == {"open": OwnAgent}
    with pytest.raises(DefinitionError, match=r'agents: "opne" is the Agent of no step: use one of open$'):
        agent_classes([Registration(one, {"opne": OwnAgent})])


def test_sample_service_may_be_shared_but_not_its_name() -> None:
    """Its name is that of its path and its table."""
    parcels, others = (SampleService("parcels", BaseModel) for _ in range(2))
    one, two = _workflow("one", "open"), _workflow("two", "open")
    shared = [Registration(each, services=(parcels,)) for each in (one, two)]
    assert sample_services(shared) == (parcels,)
    with pytest.raises(DefinitionError, match=r'^two workflows define the sample service "parcels"'):
        sample_services([shared[0], Registration(two, services=(others,))])
