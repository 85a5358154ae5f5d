"""A platform with an event hub of few partitions, and orders that are sent to it without the API."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import batched
from pathlib import Path

from azure.eventhub import EventData
from azure.eventhub.aio import EventHubProducerClient
from azure.eventhub.exceptions import EventHubError

from functions.agents.agent_catalog import setting_of
from functions.connections import Connection, connect_bus
from functions.host_functions import utc_now
from functions.messaging.message_format import SubmissionMessage
from functions.messaging.senders import MessageSender
from local.bench.five_steps.workflow import NOBODY
from local.bench.workloads import Workload
from local.platform import ANY_PORTS, Addresses, PartName, Platform, PlatformOptions
from local.platform.blueprint import Stages, platform_stages
from tests.e2e.caller import until_all_are
from tests.e2e.hub.letters import LETTERS, POST, letter
from tests.e2e.recovery.bench import connections_of

SHARDS = 4
_HUB = {"name": "order-events", "partitionCount": 4, "consumerGroups": ["ingestion"]}
_SETTINGS = {
    setting_of(POST.name, "URL"): NOBODY,
    "EventHubConnection": "UseDevelopmentEmulator=true",
    "SAMPLE_SERVICES": "0",
    "STATE_SHARDS": f"{SHARDS}",
}


@dataclass(frozen=True, slots=True)
class HubBench:
    """The platform, and senders to its queue and its hub."""

    platform: Platform
    options: PlatformOptions
    queue: MessageSender
    hub: EventHubProducerClient
    tasks: set[str] = field(default_factory=set)

    def letters(self, name: str, number: int) -> list[SubmissionMessage]:
        """Return new orders, which must become tasks."""
        orders = [letter(f"{name}-{each}") for each in range(number)]
        self.tasks.update(each.task_id for each in orders)
        return orders

    async def send(self, orders: Iterable[SubmissionMessage]) -> None:
        """Send orders to the hub in batches of 100, and each batch again until it is accepted."""
        for batch in batched(orders, 100, strict=False):
            while not await self._is_accepted(batch):
                await asyncio.sleep(0.5)

    async def _is_accepted(self, orders: Iterable[SubmissionMessage]) -> bool:
        try:
            await self.hub.send_batch([EventData(order.body) for order in orders], timeout=10)
        except EventHubError:
            return False
        return True

    async def until_processed(self) -> None:
        """Wait until exactly the orders of all tests are tasks that are `Processed`."""
        await until_all_are("Processed", self.platform, self.tasks)

    @asynccontextmanager
    async def another_host(self, data: Path) -> AsyncIterator[Platform]:
        """Run another host for the same queues and tables, and yield the platform that has it alone.

        It has its own Schedulers: the local Durable engine runs in one process, whereas Azure's instances
        share a task hub.
        """
        broker = {"EventHubConnection": self.platform.addresses.service_bus_connection}
        settings = {**self.options.settings, **connections_of(self.platform), **broker}
        options = PlatformOptions(ports=ANY_PORTS, data=data, app=self.options.app, settings=settings)
        async with Platform(options, blueprint=_host_only) as platform:
            yield platform


@asynccontextmanager
async def running(folder: Path, settings: Mapping[str, str]) -> AsyncIterator[HubBench]:
    """Run the platform."""
    app = Path(__file__).with_name("function_app.py")
    letters = Workload("letters", app, LETTERS.resource, {}, "run_agents", {**_SETTINGS, **settings})
    options = replace(letters.options(folder), in_memory_storage=True)
    (options.app / "infra" / "hubs.json").write_text(json.dumps({"hubs": [_HUB]}))
    async with Platform(options) as platform:
        broker = platform.addresses.service_bus_connection
        bus, name = connect_bus(Connection(broker, None, None)), str(_HUB["name"])
        async with bus(), EventHubProducerClient.from_connection_string(broker, eventhub_name=name) as hub:
            queue = MessageSender(bus, may_send=lambda _queue: True, now=utc_now, figures=Counter())
            yield HubBench(platform, options, queue, hub)


def _host_only(options: PlatformOptions, addresses: Addresses) -> Stages:
    parts = (part for stage in platform_stages(options, addresses) for part in stage)
    return [[part for part in parts if part.name is PartName.HOST]]
