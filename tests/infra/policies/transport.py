"""Transport: TLS only, and, if a private network is chosen, no other access."""

from __future__ import annotations

from collections.abc import Iterator

from tests.infra.bicep.values import Unresolved, Value, at, items_of
from tests.infra.infrastructure import Environment, Infrastructure

#: The required values, by type of resource and path of the property.
_WANTED: dict[str, dict[tuple[str, ...], Value]] = {
    "Microsoft.Storage/storageAccounts": {
        ("minimumTlsVersion",): "TLS1_2",
        ("supportsHttpsTrafficOnly",): True,
    },
    "Microsoft.ServiceBus/namespaces": {("minimumTlsVersion",): "1.2"},
    "Microsoft.EventHub/namespaces": {("minimumTlsVersion",): "1.2"},
    "Microsoft.Web/sites": {
        ("httpsOnly",): True,
        ("siteConfig", "minTlsVersion"): "1.2",
        ("siteConfig", "scmMinTlsVersion"): "1.2",
        ("siteConfig", "remoteDebuggingEnabled"): False,
        ("siteConfig", "cors", "allowedOrigins"): [],
    },
}

#: The resources that can be closed to the internet; `network` has their private endpoints.
_CLOSED = {
    "Microsoft.Storage/storageAccounts",
    "Microsoft.ServiceBus/namespaces",
    "Microsoft.EventHub/namespaces",
    "Microsoft.DurableTask/schedulers",
    "Microsoft.KeyVault/vaults",
}

_ISSUER = "https://login.microsoftonline.com/${tenant().tenantId}/v2.0"

#: The sample services are public, as a third party's service would be.
_OPEN_PATHS = {"/api/health", "/api/services/*"}


def transport_is_encrypted(infrastructure: Infrastructure) -> Iterator[str]:
    """Require HTTPS and TLS 1.2 or newer, no remote debugging, and no CORS."""
    for kind, wanted in _WANTED.items():
        for resource in infrastructure.each(kind):
            for path, value in wanted.items():
                if resource.at("properties", *path) != value:
                    yield f"{resource.title}: {'.'.join(path)} must be {value}"


def private_network_closes_the_rest(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that with a private network every service behind the app is closed."""
    for environment in infrastructure.environments:
        if environment.parameters.get("privateNetwork"):
            yield from _open(environment)


def sign_in_guards_all_but_health(infrastructure: Infrastructure) -> Iterator[str]:
    """Require 401 for requests without a token, except to health and the sample services."""
    for environment in infrastructure.environments:
        for config in environment.of("Microsoft.Web/sites/config"):
            if config.at("name") != "authsettingsV2":
                continue
            validation = config.at("properties", "globalValidation")
            provider = config.at("properties", "identityProviders", "azureActiveDirectory", "enabled")
            on = [
                at(validation, "requireAuthentication"),
                config.at("properties", "platform", "enabled"),
                provider,
            ]
            if on != [True, True, True]:
                yield f"{config.title}: sign-in must be on, and required"
            if at(validation, "unauthenticatedClientAction") != "Return401":
                yield f"{config.title}: a request without a token must get 401"
            if not set(map(str, items_of(at(validation, "excludedPaths")))) <= _OPEN_PATHS:
                yield f"{config.title}: nothing is open but health and the samples"


def tokens_are_of_the_own_tenant(infrastructure: Infrastructure) -> Iterator[str]:
    """Require the deployment's own tenant as issuer of tokens, in version 2, for the registration only."""
    for environment in infrastructure.environments:
        client = environment.parameters.get("signInClientId")
        for config in environment.of("Microsoft.Web/sites/config"):
            directory = config.at("properties", "identityProviders", "azureActiveDirectory")
            if config.at("name") != "authsettingsV2":
                continue
            if _text_of(at(directory, "registration", "openIdIssuer")) != _ISSUER:
                yield f"{config.title}: tokens must be issued by the own tenant"
            if at(directory, "validation", "allowedAudiences") != [client, f"api://{client}"]:
                yield f"{config.title}: tokens must be for the registration"


def _text_of(value: Value) -> str:
    return value.text if isinstance(value, Unresolved) else str(value)


def _open(environment: Environment) -> Iterator[str]:
    for kind in _CLOSED:
        for resource in environment.of(kind):
            if resource.at("properties", "publicNetworkAccess") != "Disabled":
                yield f"{resource.title}: publicNetworkAccess must be Disabled"
    apps = environment.of("Microsoft.Web/sites")
    if not all(app.at("properties", "virtualNetworkSubnetId") for app in apps):
        yield f"{environment.name}: the app must send through the network"
