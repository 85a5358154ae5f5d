"""Alerts: each reaches somebody."""

from __future__ import annotations

from collections.abc import Iterator

from tests.infra.bicep.values import Unresolved, Value, at, items_of
from tests.infra.infrastructure import Infrastructure

_GROUP = "Microsoft.Insights/actionGroups"


def alerts_tell_the_operators(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that each alert is on, and names the action group."""
    for alert in infrastructure.each("Microsoft.Insights/metricAlerts"):
        told = [at(each, "actionGroupId") for each in items_of(alert.at("properties", "actions"))]
        yield from _untold(alert.title, told, alert.at("properties", "enabled"))
    for alert in infrastructure.each("Microsoft.Insights/scheduledQueryRules"):
        told = items_of(alert.at("properties", "actions", "actionGroups"))
        yield from _untold(alert.title, told, alert.at("properties", "enabled"))


def _untold(title: str, told: list[Value], enabled: Value) -> Iterator[str]:
    if not any(isinstance(each, Unresolved) and each.resource_type == _GROUP for each in told):
        yield f"{title}: no action group is told"
    if enabled is not True:
        yield f"{title}: the alert must be enabled"
