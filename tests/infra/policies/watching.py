"""Alerts, each of which reaches somebody; and the record of who did what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.infra.bicep.values import Unresolved, Value, at, items_of, owner_of
from tests.infra.infrastructure import Environment, Infrastructure

_GROUP = "Microsoft.Insights/actionGroups"
_SITE = "Microsoft.Web/sites"
_ACCOUNT = "Microsoft.Storage/storageAccounts"
#: Of the host's accounts the package is watched, of all others the tables.
_BLOBS = "Microsoft.Storage/storageAccounts/blobServices"
_TABLES = "Microsoft.Storage/storageAccounts/tableServices"

#: What is logged of each service, at the least.
_AUDITED = {
    "Microsoft.ServiceBus/namespaces": {"OperationalLogs"},
    "Microsoft.KeyVault/vaults": {"AuditEvent"},
    _BLOBS: {"StorageWrite", "StorageDelete"},
    _TABLES: {"StorageDelete"},
}
#: The table of the application's record of operators' actions, and the days for which it must be kept.
_ACTIONS, _DAYS = "AppEvents", 90


def alerts_tell_the_operators(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that each alert is on, and names the action group."""
    for alert in infrastructure.each("Microsoft.Insights/metricAlerts"):
        told = [at(each, "actionGroupId") for each in items_of(alert.at("properties", "actions"))]
        yield from _untold(alert.title, told, alert.at("properties", "enabled"))
    for alert in infrastructure.each("Microsoft.Insights/scheduledQueryRules"):
        told = items_of(alert.at("properties", "actions", "actionGroups"))
        yield from _untold(alert.title, told, alert.at("properties", "enabled"))


def alerts_keep_their_names(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that a deployment whose roles are split, or put together, gets no second set of alerts.

    Nothing would delete the first, which would go on telling, and be paid for.
    """
    by_layout = {each.name: set(_names(each)) for each in infrastructure.environments}
    for name in sorted(by_layout["defaults"] ^ by_layout["split: app"]):
        yield f"{name} is there only in one layout of the roles"


def _names(environment: Environment) -> Iterator[str]:
    for kind in (_GROUP, "Microsoft.Insights/metricAlerts", "Microsoft.Insights/scheduledQueryRules"):
        yield from (f"{kind} {owner_of(each.at('name'))}" for each in environment.of(kind))


def who_did_what_is_logged(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that each service tells the workspace who did what to it: with several apps, each of theirs."""
    for environment in infrastructure.environments:
        logging = Counter(kind for kind, on in _logged(environment) if _AUDITED.get(kind, {""}) <= on)
        apps, accounts = (len(environment.of(kind)) for kind in (_SITE, _ACCOUNT))
        for kind, categories in _AUDITED.items():
            wanted = {_BLOBS: apps, _TABLES: accounts - apps}.get(kind, len(environment.of(kind)))
            if logging[kind] != wanted:
                yield f"{environment.name}: {logging[kind]} of {wanted} {kind} log {sorted(categories)}"


def _logged(environment: Environment) -> Iterator[tuple[str, set[str]]]:
    """Yield what each diagnostic setting has the workspace know, and of which type of resource."""
    for each in environment.of("Microsoft.Insights/diagnosticSettings"):
        logs = items_of(each.at("properties", "logs"))
        match each.at("scope"), each.at("properties", "workspaceId"):
            case Unresolved(resource_type=str(kind)), Unresolved():
                yield kind, {str(at(log, "category")) for log in logs if at(log, "enabled") is True}


def logs_are_bounded_and_actions_kept(infrastructure: Infrastructure) -> Iterator[str]:
    """Require a daily limit of the workspace, and a retention of its own for what operators did."""
    for workspace in infrastructure.each("Microsoft.OperationalInsights/workspaces"):
        quota = workspace.at("properties", "workspaceCapping", "dailyQuotaGb")
        if not isinstance(quota, int) or quota <= 0:
            yield f"{workspace.title}: without a daily limit, a defect can cost any amount"
    for environment in infrastructure.environments:
        tables = environment.of("Microsoft.OperationalInsights/workspaces/tables")
        kept = [each.at("properties", "retentionInDays") for each in tables if each.at("name") == _ACTIONS]
        if not any(isinstance(days, int) and days >= _DAYS for days in kept):
            yield f"{environment.name}: {_ACTIONS} must be kept for {_DAYS} days at least"


def _untold(title: str, told: list[Value], enabled: Value) -> Iterator[str]:
    if not any(isinstance(each, Unresolved) and each.resource_type == _GROUP for each in told):
        yield f"{title}: no action group is told"
    if enabled is not True:
        yield f"{title}: the alert must be enabled"
