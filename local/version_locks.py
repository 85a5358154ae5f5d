"""The lock of a workflow's versions: the recorded part of each definition, in `versions.lock` in its folder.

A locked version does not change, because tasks in flight may have been submitted with it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from functions.core.definition.defined_step import spec_facts
from functions.core.definition.workflow_definition import Workflow
from functions.workflows import registry
from functions.workflows.registry import Registration

FOLDERS = Path(registry.__file__).parent

#: Options of a workflow that are recorded with a task.
_OPTIONS = ("on_failure", "on_exhausted", "cancel_within", "complete_within")
_DIGEST_CHARACTERS = 16


def lock(folders: Path = FOLDERS, registrations: Iterable[Registration] | None = None) -> list[str]:
    """Add new versions to the locks. Return the changes of locked versions; such a lock stays as it is."""
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
    """Return the changes of locked versions, and the versions without a lock, each with the fix."""
    places = _places(folders, registrations)
    versions = [(each, _read(place)) for place, registration in places for each in registration.versions]
    changed = [fault for each, known in versions for fault in _changes(each, known)]
    unknown = unlocked(folders, registrations)
    return [*changed, *(f"{name} is not locked: python -m local workflows lock" for name in unknown)]


def unlocked(folders: Path = FOLDERS, registrations: Iterable[Registration] | None = None) -> list[str]:
    """Return the versions that no lock has."""
    return [
        _name(each)
        for place, registration in _places(folders, registrations)
        for each in registration.versions
        if str(each.version) not in _read(place)
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


def _locked(workflow: Workflow[Any]) -> dict[str, Any]:
    """Return the options of a version, and a digest of each step's snapshot by its name."""
    facts = {spec.name: json.dumps(spec_facts(spec), sort_keys=True) for spec in workflow.specs}
    digests = {
        name: hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_CHARACTERS] for name, text in facts.items()
    }
    return {**{option: getattr(workflow, option) for option in _OPTIONS}, "steps": digests}


def _changes(workflow: Workflow[Any], known: Mapping[str, Any]) -> list[str]:
    """Return how a version differs from the lock of its number."""
    before = known.get(str(workflow.version))
    fix = "give it a new version (docs/changing-a-workflow.md)"
    found = () if before is None else _differences(before, _locked(workflow))
    return [f"{_name(workflow)}: {each}: {fix}" for each in found]


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for option in _OPTIONS:
        if before[option] != now[option]:
            yield f"its {option} has changed"
    old, new = before["steps"], now["steps"]
    for name in [*new, *(name for name in old if name not in new)]:
        if name not in old:
            yield f"step '{name}' is new"
        elif name not in new:
            yield f"step '{name}' is removed"
        elif old[name] != new[name]:
            yield f"step '{name}' has changed"
    if old.keys() == new.keys() and list(old) != list(new):
        yield "the order of its steps has changed"


def _name(workflow: Workflow[Any]) -> str:
    return f"version {workflow.version} of workflow '{workflow.name}'"
