"""A version that is locked can't be changed unseen; whoever changes a step is told which one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from functions.pattern.definition import Workflow
from functions.pattern.errors import DefinitionError
from functions.pattern.states import Remedy
from functions.workflows import registry
from functions.workflows.registration import Registration
from local import version_locks
from local.command_line import main
from local.version_locks import check, lock, unlocked
from tests.fakes.workflows import LINE, step

#: It has a step that can be undone, as a workflow with cancel_within must.
CANCELLABLE = replace(LINE, steps=(replace(LINE.steps[0], undo=True), LINE.steps[1]), cancel_within=30)
PICK, SEND = CANCELLABLE.steps
FIX = "give it a new version (docs/changing-a-workflow.md)"


def test_every_registered_version_is_as_it_is_locked() -> None:
    """The workflows of this application: the line that fails says which step to look at."""
    assert check() == []


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """Make the folder of a workflow whose only version is locked."""
    (tmp_path / "lines").mkdir()
    assert lock(tmp_path, [Registration(CANCELLABLE)]) == []
    return tmp_path


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda of: replace(of, steps=(*of.steps, step("tell"))), "step 'tell' is new"),
        (lambda of: replace(of, steps=of.steps[:1]), "step 'send' is gone"),
        (lambda of: replace(of, steps=(PICK, replace(SEND, agent="drone"))), "step 'send' has changed"),
        (lambda of: replace(of, steps=(PICK, replace(SEND, undo=True))), "step 'send' has changed"),
        (lambda of: replace(of, steps=(PICK, replace(SEND, needs=set()))), "step 'send' has changed"),
        (
            lambda of: replace(of, on_failure=Remedy.COMPENSATE),
            "the order of its steps has changed, or what happens when it fails",
        ),
        (lambda of: replace(of, cancel_within=60), "its cancel_within has changed"),
    ],
)
def test_change_without_a_new_version_is_told(
    folders: Path, change: Callable[[Workflow], Workflow], told: str
) -> None:
    """With the step, and the fix; it can't be locked away. A new version of it can."""
    changed = change(CANCELLABLE)
    fault = f"version 1 of workflow 'line': {told}: {FIX}"
    assert check(folders, [Registration(changed)]) == [fault]
    assert lock(folders, [Registration(changed)]) == [fault]
    newer = Registration(replace(changed, version=2), older=(CANCELLABLE,))
    assert check(folders, [newer]) == [
        "version 2 of workflow 'line' is not locked: python -m local workflows lock"
    ]
    assert lock(folders, [newer]) == check(folders, [newer]) == []


def test_lock_outlives_its_version(folders: Path) -> None:
    """A number that was used once is not used for something else."""
    newer = replace(CANCELLABLE, version=2)
    lock(folders, [Registration(newer)])
    assert check(folders, [Registration(replace(newer, steps=CANCELLABLE.steps[:1]))]) != []
    assert len(check(folders, [Registration(replace(CANCELLABLE, steps=CANCELLABLE.steps[:1]))])) == 1


def test_functions_of_steps_may_change(folders: Path) -> None:
    """They are not recorded with a task."""
    other = replace(PICK, request=lambda _payload, _results: {}, when=lambda _payload, _results: True)
    assert check(folders, [Registration(replace(CANCELLABLE, steps=(other, SEND)))]) == []


def test_command_locks(capsys: pytest.CaptureFixture[str]) -> None:
    """Here everything is locked already, so nothing is written anew."""
    assert main(["workflows", "lock"]) == 0
    assert capsys.readouterr().out == "all versions of all workflows are locked, as they are\n"


def test_command_names_what_it_has_locked(
    folders: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever runs it sees that there is a file to commit."""
    registrations = [Registration(replace(CANCELLABLE, version=2), older=(CANCELLABLE,))]
    monkeypatch.setattr(version_locks, "unlocked", lambda: unlocked(folders, registrations))
    monkeypatch.setattr(version_locks, "lock", lambda: lock(folders, registrations))
    assert main(["workflows", "lock"]) == 0
    told = "version 2 of workflow 'line' is locked now: commit its versions.lock\n"
    assert capsys.readouterr().out == told


def test_definition_that_cannot_work_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As at start: with the exit code of what is refused."""

    def refuse() -> None:
        raise DefinitionError("workflow 'stays': step 'pay': via must be Way.ACTIVITY or Way.QUEUE")

    monkeypatch.setattr(registry, "load_registrations", refuse)
    assert main(["workflows", "lock"]) == 2
    assert capsys.readouterr().err == (
        "workflow 'stays': step 'pay': via must be Way.ACTIVITY or Way.QUEUE\n"
    )
