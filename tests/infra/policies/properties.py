"""The values that properties of every resource of a type must have."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping

from tests.infra.bicep.deployment import Planned
from tests.infra.bicep.values import Value, at, items_of, properties_of, shown
from tests.infra.infrastructure import Environment
from tests.infra.policies import of_environments

type Wanted = Mapping[str, Value | Callable[[Environment], Value]]

_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def _public_access(environment: Environment) -> str:
    return "Disabled" if environment.parameters.get("privateNetwork") else "Enabled"


#: The required values, by the type of a resource and the path of the property.
_REQUIRED: Mapping[str, Wanted] = {
    "Microsoft.Storage/storageAccounts": {
        "properties.allowSharedKeyAccess": False,
        "properties.allowBlobPublicAccess": False,
        "properties.minimumTlsVersion": "TLS1_2",
        "properties.supportsHttpsTrafficOnly": True,
        "properties.publicNetworkAccess": _public_access,
    },
    "Microsoft.Storage/storageAccounts/blobServices/containers": {"properties.publicAccess": "None"},
    "Microsoft.ServiceBus/namespaces": {
        "properties.disableLocalAuth": True,
        "properties.minimumTlsVersion": "1.2",
        "properties.publicNetworkAccess": _public_access,
    },
    "Microsoft.EventHub/namespaces": {
        "sku": {"name": "Standard", "tier": "Standard", "capacity": 1},
        "properties.isAutoInflateEnabled": True,
        "properties.maximumThroughputUnits": 10,
        "properties.disableLocalAuth": True,
        "properties.minimumTlsVersion": "1.2",
        "properties.publicNetworkAccess": _public_access,
    },
    "Microsoft.Insights/components": {"properties.DisableLocalAuth": True},
    "Microsoft.Insights/metricAlerts": {"properties.enabled": True},
    "Microsoft.Insights/scheduledQueryRules": {"properties.enabled": True},
    "Microsoft.OperationalInsights/workspaces": {"properties.features.disableLocalAuth": True},
    "Microsoft.KeyVault/vaults": {
        "properties.enableRbacAuthorization": True,
        "properties.publicNetworkAccess": _public_access,
        # Azure accepts true or null. Purge protection hinders `azd down`.
        "properties.enablePurgeProtection": lambda environment: environment.parameters.get("purgeProtection"),
    },
    "Microsoft.DurableTask/schedulers": {
        "properties.sku": {"name": "Consumption"},
        "properties.publicNetworkAccess": _public_access,
    },
    # The application writes to the locked resources.
    "Microsoft.Authorization/locks": {"properties.level": "CanNotDelete"},
    # Without the type, Azure does not find a new identity.
    "Microsoft.Authorization/roleAssignments": {"properties.principalType": "ServicePrincipal"},
    "Microsoft.Web/serverfarms": {
        "sku": {"name": "FC1", "tier": "FlexConsumption"},
        "properties.reserved": True,  # Linux
        "properties.zoneRedundant": lambda environment: environment.parameters.get("zoneRedundant", False),
    },
    "Microsoft.Web/sites": {
        "identity.type": "UserAssigned",
        "properties.httpsOnly": True,
        "properties.siteConfig.minTlsVersion": "1.2",
        "properties.siteConfig.scmMinTlsVersion": "1.2",
        "properties.siteConfig.remoteDebuggingEnabled": False,
        "properties.siteConfig.cors.allowedOrigins": [],
        "properties.functionAppConfig.runtime": {"name": "python", "version": _PYTHON},
        "properties.functionAppConfig.deployment.storage.authentication.type": "UserAssignedIdentity",
    },
    "Microsoft.Web/sites/basicPublishingCredentialsPolicies": {"properties.allow": False},
}

_ISSUER = "https://login.microsoftonline.com/${tenant().tenantId}/v2.0"

#: The sample services are public, as a third party's service would be.
_OPEN_PATHS = {"/api/health", "/api/services/*"}

#: Properties of `siteConfig` that are errors on Flex Consumption; some have moved to `functionAppConfig`.
_FLEX_REFUSES = {
    "alwaysOn",
    "ftpsState",
    "functionAppScaleLimit",
    "functionsRuntimeScaleMonitoringEnabled",
    "linuxFxVersion",
    "netFrameworkVersion",
    "preWarmedInstanceCount",
    "use32BitWorkerProcess",
    "windowsFxVersion",
}


@of_environments
def properties_have_required_values(environment: Environment) -> Iterator[str]:
    """Require the values above: no keys, no passwords, nothing public, and TLS 1.2 or newer."""
    for kind, wanted in _REQUIRED.items():
        for resource in environment.of(kind):
            yield from _differences(resource, wanted, environment)


@of_environments
def passwords_are_off_for_ftp_and_scm(environment: Environment) -> Iterator[str]:
    """Require a policy for FTP and one for the deployment site; by default, both accept passwords."""
    policies = environment.of("Microsoft.Web/sites/basicPublishingCredentialsPolicies")
    if {each.at("name") for each in policies} != {"ftp", "scm"}:
        yield "passwords must be off for ftp and scm"


@of_environments
def flex_consumption_supports_every_property(environment: Environment) -> Iterator[str]:
    """Require that the app has no property that the plan does not support (ARM error 51021)."""
    for app in environment.of("Microsoft.Web/sites"):
        for name in _FLEX_REFUSES & properties_of(app.at("properties", "siteConfig")).keys():
            yield f"{app.title}: {name} is refused on Flex Consumption"


@of_environments
def sign_in_guards_all_but_health(environment: Environment) -> Iterator[str]:
    """Require 401 without a token of the own tenant, except for health and the sample services."""
    client = str(environment.parameters.get("signInClientId"))
    directory = "properties.identityProviders.azureActiveDirectory"
    wanted: Wanted = {
        "properties.platform.enabled": True,
        "properties.globalValidation.requireAuthentication": True,
        "properties.globalValidation.unauthenticatedClientAction": "Return401",
        f"{directory}.enabled": True,
        f"{directory}.registration.openIdIssuer": _ISSUER,
        f"{directory}.validation.allowedAudiences": [client, f"api://{client}"],
    }
    for config in environment.of("Microsoft.Web/sites/config", "authsettingsV2"):
        yield from _differences(config, wanted, environment)
        excluded = items_of(config.at("properties", "globalValidation", "excludedPaths"))
        if not set(map(str, excluded)) <= _OPEN_PATHS:
            yield f"{config.title}: nothing is open but health and the samples"


def _differences(resource: Planned, wanted: Wanted, environment: Environment) -> Iterator[str]:
    for path, required in wanted.items():
        value = required(environment) if callable(required) else required
        if _compared(at(resource.body, *path.split("."))) != _compared(value):
            yield f"{resource.title}: {path} must be {value}"


def _compared(value: Value) -> object:
    """Return a value for comparison: true is not 1, and a string can contain `${expression}`."""
    return value if isinstance(value, list | dict) or value is None else (type(value) is bool, shown(value))
