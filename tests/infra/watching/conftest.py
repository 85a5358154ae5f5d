"""The monitoring of an environment, as the templates plan it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.infra.bicep.deployment import Deployment, Planned
from tests.infra.bicep.values import Value

ROOT = Path(__file__).parents[3]
TEMPLATE = ROOT / "infra/modules/watching/watching.bicep"
PARAMETERS: dict[str, Value] = {
    "location": "westeurope",
    "tags": {},
    "workspaceId": "the workspace",
    "componentId": "the component",
    "namespaceId": "the namespace",
    "eventHubsId": "the hubs' namespace",
    "prefix": "app",
    "alertEmails": ["olga@example.com", "otto@example.com"],
    "alertWebhookUrl": "https://example.com/alerts",
    "workbookName": "3d0f7c1e-0c2a-4a7e-9d57-6d4f0f1a2b3c",
    "budgetName": "budget",
    "monthlyBudget": 0,
    "budgetStart": "",
}


@pytest.fixture(scope="package")
def watching() -> Deployment:
    """Read the module that `main.bicep` calls."""
    return Deployment(TEMPLATE, PARAMETERS)


@pytest.fixture(scope="package")
def plan(watching: Deployment) -> list[Planned]:
    """Return every resource that it deploys."""
    return list(watching.planned())
