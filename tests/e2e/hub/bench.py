"""A platform with an event hub of few partitions, of which two hosts can read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from azure.eventhub import EventData

from local.platform import ANY_PORTS, Addresses, PartName, Platform, PlatformOptions
from local.platform.blueprint import Stages, platform_stages
from tests.e2e.hub.evidence import StoredTasks, read_evidence
from tests.e2e.hub.letters import workload
from tests.e2e.hub.senders import HUB, Senders, senders
from tests.e2e.recovery.bench import connections_of

#: Seconds that a test waits at most: more than any machine needs.
_PATIENCE = 90
_LOOK_EVERY = 0.5
_PARTITIONS, _SHARDS = 4, 4
#: Hosts take each other's partitions each second, and what a dead one leaves is recovered in seconds.
_SETTINGS = {
    "SUPERVISOR_SCHEDULE": "* * * * * *",
    "SKEW_SECONDS": "0.5",
    "PICK_UP_SECONDS": "10",
    "STEP_SECONDS": "letters.post=5",
    "AzureFunctionsJobHost__extensions__eventHubs__loadBalancingUpdateInterval": "00:00:01",
}


@dataclass(frozen=True, slots=True)
class HubBench:
    """The platform, senders to it, and what another host needs to run the same."""

    platform: Platform
    senders: Senders
    app: Path
    settings: Mapping[str, str]

    async def send(self, partition: str, *bodies: bytes) -> None:
        """Put events on a partition in one batch."""
        await self.senders.hub.send_batch([EventData(body) for body in bodies], partition_id=partition)

    async def until_processed(self, tasks: Sequence[str]) -> StoredTasks:
        """Wait until these orders are tasks that are `Processed`; others may be there, too."""
        evidence, wanted = StoredTasks(), set(tasks)
        try:
            async with asyncio.timeout(_PATIENCE):
                while any(evidence.states.get(task) != "Processed" for task in wanted):
                    await asyncio.sleep(_LOOK_EVERY)
                    evidence = await read_evidence(self.platform.addresses.storage_connection, _SHARDS)
        except TimeoutError:
            raise AssertionError(evidence.faults(tasks)) from None
        return evidence


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[HubBench]:
    """Run the platform."""
    letters = workload(_SHARDS)
    made = replace(letters, settings={**letters.settings, **_SETTINGS}).options(folder)
    hub = {"name": HUB, "partitionCount": _PARTITIONS, "consumerGroups": ["ingestion"]}
    (made.app / "infra" / "hubs.json").write_text(json.dumps({"hubs": [hub]}))
    async with (
        Platform(replace(made, in_memory_storage=True)) as platform,
        senders(platform.addresses.service_bus_connection) as to_both,
    ):
        hub_of = {"EventHubConnection": platform.addresses.service_bus_connection}
        settings = {**made.settings, **connections_of(platform), **hub_of}
        yield HubBench(platform, to_both, made.app, settings)


@asynccontextmanager
async def another_host(data: Path, settings: Mapping[str, str], app: Path) -> AsyncIterator[Platform]:
    """Run another host on what the settings name, and yield the platform that has it alone.

    It receives from the same queues and uses the same tables, but has its own Schedulers: the local
    Durable engine runs in one process, whereas Azure's instances share a task hub.
    """
    options = PlatformOptions(ports=ANY_PORTS, data=data, app=app, settings=settings)
    async with Platform(options, blueprint=_host_only) as platform:
        yield platform


def _host_only(options: PlatformOptions, addresses: Addresses) -> Stages:
    parts = (part for stage in platform_stages(options, addresses) for part in stage)
    return [[part for part in parts if part.name is PartName.HOST]]
