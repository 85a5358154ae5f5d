"""The tutorial has its reader change what a workflow needs, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

from tests.house.documents import ROOT
from tests.tutorial.project import REGISTRY, changed_files, follow_tutorial, shown


def _file(name: str) -> str:
    [text] = [block.text for block in shown() if block.file == name]
    return text


def test_application_differs_in_the_workflow_and_the_registry(tmp_path: Path) -> None:
    """A workflow is a folder of its own, and an entry in one list."""
    follow_tutorial(tmp_path, services="http://127.0.0.1:8090")
    assert changed_files(tmp_path) == {"functions/workflows/trips", REGISTRY}


def test_registry_has_one_workflow_more() -> None:
    """Without `trips` it is the project's own, so that a reader of today can paste it."""
    lines = [line for line in _file(REGISTRY).splitlines(keepends=True) if "trips" not in line]
    assert "".join(lines) == (ROOT / REGISTRY).read_text(encoding="utf-8")


def test_settings_are_the_addresses_of_the_new_agents() -> None:
    """Named after them."""
    settings = json.loads(_file("local.settings.json"))["Values"]
    assert settings.keys() == {"FLIGHT_URL", "HOTEL_URL", "CAR_URL"}
