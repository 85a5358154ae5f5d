"""A workflow is loaded from its folder, and what is missing is said with the fix."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from functions.agents.rest import RestAgent
from functions.pattern.definition import Registry
from functions.pattern.errors import DefinitionError
from functions.services.service import SampleService
from functions.workflows.registration import Registration, agent_makers, load_registration, sample_services
from functions.workflows.registry import FOLDERS, load_registrations
from tests.fakes.workflows import DIAMOND, LINE

_PACKAGE = "workflows_of_this_test"


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


def _write(folders: Path, name: str, code: str) -> None:
    (folders / name).mkdir()
    (folders / name / "__init__.py").write_text(code, encoding="utf-8")


def test_registered_workflows_are_sound() -> None:
    """Each folder is loaded, in its order, and no two share a name."""
    loaded = load_registrations()
    assert len(loaded) == len(FOLDERS)
    registry = Registry(tuple(each.workflow for each in loaded), {})
    assert [each.name for each in registry] == [each.workflow.name for each in loaded]
    assert agent_makers(loaded).keys() <= {step.agent for each in registry for step in each.steps}


def test_registration_is_that_of_the_folder(folders: Path) -> None:
    """With what it has of its own, and nothing unless it says so."""
    _write(
        folders,
        "lines",
        "from functions.workflows.registration import Registration\n"
        "from tests.fakes.workflows import LINE\n"
        "REGISTRATION = Registration(LINE)\n",
    )
    assert load_registration("lines", _PACKAGE) == Registration(LINE, agents={}, services=())


@pytest.mark.usefixtures("folders")
def test_folder_that_is_missing_is_named_with_the_fix() -> None:
    """As after the folder was deleted, but not its line."""
    with pytest.raises(DefinitionError) as refusal:
        load_registration("lines", _PACKAGE)
    told = f"the registry names 'lines', but there is no {_PACKAGE}/lines/: add it, or remove the line"
    assert str(refusal.value) == told


@pytest.mark.parametrize("code", ["", "REGISTRATION = 'LINE'"])
def test_folder_without_a_registration_is_named_with_the_fix(folders: Path, code: str) -> None:
    """As when the tutorial's third file was forgotten."""
    _write(folders, "lines", code)
    with pytest.raises(DefinitionError) as refusal:
        load_registration("lines", _PACKAGE)
    fix = "add `REGISTRATION = Registration(WORKFLOW)`"
    assert str(refusal.value) == f"{_PACKAGE}/lines/__init__.py has no REGISTRATION: {fix}"


def test_import_that_fails_in_a_folder_is_told_with_the_folder(folders: Path) -> None:
    """In one line, as any other fault of a definition."""
    _write(folders, "lines", "from functions.pattern.definition import Expire\n")
    with pytest.raises(DefinitionError) as refusal:
        load_registration("lines", _PACKAGE)
    told = f"{_PACKAGE}/lines cannot be imported: cannot import name 'Expire' from 'functions.pattern"
    assert str(refusal.value).startswith(told)
    assert refusal.value.__suppress_context__


@pytest.mark.parametrize("parts", [{"older": LINE}, {"services": SampleService("parcels", lambda *_: None)}])
def test_one_part_without_its_comma_is_named_with_the_fix(parts: Any) -> None:
    """Brackets alone make no tuple."""
    [name] = parts
    with pytest.raises(DefinitionError) as refusal:
        Registration(replace(LINE, version=2), **parts)
    assert str(refusal.value) == (
        f"workflow 'line': {name} of its registration must be a tuple: write {name}=(ONE,), with the comma"
    )


def test_agent_may_be_shared_but_not_made_in_two_ways() -> None:
    """Its name is that of its service's address."""

    class OtherAgent(RestAgent):
        pass

    one, same, other = (
        Registration(DIAMOND, {"open": maker}) for maker in (RestAgent, RestAgent, OtherAgent)
    )
    assert agent_makers([one, same]) == {"open": RestAgent}
    with pytest.raises(DefinitionError, match=r"^two workflows define the Agent 'open'"):
        agent_makers([one, other])


def test_agent_of_no_step_is_named() -> None:
    """A misspelt one would leave its step to the REST Agent. What only an older version names is known."""
    older = replace(LINE, name="diamond", resource="diamonds")
    newest = replace(DIAMOND, name="diamond", resource="diamonds", version=2)
    assert agent_makers([Registration(newest, {"pick": RestAgent}, older=(older,))]) == {"pick": RestAgent}
    with pytest.raises(DefinitionError) as refusal:
        agent_makers([Registration(LINE, {"pikc": RestAgent})])
    assert str(refusal.value) == (
        "workflow 'line': agents names 'pikc', which is the agent of no step; the agents are pick, send"
    )


def test_sample_service_may_be_shared_but_not_its_name() -> None:
    """Its name is that of its path and its table."""
    parcels, others = (SampleService("parcels", lambda *_: None) for _ in range(2))
    one, same, other = (Registration(DIAMOND, services=(each,)) for each in (parcels, parcels, others))
    assert sample_services([one, same]) == (parcels,)
    assert parcels.table == "Parcels"
    with pytest.raises(DefinitionError, match=r"^two workflows define the sample service 'parcels'"):
        sample_services([one, other])
