"""Selects resources from a plan."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.infra.bicep.deployment import Planned

ACTION_GROUP = "Microsoft.Insights/actionGroups"
METRIC_ALERT = "Microsoft.Insights/metricAlerts"
LOG_ALERT = "Microsoft.Insights/scheduledQueryRules"

_DECLARED = Path(__file__).parents[3] / "infra/modules/watching/alerts.json"
#: The prefix of the alerts' names in the tested plan.
_PREFIX = "app-"


def of_type(plan: Iterable[Planned], *types: str) -> list[Planned]:
    """Return the resources of these types."""
    return [each for each in plan if each.type in types]


def alerts(plan: Iterable[Planned]) -> dict[str, Planned]:
    """Return the alerts by name, without the prefix."""
    found = of_type(plan, METRIC_ALERT, LOG_ALERT)
    return {str(each.at("name")).removeprefix(_PREFIX): each for each in found}


def criterion(alert: Planned) -> dict[str, Any]:
    """Return the only criterion of an alert."""
    every: Any = alert.at("properties", "criteria", "allOf")
    [only] = every
    assert isinstance(only, dict)
    return only


def dimensions(alert: Planned) -> dict[str, list[str]]:
    """Return the values of an alert's dimensions, by name."""
    return {each["name"]: each["values"] for each in criterion(alert)["dimensions"]}


def alerted_causes() -> set[str]:
    """Return the causes of the query `operator-alerts` that `alerts.json` has an alert for."""
    declared: list[dict[str, Any]] = json.loads(_DECLARED.read_text(encoding="utf-8"))["log"]
    every = (dimension for alert in declared for dimension in alert["dimensions"])
    return {cause for each in every if each["name"] == "Cause" for cause in each["values"]}
