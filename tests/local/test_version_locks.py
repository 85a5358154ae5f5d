"""A locked version cannot change unnoticed, and the fault names the step or the option."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, create_model

from functions.workflow import DefinitionError, Json, Results, Step, Workflow
from functions.workflows import registry
from functions.workflows.registry import Registration
from local import version_locks
from local.command_line import main
from local.version_locks import check, lock, unlocked


class Line(BaseModel):
    """The payload."""


def _request(_line: Line, _results: Results) -> Json:
    return {}


def _step(name: str, *needs: str, **options: Any) -> Step[Any]:
    return Step(name, **{"request": _request, "needs": needs, **options})


PICK, SEND = _step("pick", undo=True), _step("send", "pick")


def _line(*steps: Step[Any], **options: Any) -> Workflow[Line]:
    fields: dict[str, Any] = {"steps": steps or (PICK, SEND), "cancel_within": 30, "payload": Line, **options}
    return Workflow("line", resource="lines", **fields)


def test_every_registered_version_is_as_it_is_locked() -> None:
    """The workflows of this application."""
    assert check() == []


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """Make the folder of a workflow whose only version is locked."""
    (tmp_path / "lines").mkdir()
    assert lock(tmp_path, [Registration(_line())]) == []
    return tmp_path


@pytest.mark.parametrize(
    ("steps", "options", "change"),
    [
        ((PICK, SEND, _step("bill")), {}, "step 'bill' is new"),
        ((PICK,), {}, "step 'send' is removed"),
        ((PICK, _step("send", "pick", agent="drone")), {}, "step 'send' has changed"),
        ((PICK, _step("send", "pick", undo=True)), {}, "step 'send' has changed"),
        ((PICK, _step("send", "pick", complete_within=20)), {}, "step 'send' has changed"),
        ((PICK, _step("send")), {}, "step 'send' has changed"),
        ((SEND, PICK), {}, "the order of its steps has changed"),
        ((), {"on_failure": "compensate"}, "its on_failure has changed"),
        ((), {"on_exhausted": "compensate"}, "its on_exhausted has changed"),
        ((), {"cancel_within": 60}, "its cancel_within has changed"),
        ((), {"complete_within": 60}, "its complete_within has changed"),
    ],
)
def test_change_without_a_new_version_is_named(
    folders: Path, steps: tuple[Step[Any], ...], options: dict[str, Any], change: str
) -> None:
    """With the fix. It can't be locked; a new version can."""
    changed = Registration(_line(*steps, **options))
    fault = f"version 1 of workflow 'line': {change}: give it a new version (docs/changing-a-workflow.md)"
    assert check(folders, [changed]) == lock(folders, [changed]) == [fault]
    newer = [Registration(_line(*steps, **options, version=2), older=(_line(),))]
    missing = "version 2 of workflow 'line' is not locked: python -m local workflows lock"
    assert check(folders, newer) == [missing]
    assert lock(folders, newer) == check(folders, newer) == []


def test_lock_outlives_its_version_and_functions_of_steps_may_change(folders: Path) -> None:
    """A number is not used for another definition. Functions and models are not recorded with a task."""
    pick = _step(
        "pick", undo=True, request=lambda _line, _results: {"a": 1}, when=lambda _line, _results: True
    )
    changed = _line(pick, SEND, payload=create_model("Stricter", colour=str))
    assert check(folders, [Registration(changed)]) == []
    lock(folders, [Registration(_line(version=2))])
    assert len(check(folders, [Registration(_line(PICK, version=2))])) == 1
    assert len(check(folders, [Registration(_line(PICK))])) == 1


def test_command_names_the_locked_versions(
    folders: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is a file to commit; here all versions are locked already.

    A definition that cannot work is named in one line, with the exit code of a refusal.
    """
    assert main(["workflows", "lock"]) == 0
    assert capsys.readouterr().out == "all versions of all workflows are locked, as they are\n"
    registrations = [Registration(_line(version=2), older=(_line(),))]
    with monkeypatch.context() as changed:
        changed.setattr(version_locks, "unlocked", lambda: unlocked(folders, registrations))
        changed.setattr(version_locks, "lock", lambda: lock(folders, registrations))
        assert main(["workflows", "lock"]) == 0
    text = "version 2 of workflow 'line' is locked now: commit its versions.lock\n"
    assert capsys.readouterr().out == text

    def refuse() -> None:
        raise DefinitionError('workflow "stays": steps: 0 steps: use 1 to 90')

    monkeypatch.setattr(registry, "load_registrations", refuse)
    assert main(["workflows", "lock"]) == 2
    assert capsys.readouterr().err == 'workflow "stays": steps: 0 steps: use 1 to 90\n'
