"""Each policy refuses a template that violates it, so that no policy passes everything."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.infra.azure.policies import AZURE_POLICIES, NAMES
from tests.infra.azure.published import listed
from tests.infra.breaches import BREACHES, Breach
from tests.infra.breaches_of_hosting import AZURE_BREACHES, HOSTING_BREACHES
from tests.infra.policies import POLICIES


@pytest.mark.parametrize("breach", [*BREACHES, *HOSTING_BREACHES], ids=str)
def test_broken_template_is_refused(breach: Breach, tmp_path: Path) -> None:
    """The policy reports a copy of the templates with one edit."""
    assert next(breach.policy(breach.made(tmp_path)), None) is not None


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize("breach", AZURE_BREACHES, ids=str)
def test_what_azure_does_not_know_is_refused(breach: Breach, tmp_path: Path) -> None:
    """By its published types and names."""
    if breach.policy in NAMES and listed(NAMES[breach.policy]) is None:
        pytest.skip(f"not checked: {NAMES[breach.policy]}")
    assert next(breach.policy(breach.made(tmp_path)), None) is not None


def test_every_policy_is_shown_to_refuse_something() -> None:
    """There is a breach for each policy."""
    broken = {breach.policy for breach in (*BREACHES, *HOSTING_BREACHES, *AZURE_BREACHES)}
    assert broken == {*POLICIES, *AZURE_POLICIES}
