"""What a check proves is a rule that a reader finds in the page for Agents."""

from __future__ import annotations

import re

import pytest

from local.agent_check.checks import throughout
from local.agent_check.plan import STAGES, Check
from local.platform import ROOT

_PAGE = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8")
_CHECKS = [check for stage in STAGES for check in stage if check is not throughout.it_stays_up]


@pytest.mark.parametrize("check", _CHECKS)
def test_check_names_its_rule(check: Check) -> None:
    """A rule by its number, or a section: the line of a broken rule ends with it."""
    named = re.search(r"\((?:rule (\d)|(The \w+))\)\.$", check.__doc__ or "")
    assert named
    assert f"\n{named[1]}. **" in _PAGE if named[1] else f"\n### {named[2]}\n" in _PAGE
