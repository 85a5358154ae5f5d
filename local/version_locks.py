"""The lock of a workflow's versions: what each is made of, as digests, in `versions.lock` in its folder.

A version that is locked stays as it is: tasks in flight may have been submitted with it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from functions.pattern.definition import Workflow
from functions.pattern.shape import StepShape
from functions.workflows import registry
from functions.workflows.registration import Registration

FOLDERS = Path(registry.__file__).parent

_FIX = "python -m local workflows lock"
_CHARACTERS = 16


def lock(folders: Path = FOLDERS, registrations: Iterable[Registration] | None = None) -> list[str]:
    """Add new versions to the locks; give what keeps some from it. Nothing that is locked is changed."""
    faults: list[str] = []
    for place, registration in _places(folders, registrations):
        known = _read(place)
        changed = [fault for each in registration.versions for fault in _changes(each, known)]
        faults += changed
        if not changed:
            new = {str(each.version): _locked(each) for each in registration.versions}
            text = json.dumps(dict(sorted((known | new).items(), key=lambda each: int(each[0]))), indent=2)
            place.write_text(f"{text}\n", encoding="utf-8")
    return faults


def check(folders: Path = FOLDERS, registrations: Iterable[Registration] | None = None) -> list[str]:
    """Tell what is not as it is locked, or not locked at all: the step, and what to do."""
    changed = [
        fault
        for place, registration in _places(folders, registrations)
        for known in [_read(place)]
        for each in registration.versions
        for fault in _changes(each, known)
    ]
    return [*changed, *(f"{name} is not locked: {_FIX}" for name in unlocked(folders, registrations))]


def unlocked(folders: Path = FOLDERS, registrations: Iterable[Registration] | None = None) -> list[str]:
    """Name the versions that no lock knows yet."""
    return [
        _name(each)
        for place, registration in _places(folders, registrations)
        for known in [_read(place)]
        for each in registration.versions
        if str(each.version) not in known
    ]


def _places(
    folders: Path, registrations: Iterable[Registration] | None
) -> Iterable[tuple[Path, Registration]]:
    loaded = registry.load_registrations() if registrations is None else registrations
    names = registry.FOLDERS if registrations is None else [each.workflow.resource for each in loaded]
    return [(folders / name / "versions.lock", each) for name, each in zip(names, loaded, strict=True)]


def _read(place: Path) -> dict[str, Any]:
    known: dict[str, Any] = json.loads(place.read_text(encoding="utf-8")) if place.exists() else {}
    return known


def _locked(workflow: Workflow) -> dict[str, Any]:
    steps = {step.name: _digest(_content(step)) for step in workflow.shape.steps}
    return {
        "shape": _digest(workflow.shape.written),
        "cancel_within": workflow.cancel_within,
        "steps": steps,
    }


def _changes(workflow: Workflow, known: Mapping[str, Any]) -> list[str]:
    """Tell how a version differs from what is locked under its number."""
    before, now = known.get(str(workflow.version)), _locked(workflow)
    if before is None or before["shape"] == now["shape"]:
        return []
    old, new = before["steps"], now["steps"]
    names = [*new, *(name for name in old if name not in new)]
    differing = [name for name in names if old.get(name) != new.get(name)]
    told = [f"step '{name}' {_what(old.get(name), new.get(name))}" for name in differing]
    if before["cancel_within"] != now["cancel_within"]:
        told.append("its cancel_within has changed")
    if not told:
        told = ["the order of its steps has changed, or what happens when it fails"]
    fix = "give it a new version (docs/changing-a-workflow.md)"
    return [f"{_name(workflow)}: {each}: {fix}" for each in told]


def _what(old: str | None, new: str | None) -> str:
    if old is None:
        return "is new"
    return "is gone" if new is None else "has changed"


def _name(workflow: Workflow) -> str:
    return f"version {workflow.version} of workflow '{workflow.name}'"


def _content(step: StepShape) -> bytes:
    """Write a step by itself: what it needs by name, so that a step more changes no other's digest."""
    return json.dumps(step.facts, sort_keys=True).encode()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_CHARACTERS]
