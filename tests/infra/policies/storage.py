"""Queues, event hubs and tables: everything that the application uses is declared."""

from __future__ import annotations

from collections.abc import Iterator

from functions.settings import Settings
from tests.infra.application import DUPLICATE_DETECTION, STATE_TABLES
from tests.infra.bicep.values import at, items_of, owner_of
from tests.infra.infrastructure import Environment
from tests.infra.policies import of_environments

#: The replication in a region without zones.
_WITHOUT_ZONES = {"LRS": "LRS", "ZRS": "LRS", "GZRS": "GRS"}


@of_environments
def queues_are_those_of_the_list(environment: Environment) -> Iterator[str]:
    """Require the queues of infra/queues.json, with bounds and the duplicate detection of the code.

    Duplicates are detected within ten minutes, on the queues that drop copies and on no other.
    """
    listed = environment.infrastructure.json("infra/queues.json")["queues"]
    queues = environment.of("Microsoft.ServiceBus/namespaces/queues")
    declared = {str(queue.at("name")): queue.at("properties") for queue in queues}
    if declared != {each["name"]: each["properties"] for each in listed}:
        yield "queues differ from infra/queues.json"
    for name, properties in declared.items():
        for bound in ("lockDuration", "maxDeliveryCount", "defaultMessageTimeToLive"):
            if not at(properties, bound):
                yield f"queue {name}: {bound} is missing"
        is_detecting = at(properties, "requiresDuplicateDetection")
        window = at(properties, "duplicateDetectionHistoryTimeWindow") if is_detecting else "no time"
        if window != ("PT10M" if name in DUPLICATE_DETECTION else "no time"):
            yield f"queue {name}: duplicates are detected for {window}"


@of_environments
def hubs_are_those_of_the_list(environment: Environment) -> Iterator[str]:
    """Require the hubs of infra/hubs.json where they are asked for; the first is the application's.

    The number of partitions can't be changed later.
    """
    listed = environment.infrastructure.json("infra/hubs.json")["hubs"]
    deployed = listed if environment.parameters.get("eventHub", False) else []
    hubs = {each.at("name"): each for each in environment.of("Microsoft.EventHub/namespaces/eventhubs")}
    groups = environment.of("Microsoft.EventHub/namespaces/eventhubs/consumergroups")
    consumers = {(owner_of(each.at("parent")).rpartition("/")[2], each.at("name")) for each in groups}
    if hubs.keys() != {hub["name"] for hub in deployed} or consumers != {
        (hub["name"], group) for hub in deployed for group in hub["consumerGroups"]
    }:
        yield "hubs or consumer groups differ from infra/hubs.json"
    for hub in deployed:
        retention = {"cleanupPolicy": "Delete", "retentionTimeInHours": hub["retentionHours"]}
        properties = {"partitionCount": hub["partitionCount"], "retentionDescription": retention}
        if hub["name"] in hubs and hubs[hub["name"]].at("properties") != properties:
            yield f"hub {hub['name']} must have {properties}"
    read = [Settings.model_fields[f"event_hub_{name}"].default for name in ("name", "consumer_group")]
    if [listed[0]["name"], *listed[0]["consumerGroups"]] != read or "$Default" in read:
        yield "the application does not read the first hub of infra/hubs.json"


@of_environments
def tables_are_declared(environment: Environment) -> Iterator[str]:
    """Require the application's tables, and those of the sample services only where they are deployed."""
    wanted = STATE_TABLES | (environment.infrastructure.sample_tables if environment.has_samples else set())
    tables = environment.of("Microsoft.Storage/storageAccounts/tableServices/tables")
    differing = wanted ^ {str(table.at("name")) for table in tables}
    if differing:
        yield f"tables {sorted(differing)} differ from the code's"


@of_environments
def state_is_replicated_as_chosen(environment: Environment) -> Iterator[str]:
    """Require the state store's replication that the parameter says, as far as the region has zones."""
    accounts = environment.of("Microsoft.Storage/storageAccounts")
    skus = {str(account.at("sku", "name")) for account in accounts}
    asked = str(environment.parameters.get("redundancy", "ZRS"))
    zones = environment.deployment.value_of("regionsWithZones")
    has_zones = environment.parameters["location"] in items_of(zones)
    wanted = f"Standard_{asked if has_zones else _WITHOUT_ZONES[asked]}"
    host = f"Standard_{'ZRS' if has_zones and asked != 'LRS' else 'LRS'}"
    if skus != {wanted, host}:
        yield f"the accounts are {sorted(skus)}, not {wanted} and {host}"
    if len(accounts) != len({str(account.at("name")) for account in accounts}) or len(accounts) < 2:
        yield "the host and the state store need an account each"
