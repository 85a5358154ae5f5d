"""Alerts, their receivers, and the record of the operators' actions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.infra.bicep.values import Unresolved, Value, at, items_of, owner_of, type_of
from tests.infra.infrastructure import Environment, Infrastructure
from tests.infra.policies import of_environments, policy

_GROUP = "Microsoft.Insights/actionGroups"
_ALERTS = ("Microsoft.Insights/metricAlerts", "Microsoft.Insights/scheduledQueryRules")
_BLOBS = "Microsoft.Storage/storageAccounts/blobServices"
_TABLES = "Microsoft.Storage/storageAccounts/tableServices"

#: The categories that are logged of each service, at the least.
_AUDITED = {
    "Microsoft.ServiceBus/namespaces": {"OperationalLogs"},
    "Microsoft.KeyVault/vaults": {"AuditEvent"},
    _BLOBS: {"StorageWrite", "StorageDelete"},
    _TABLES: {"StorageDelete"},
}
#: The table with the application's record of operators' actions, and the days for which it must be kept.
_ACTIONS, _DAYS = "AppEvents", 90


@of_environments
def alerts_notify_the_operators(environment: Environment) -> Iterator[str]:
    """Require that each alert names an action group."""
    for alert in (each for kind in _ALERTS for each in environment.of(kind)):
        actions = alert.at("properties", "actions")
        receivers = items_of(at(actions, "actionGroups")) + [
            at(each, "actionGroupId") for each in items_of(actions)
        ]
        if _GROUP not in map(type_of, receivers):
            yield f"{alert.title}: no action group is notified"


@policy
def alerts_keep_their_names(infrastructure: Infrastructure) -> Iterator[str]:
    """Require the same alerts, whether roles are split or not: Azure would keep both sets."""
    by_layout = {
        environment.name: {
            owner_of(each.at("name")) for kind in (_GROUP, *_ALERTS) for each in environment.of(kind)
        }
        for environment in infrastructure.environments
    }
    for name in sorted(by_layout["defaults"] ^ by_layout["split: app"]):
        yield f"{name} is deployed only in one layout of the roles"


@of_environments
def operations_are_logged(environment: Environment) -> Iterator[str]:
    """Require that each service logs operations to the workspace.

    The hosts' accounts log those on blobs, other accounts those on tables.
    """
    logged = Counter[str]()
    for each in environment.of("Microsoft.Insights/diagnosticSettings"):
        kind, logs = type_of(each.at("scope")), items_of(each.at("properties", "logs"))
        categories = {str(at(log, "category")) for log in logs if at(log, "enabled") is True}
        is_complete = kind in _AUDITED and _AUDITED[kind] <= categories
        logged[kind] += is_complete and isinstance(each.at("properties", "workspaceId"), Unresolved)
    apps = len(environment.of("Microsoft.Web/sites"))
    tables = len(environment.of("Microsoft.Storage/storageAccounts")) - apps
    for kind, categories in _AUDITED.items():
        wanted = {_BLOBS: apps, _TABLES: tables}.get(kind, len(environment.of(kind)))
        if logged[kind] != wanted:
            yield f"{logged[kind]} of {wanted} {kind} log {sorted(categories)}"


@of_environments
def logs_are_bounded_and_actions_kept(environment: Environment) -> Iterator[str]:
    """Require a daily limit of the workspace, and a longer retention for the operators' actions."""
    for workspace in environment.of("Microsoft.OperationalInsights/workspaces"):
        if not _is_at_least(1, workspace.at("properties", "workspaceCapping", "dailyQuotaGb")):
            yield "without a daily limit, a defect can cost any amount"
    tables = environment.of("Microsoft.OperationalInsights/workspaces/tables", _ACTIONS)
    if not any(_is_at_least(_DAYS, each.at("properties", "retentionInDays")) for each in tables):
        yield f"{_ACTIONS} must be kept for {_DAYS} days at least"


def _is_at_least(least: int, value: Value) -> bool:
    return isinstance(value, int) and value >= least
