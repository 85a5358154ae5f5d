"""Each policy refuses a template that violates it, so that no policy passes everything."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.infra.breaches import BREACHES, Breach
from tests.infra.policies import POLICIES


@pytest.mark.parametrize("breach", BREACHES, ids=str)
def test_broken_template_is_refused(breach: Breach, tmp_path: Path) -> None:
    """The policy reports a copy of the templates with one edit."""
    assert next(breach.policy(breach.made(tmp_path)), None) is not None


def test_every_policy_is_shown_to_refuse_something() -> None:
    """There is a breach for each policy."""
    assert {breach.policy for breach in BREACHES} == set(POLICIES)
