"""The runbook: each alert has a section, and each section an alert."""

from __future__ import annotations

import re

from functions.web.access import OWN_HEADER
from tests.infra.bicep.deployment import Planned
from tests.infra.watching.conftest import ROOT
from tests.infra.watching.resources import alerts

_RUNBOOK = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
_SECTION = re.compile(r"^## `([a-z-]+)`: .+?$(.+?)(?=^## )", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| \[`([a-z-]+)`\]\(#.+\) \| (\d) \|", re.MULTILINE)


def test_every_alert_has_its_section_and_every_section_its_alert(plan: list[Planned]) -> None:
    """An operator who gets an alert at three in the morning finds the section under the alert's name."""
    assert sorted(section[1] for section in _SECTION.finditer(_RUNBOOK)) == sorted(alerts(plan))


def test_every_section_says_what_it_means_and_what_to_do() -> None:
    """And what to look at."""
    for name, text in _SECTION.findall(_RUNBOOK):
        assert "**Meaning.**" in text, name
        assert re.search(r"\*\*Look at\*\*|\| what to do \|", text), name
        assert re.search(r"\*\*Do\.\*\*|\| what to do \|", text), name


def test_the_list_names_every_alert_with_its_severity(plan: list[Planned]) -> None:
    """As in the templates."""
    listed = {name: int(severity) for name, severity in _ROW.findall(_RUNBOOK)}
    assert listed == {name: alert.at("properties", "severity") for name, alert in alerts(plan).items()}


def test_every_command_that_acts_sends_the_required_header() -> None:
    """So the command works when it is copied."""
    commands = re.findall(r"^curl -X POST .+(?:\\\n.+)*", _RUNBOOK, re.MULTILINE)
    assert commands
    assert [command for command in commands if f"-H '{OWN_HEADER}: " not in command] == []
