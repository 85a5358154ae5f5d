"""Defects as people plant them by mistake: whichever policy it is, one of them finds each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.infra.azure.policies import AZURE_POLICIES
from tests.infra.azure.published import listed
from tests.infra.breaches import edited
from tests.infra.policies import POLICIES

_MODULES = "infra/modules"
_APP = f"{_MODULES}/function-app.bicep"
_APP_SETTINGS = f"{_MODULES}/app-settings.bicep"
_BUS = f"{_MODULES}/service-bus.bicep"
_DURABLE = f"{_MODULES}/durable-scheduler.bicep"
_ENDPOINTS = f"{_MODULES}/private-endpoints.bicep"
_MONITORING = f"{_MODULES}/monitoring.bicep"
_SIGN_IN = f"{_MODULES}/sign-in.bicep"
_STORAGE = f"{_MODULES}/storage-account.bicep"

#: What is wrong, and the edit of a file that makes it so.
_DEFECTS = {
    "sign-in not required": (_SIGN_IN, "requireAuthentication: true", "requireAuthentication: false"),
    "another plan": (_APP, "name: 'FC1'\n    tier: 'FlexConsumption'", "name: 'Y1'\n    tier: 'Dynamic'"),
    "old Python": (_APP, "version: '3.13'", "version: '3.9'"),
    "wrong always-ready group": (_APP, "name: 'durable'", "name: 'orchestrations'"),
    "subnet not delegated": (
        f"{_MODULES}/network.bicep",
        "serviceName: 'Microsoft.App/environments'",
        "serviceName: 'Microsoft.Web/serverFarms'",
    ),
    "wrong zone of the vault": (_ENDPOINTS, "privatelink.vaultcore.azure.net", "privatelink.vault.azure.net"),
    "wrong zone of the scheduler": (
        _ENDPOINTS,
        "privatelink.durabletask.io",
        "privatelink.durabletask.azure.com",
    ),
    "no identity for the vault": (_APP, "    keyVaultReferenceIdentity: identityId\n", ""),
    "wrong identity for the package": (_APP, "'UserAssignedIdentity'", "'SystemAssignedIdentity'"),
    "scheduler's connection": (_APP_SETTINGS, "Authentication=ManagedIdentity", "Authentication=AAD"),
    "wrong issuer": (_SIGN_IN, "${tenant().tenantId}/v2.0", "common/v2.0"),
    "wrong Durable SKU": (_DURABLE, "name: 'Consumption'", "name: 'Standard'"),
    "shared keys on": (_STORAGE, "allowSharedKeyAccess: false", "allowSharedKeyAccess: true"),
    "local auth on": (_BUS, "disableLocalAuth: true", "disableLocalAuth: false"),
    "public in private mode": (_BUS, "private ? 'Disabled' : 'Enabled'", "'Enabled'"),
    "role too wide": (
        f"{_MODULES}/roles.bicep",
        "serviceBusDataSender: '69a216fc-b8fb-44d8-bc22-1f3c2cd27a39'",
        "serviceBusDataSender: '090c5cfd-751d-490a-894a-3ce6f1109419'",
    ),
    "role missing": (
        f"{_MODULES}/app-base.bicep",
        "[roles.storageBlobDataOwner, roles.storageQueueDataContributor, ",
        "[roles.storageBlobDataOwner, ",
    ),
    "queue missing": ("infra/queues.json", '"name": "scheduler-requests"', '"name": "requests"'),
    "setting missing": (_APP_SETTINGS, "  AGENTS_CLIENT_ID: identityClientId\n", ""),
    "alert that tells nobody": (
        f"{_MODULES}/watching/log-alerts.bicep",
        "actionGroups: [\n          alert.posted ? mailGroupId : actionGroupId\n        ]",
        "actionGroups: []",
    ),
}

#: Those that only Azure's published types and names show.
_OF_AZURE = {
    "column that does not exist": (
        "infra/queries/tasks-in-error.kql",
        "parse_json(substring(Message",
        "parse_json(substring(Text",
    ),
    "misspelt property of a queue": ("infra/queues.json", '"maxDeliveryCount"', '"maxDeliveriesCount"'),
    "misspelt property of the app": (_APP, "virtualNetworkSubnetId:", "virtualNetworkSubnetID:"),
    "misspelt property of an alert": (
        f"{_MODULES}/watching/log-alerts.bicep",
        "autoMitigate:",
        "autoMitigated:",
    ),
    "type error": (_MONITORING, "disableLocalAuth: true\n", "disableLocalAuth: 'true'\n"),
}


@pytest.mark.parametrize("defect", _DEFECTS.values(), ids=_DEFECTS)
def test_defect_is_found(defect: tuple[str, str, str], tmp_path: Path) -> None:
    """By a policy, with nothing but the templates and the application's code."""
    broken = edited(tmp_path, *defect)
    assert any(message for policy in POLICIES for message in policy(broken))


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize("defect", _OF_AZURE.values(), ids=_OF_AZURE)
def test_defect_is_found_with_azures_types(defect: tuple[str, str, str], tmp_path: Path) -> None:
    """By comparing the templates with what Azure publishes."""
    if defect[0].endswith(".kql") and listed("log-tables") is None:
        pytest.skip("not checked: log-tables")
    broken = edited(tmp_path, *defect)
    assert any(message for policy in AZURE_POLICIES for message in policy(broken))
