"""The virtual network: the app may enter it, and finds in it the services behind private endpoints."""

from __future__ import annotations

import re
from collections.abc import Iterator

from functions.roles import AppRole
from tests.infra.bicep.template import Template, text_of
from tests.infra.bicep.values import at, items_of, owner_of, shown
from tests.infra.infrastructure import Environment, Infrastructure
from tests.infra.policies import of_environments, of_templates, policy

#: The zone of a service's private address, by the endpoint's group (Azure: private endpoint DNS).
_ZONES = {
    "blob": "privatelink.blob.core.windows.net",
    "queue": "privatelink.queue.core.windows.net",
    "table": "privatelink.table.core.windows.net",
    "namespace": "privatelink.servicebus.windows.net",
    "scheduler": "privatelink.durabletask.io",
    "vault": "privatelink.vaultcore.azure.net",
}

#: The settings that name a service, and its group.
_SERVICES = {
    r"AzureWebJobsStorage__blobServiceUri": "blob",
    r"AzureWebJobsSecretStorageKeyVaultUri": "vault",
    r"(ServiceBus|EventHub)Connection__fullyQualifiedNamespace": "namespace",
    r"DURABLE_TASK_SCHEDULER_CONNECTION_STRING": "scheduler",
    r"(StateStore|AgentStore)(__\d+)?__tableServiceUri": "table",
}


@of_environments
def app_subnets_are_delegated(environment: Environment) -> Iterator[str]:
    """Require the delegation without which Flex Consumption can't enter the subnets of apps."""
    for network in environment.of("Microsoft.Network/virtualNetworks"):
        for subnet in items_of(network.at("properties", "subnets")):
            delegations = items_of(at(subnet, "properties", "delegations"))
            services = [at(each, "properties", "serviceName") for each in delegations]
            if at(subnet, "name") != "endpoints" and services != ["Microsoft.App/environments"]:
                yield f"subnet {at(subnet, 'name')} is delegated to {services}"


@of_environments
def apps_send_through_their_network(environment: Environment) -> Iterator[str]:
    """Require the other network's subnet for the Agents' own app, and with a private network any subnet."""
    chosen = environment.parameters.get("agentsSubnetId")
    subnet = environment.site.at("properties", "virtualNetworkSubnetId")
    if chosen is not None and (subnet == chosen) is not (environment.roles == {AppRole.AGENTS}):
        yield f"the app sends through {subnet}, and the Agents' network is {chosen}"
    if environment.parameters.get("privateNetwork") and not subnet:
        yield "the app must send through the network"


@of_environments
def private_addresses_are_found(environment: Environment) -> Iterator[str]:
    """Require that each endpoint is entered in the zone of its service, and each zone is linked."""
    zones = {str(zone.at("name")) for zone in environment.of("Microsoft.Network/privateDnsZones")}
    links = environment.of("Microsoft.Network/privateDnsZones/virtualNetworkLinks")
    if zones - set(_ZONES.values()) or {owner_of(link.at("parent")) for link in links} != zones:
        yield f"zones are {sorted(zones)}, with {len(links)} links"
    for group in environment.of("Microsoft.Network/privateEndpoints/privateDnsZoneGroups"):
        for each in items_of(group.at("properties", "privateDnsZoneConfigs")):
            wanted, entered = _ZONES.get(str(at(each, "name"))), at(each, "properties", "privateDnsZoneId")
            if wanted not in zones or str(wanted) not in shown(entered):
                yield f"the endpoint of {at(each, 'name')} must be in {wanted}"


@of_environments
def endpoints_exist_for_the_services_of_apps(environment: Environment) -> Iterator[str]:
    """Require, with a private network, an endpoint for each service that an app's settings name."""
    settings = environment.settings.items()
    used = {
        (owner_of(value), group)
        for pattern, group in _SERVICES.items()
        for name, value in settings
        if re.fullmatch(pattern, name)
    }
    if environment.permissions.has_durable_client:
        host = owner_of(environment.settings.get("AzureWebJobsStorage__blobServiceUri"))
        used |= {(host, "queue"), (host, "table")}
    if environment.parameters.get("privateNetwork"):
        targets = {target for _, target in _endpoints(environment)}
        deployed = {str(each.at("name")) for each in environment.deployment.resources}
        for missing in sorted(used - targets):
            yield f"there is no private endpoint for {missing}"
        for resource, _ in targets:
            if resource not in deployed:
                yield f"a private endpoint leads to {resource}, which is not deployed"


@policy
def endpoints_keep_their_names(infrastructure: Infrastructure) -> Iterator[str]:
    """Require one name for each endpoint, in all deployments: Azure refuses to change its target."""
    targets: dict[str, tuple[str, str]] = {}
    for environment in infrastructure.environments:
        endpoints = _endpoints(environment)
        if len(endpoints) != len({name for name, _ in endpoints}):
            yield f"{environment.name}: several private endpoints have one name"
        for name, target in endpoints:
            if targets.setdefault(name, target) != target:
                yield f"{environment.name}: {name} leads to {target}, and elsewhere to {targets[name]}"


@of_templates
def private_endpoints_are_deployed_one_by_one(template: Template) -> Iterator[str]:
    """Require `@batchSize(1)`: two at once fail with ARM error StorageAccountOperationInProgress."""
    for resource in template.resources.values():
        size = [text_of(number) for number in resource.decorators.get("batchSize", ())]
        if resource.source.startswith("Microsoft.Network/privateEndpoints@") and size != ["1"]:
            yield f"{resource.name} must be deployed one by one"


def _endpoints(environment: Environment) -> list[tuple[str, tuple[str, str]]]:
    """Return each endpoint's name with its target: the resource and the group."""
    return [
        (str(endpoint.at("name")), (owner_of(at(one, "properties", "privateLinkServiceId")), str(group)))
        for endpoint in environment.of("Microsoft.Network/privateEndpoints")
        for one in items_of(endpoint.at("properties", "privateLinkServiceConnections"))
        for group in items_of(at(one, "properties", "groupIds"))
    ]
