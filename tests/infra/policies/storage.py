"""Queues and tables: everything that the application uses is declared."""

from __future__ import annotations

from collections.abc import Iterator

from functions.services.service import FAULTS_TABLE
from tests.infra.application import DUPLICATE_DETECTION, STATE_TABLES
from tests.infra.bicep.values import items_of
from tests.infra.infrastructure import Infrastructure

#: What a region without zones has instead.
_WITHOUT_ZONES = {"LRS": "LRS", "ZRS": "LRS", "GZRS": "GRS"}

_TABLES = "Microsoft.Storage/storageAccounts/tableServices/tables"


def every_listed_queue_is_declared(infrastructure: Infrastructure) -> Iterator[str]:
    """Require the queues of infra/queues.json, with the properties given there."""
    listed = {each["name"]: each["properties"] for each in infrastructure.json("infra/queues.json")["queues"]}
    for environment in infrastructure.environments:
        queues = environment.of("Microsoft.ServiceBus/namespaces/queues")
        declared = {str(queue.at("name")): queue.at("properties") for queue in queues}
        for name in listed.keys() | declared.keys():
            if declared.get(name) != listed.get(name):
                yield f"{environment.name}: queue {name} differs from infra/queues.json"


def queues_detect_duplicates(infrastructure: Infrastructure) -> Iterator[str]:
    """Require duplicate detection within ten minutes on the queues that drop copies, and on no other."""
    for environment in infrastructure.environments:
        queues = environment.of("Microsoft.ServiceBus/namespaces/queues")
        detecting = {
            str(queue.at("name")): queue.at("properties", "duplicateDetectionHistoryTimeWindow")
            for queue in queues
            if queue.at("properties", "requiresDuplicateDetection")
        }
        if detecting != dict.fromkeys(DUPLICATE_DETECTION, "PT10M"):
            yield f"{environment.name}: duplicates are detected on {sorted(detecting)}"


def queues_bound_their_messages(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that each queue limits a message's lock, number of deliveries and time to live."""
    for queue in infrastructure.each("Microsoft.ServiceBus/namespaces/queues"):
        for name in ("lockDuration", "maxDeliveryCount", "defaultMessageTimeToLive"):
            if not queue.at("properties", name):
                yield f"queue {queue.at('name')}: {name} must be given"


def tables_are_declared(infrastructure: Infrastructure) -> Iterator[str]:
    """Require the application's tables, and those of the sample services only where they are deployed."""
    samples = {FAULTS_TABLE, *(agent.table for agent in infrastructure.sampled_agents)}
    for environment in infrastructure.environments:
        wanted = STATE_TABLES | (samples if environment.parameters.get("sampleServices", True) else set())
        declared = {str(table.at("name")) for table in environment.of(_TABLES)}
        if declared != wanted:
            yield f"{environment.name}: tables {sorted(declared ^ wanted)} differ from the code's"


def state_is_replicated_as_chosen(infrastructure: Infrastructure) -> Iterator[str]:
    """Require the state store's replication that the parameter says, as far as the region has zones."""
    for environment in infrastructure.environments:
        accounts = environment.of("Microsoft.Storage/storageAccounts")
        skus = {str(account.at("sku", "name")) for account in accounts}
        asked = str(environment.parameters.get("redundancy", "ZRS"))
        zones = environment.deployment.value_of("regionsWithZones")
        has_zones = environment.parameters["location"] in items_of(zones)
        wanted = f"Standard_{asked if has_zones else _WITHOUT_ZONES[asked]}"
        host = f"Standard_{'ZRS' if has_zones and asked != 'LRS' else 'LRS'}"
        if skus != {wanted, host}:
            yield f"{environment.name}: the accounts are {sorted(skus)}, not {wanted} and {host}"
        if len(accounts) != len({str(account.at("name")) for account in accounts}) or len(accounts) < 2:
            yield f"{environment.name}: the host and the state store have an account each"
