"""`docs/deploy.md` answers a fresh reader's questions in the order in which they come."""

from __future__ import annotations

import re

from tests.house.documents import ROOT

_IN_ORDER = (
    "What it makes",
    "What it costs",
    "One command",
    "Size",
    "Zones and regions",
    "Network",
    "Sign-in",
    "When it fails",
)


def test_sections_come_in_order() -> None:
    """What it makes and costs, how, which choices, and what to do when it fails."""
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.+)$", page, re.MULTILINE)
    assert [each for each in headings if each in _IN_ORDER] == list(_IN_ORDER)


def test_page_says_that_nothing_was_deployed() -> None:
    """Before anything else."""
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    assert "No deployment to a subscription was tested" in page.split("\n## ")[0]
