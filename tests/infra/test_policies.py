"""The templates comply with every policy."""

from __future__ import annotations

import pytest

from tests.infra.infrastructure import REPOSITORY, Infrastructure
from tests.infra.policies import POLICIES, Policy


@pytest.fixture(scope="module")
def infrastructure() -> Infrastructure:
    """Read the templates once; no test changes them."""
    return Infrastructure(REPOSITORY)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.__name__)
def test_templates_comply_with_the_policy(infrastructure: Infrastructure, policy: Policy) -> None:
    """No template violates the policy."""
    assert list(policy(infrastructure)) == []
