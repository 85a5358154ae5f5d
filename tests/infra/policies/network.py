"""The virtual network: the app may enter it, and finds in it the services behind private endpoints."""

from __future__ import annotations

import re
from collections.abc import Iterator

from functions.roles import AppRole
from tests.infra.bicep.values import Unresolved, Value, at, items_of, owner_of
from tests.infra.infrastructure import Environment, Infrastructure

#: The zone of a service's private address, by the endpoint's group (Azure: private endpoint DNS).
_ZONES = {
    "blob": "privatelink.blob.core.windows.net",
    "queue": "privatelink.queue.core.windows.net",
    "table": "privatelink.table.core.windows.net",
    "namespace": "privatelink.servicebus.windows.net",
    "scheduler": "privatelink.durabletask.io",
    "vault": "privatelink.vaultcore.azure.net",
}

#: The settings that name what an app uses, and which of its services; the task hub's are the host's, too.
_HOST = "AzureWebJobsStorage__blobServiceUri"
_SERVICES = {
    _HOST: "blob",
    "AzureWebJobsSecretStorageKeyVaultUri": "vault",
    "ServiceBusConnection__fullyQualifiedNamespace": "namespace",
    "EventHubConnection__fullyQualifiedNamespace": "namespace",
    "DURABLE_TASK_SCHEDULER_CONNECTION_STRING": "scheduler",
}
_TABLES = re.compile(r"(StateStore|AgentStore)(__\d+)?__tableServiceUri")


def app_subnet_is_delegated(infrastructure: Infrastructure) -> Iterator[str]:
    """Require the delegation without which Flex Consumption can't enter the subnet."""
    for network in infrastructure.each("Microsoft.Network/virtualNetworks"):
        delegated = {
            str(at(subnet, "name")): [
                at(each, "properties", "serviceName")
                for each in items_of(at(subnet, "properties", "delegations"))
            ]
            for subnet in items_of(network.at("properties", "subnets"))
        }
        del delegated["endpoints"]
        if {tuple(map(str, each)) for each in delegated.values()} != {("Microsoft.App/environments",)}:
            yield f"{network.title}: the apps' subnets are delegated to {delegated}"


def agents_send_through_the_network_that_is_chosen(infrastructure: Infrastructure) -> Iterator[str]:
    """Require another network's subnet of the Agents' own app where there is one, and of no other app."""
    for environment in infrastructure.environments:
        given = environment.parameters.get("agentsSubnetId")
        is_there = environment.site.at("properties", "virtualNetworkSubnetId") == given
        if given is not None and is_there is not (environment.roles == {AppRole.AGENTS}):
            yield f"{environment.name}: the app must {'not ' if is_there else ''}send through {given}"


def private_addresses_are_found(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that each endpoint is entered in the zone of its service, and each zone is linked."""
    for environment in infrastructure.environments:
        zones = [str(zone.at("name")) for zone in environment.of("Microsoft.Network/privateDnsZones")]
        links = environment.of("Microsoft.Network/privateDnsZones/virtualNetworkLinks")
        if set(zones) - set(_ZONES.values()) or len(links) != len(zones):
            yield f"{environment.name}: zones {sorted(zones)}, and {len(links)} links"
        for group, zone in _entered(environment):
            if group not in _ZONES or _ZONES[group] not in zones or _ZONES[group] not in zone:
                yield f"{environment.name}: the endpoint of {group} must be in {_ZONES.get(group)}"


def endpoints_lead_to_what_apps_use(infrastructure: Infrastructure) -> Iterator[str]:
    """Require, with a private network, an endpoint for each service that an app's settings name."""
    for environment in infrastructure.environments:
        if environment.parameters.get("privateNetwork"):
            made = {led for _, led in _endpoints(environment)}
            for missing in sorted(_used(environment) - made):
                yield f"{environment.name}: there is no private endpoint for {missing}"


def endpoints_keep_their_names(infrastructure: Infrastructure) -> Iterator[str]:
    """Require a name for each endpoint, in all deployments: Azure refuses to lead it to something else."""
    known: dict[str, tuple[str, str]] = {}
    for environment in infrastructure.environments:
        endpoints = _endpoints(environment)
        names = [name for name, _ in endpoints]
        for name, led in endpoints:
            if names.count(name) > 1:
                yield f"{environment.name}: several private endpoints are {name}"
            if known.setdefault(name, led) != led:
                yield f"{environment.name}: {name} leads to {led}, and elsewhere to {known[name]}"


def _endpoints(environment: Environment) -> list[tuple[str, tuple[str, str]]]:
    """Return each endpoint's name, and the resource and the service of it that it leads to."""
    return [
        (str(endpoint.at("name")), (owner_of(at(one, "properties", "privateLinkServiceId")), str(group)))
        for endpoint in environment.of("Microsoft.Network/privateEndpoints")
        for one in items_of(endpoint.at("properties", "privateLinkServiceConnections"))
        for group in items_of(at(one, "properties", "groupIds"))
    ]


def _used(environment: Environment) -> set[tuple[str, str]]:
    """Return the resources that the app's settings name, and which service of each it uses."""
    used = {(name, service) for name, service in _SERVICES.items() if name in environment.settings}
    used |= {(name, "table") for name in environment.settings if _TABLES.fullmatch(name)}
    used |= {(_HOST, each) for each in ("queue", "table") if AppRole.SCHEDULER in environment.roles}
    return {(owner_of(environment.settings.get(name)), service) for name, service in used}


def _entered(environment: Environment) -> Iterator[tuple[str, str]]:
    """Yield the group and the zone of each entry that an endpoint makes."""
    for group in environment.of("Microsoft.Network/privateEndpoints/privateDnsZoneGroups"):
        for each in items_of(group.at("properties", "privateDnsZoneConfigs")):
            zone: Value = at(each, "properties", "privateDnsZoneId")
            yield str(at(each, "name")), zone.text if isinstance(zone, Unresolved) else str(zone)
