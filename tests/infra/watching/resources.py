"""Picks what is asked for from a plan."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.infra.bicep.deployment import Planned

ACTION_GROUP = "Microsoft.Insights/actionGroups"
METRIC_ALERT = "Microsoft.Insights/metricAlerts"
LOG_ALERT = "Microsoft.Insights/scheduledQueryRules"
WORKBOOK = "Microsoft.Insights/workbooks"

#: What the names of alerts begin with, in the plan that is tested.
_PREFIX = "app-"


def of_type(plan: Iterable[Planned], *types: str) -> list[Planned]:
    """Give the resources of some types."""
    return [each for each in plan if each.type in types]


def alerts(plan: Iterable[Planned]) -> dict[str, Planned]:
    """Give the alerts by their names, without what is put before them."""
    found = of_type(plan, METRIC_ALERT, LOG_ALERT)
    return {str(each.at("name")).removeprefix(_PREFIX): each for each in found}


def criterion(alert: Planned) -> dict[str, Any]:
    """Give the one criterion of an alert."""
    every: Any = alert.at("properties", "criteria", "allOf")
    [only] = every
    assert isinstance(only, dict)
    return only


def dimensions(alert: Planned) -> dict[str, list[str]]:
    """Give the values that an alert is about, by the names of its dimensions."""
    return {each["name"]: each["values"] for each in criterion(alert)["dimensions"]}
