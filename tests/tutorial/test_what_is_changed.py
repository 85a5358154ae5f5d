"""The tutorial has its reader change what a workflow needs, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

from tests.house.documents import ROOT
from tests.tutorial.project import changed_files, follow_tutorial, shown

_REGISTRY = "functions/workflows/registry.py"


def _file(name: str) -> str:
    [text] = [block.text for block in shown() if block.file == name]
    return text


def test_application_differs_in_the_workflow_and_the_registry(tmp_path: Path) -> None:
    """A workflow is a folder of its own, and an entry in one list."""
    follow_tutorial(tmp_path, services="http://127.0.0.1:8090")
    assert changed_files(tmp_path) == {"functions/workflows/trips", _REGISTRY}


def test_registry_has_one_workflow_more() -> None:
    """Without `TRIPS` it is the project's own, so that a reader of today can paste it."""
    lines = [line for line in _file(_REGISTRY).splitlines(keepends=True) if "trips" not in line]
    before = "".join(lines).replace(", TRIPS", "")
    assert before == (ROOT / _REGISTRY).read_text(encoding="utf-8")


def test_settings_are_the_addresses_of_the_new_agents() -> None:
    """Named after them."""
    settings = json.loads(_file("local.settings.json"))["Values"]
    assert settings.keys() == {"FLIGHT_URL", "HOTEL_URL", "CAR_URL"}
