"""The monitoring of an environment, as the templates plan it, and its queries."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.infra.bicep.deployment import Deployment, Planned
from tests.infra.bicep.values import Value
from tests.infra.infrastructure import REPOSITORY

ACTION_GROUP = "Microsoft.Insights/actionGroups"
METRIC_ALERT = "Microsoft.Insights/metricAlerts"
LOG_ALERT = "Microsoft.Insights/scheduledQueryRules"

TEMPLATE = REPOSITORY / "infra/modules/watching/watching.bicep"
DECLARED: dict[str, list[dict[str, Any]]] = json.loads(
    (TEMPLATE.parent / "alerts.json").read_text(encoding="utf-8")
)
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
#: The module that `main.bicep` calls.
WATCHING = Deployment(TEMPLATE, PARAMETERS)


def of_type(plan: Iterable[Planned], *types: str) -> list[Planned]:
    """Return the resources of these types."""
    return [each for each in plan if each.type in types]


def alerts(plan: Iterable[Planned] = WATCHING.resources) -> dict[str, Planned]:
    """Return the alerts by name, without the prefix."""
    found = of_type(plan, METRIC_ALERT, LOG_ALERT)
    return {str(each.at("name")).removeprefix("app-"): each for each in found}


def criteria(alert: Planned) -> list[dict[str, Any]]:
    """Return the criteria of an alert."""
    every: Any = alert.at("properties", "criteria", "allOf")
    return list(every)


@dataclass(frozen=True, slots=True)
class Query:
    """A query file. `head` is the start of each line that it reads, None when it reads none of our lines.

    `facts` are the JSON fields that it reads. `errors_only`: it reads only lines of Python's level ERROR.
    """

    text: str
    head: str | None
    facts: frozenset[str]
    errors_only: bool


def queries() -> dict[str, Query]:
    """Read every query file, by its name."""
    found = {}
    for path in sorted((REPOSITORY / "infra/queries").glob("*.kql")):
        text = path.read_text(encoding="utf-8")
        head = re.search(r'Message startswith "([^"]+)"', text)
        facts = frozenset(re.findall(r"\b(?:Facts|Figures)\.(\w+)", text))
        found[path.stem] = Query(text, head[1] if head else None, facts, "SeverityLevel == 3" in text)
    return found
