"""The virtual network: the app may enter it, and finds in it the services behind private endpoints."""

from __future__ import annotations

from collections.abc import Iterator

from tests.infra.bicep.values import Unresolved, Value, at, items_of
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


def _entered(environment: Environment) -> Iterator[tuple[str, str]]:
    """Yield the group and the zone of each entry that an endpoint makes."""
    for group in environment.of("Microsoft.Network/privateEndpoints/privateDnsZoneGroups"):
        for each in items_of(group.at("properties", "privateDnsZoneConfigs")):
            zone: Value = at(each, "properties", "privateDnsZoneId")
            yield str(at(each, "name")), zone.text if isinstance(zone, Unresolved) else str(zone)
