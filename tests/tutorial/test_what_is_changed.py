"""The tutorial changes only what a workflow needs."""

from __future__ import annotations

import json

from functions.workflows.registry import FOLDERS
from tests.house.documents import ROOT
from tests.tutorial.project import REGISTRY, WORKFLOW, shown


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
    assert [line for line in lines if line in {f'    "{folder}",' for folder in FOLDERS}] == [
        f'    "{folder}",' for folder in FOLDERS
    ]


def test_settings_are_the_addresses_of_the_new_agents() -> None:
    """Each is named after its Agent."""
    settings = json.loads(_file("local.settings.json"))["Values"]
    assert settings.keys() == {"FLIGHT_URL", "HOTEL_URL", "CAR_URL"}
