"""The templates are what Azure's published types, and its lists of names, allow."""

from __future__ import annotations

import pytest

from tests.infra.azure.policies import AZURE_POLICIES, NAMES, resource_types
from tests.infra.azure.published import FOLDER, listed, resource_type
from tests.infra.infrastructure import REPOSITORY, Infrastructure
from tests.infra.policies import Policy

_INFRASTRUCTURE = Infrastructure(REPOSITORY)

pytestmark = pytest.mark.usefixtures("published")


@pytest.mark.parametrize("policy", AZURE_POLICIES, ids=lambda policy: policy.__name__)
def test_templates_comply_with_what_azure_publishes(policy: Policy) -> None:
    """In every environment that the other policies see."""
    assert list(policy(_INFRASTRUCTURE)) == []


@pytest.mark.parametrize("name", resource_types(_INFRASTRUCTURE))
def test_resource_type_is_known(name: str) -> None:
    """What the folder lacks is not checked, and is named."""
    if resource_type(name) is None:
        pytest.skip(f"not checked: {name}, which {FOLDER.name} lacks")


@pytest.mark.parametrize("name", NAMES.values())
def test_names_are_known(name: str) -> None:
    """Tables and columns of logs, metrics, and settings of the host."""
    if listed(name) is None:
        pytest.skip(f"not checked: {name}, which {FOLDER.name} lacks")
