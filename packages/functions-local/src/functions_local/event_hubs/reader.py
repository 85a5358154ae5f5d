"""One partition's link: reconnects after each loss, and returns one batch after the other.

The client's own processor is not used: with 32 partitions it takes ten seconds and more to close, and
reconnects slowly after an error. Like it, this reader uses `_create_consumer`; a test checks that it exists.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from azure.eventhub import EventData
from azure.eventhub.aio import EventHubConsumerClient
from azure.eventhub.exceptions import EventHubError

from functions_local.event_hubs.outage import Outage
from functions_local.host_json import EventHubsOptions

_log = logging.getLogger(__name__)

#: Seconds between attempts to connect: the first and the longest.
_FIRST_DELAY, _LONGEST_DELAY = 0.1, 5.0
#: Seconds after which a link that has not failed counts as connected.
_CONNECTED = 1.0
#: Timeout in seconds for closing a link.
_CLOSING = 0.4
#: The client's name of that error condition.
_STOLEN = "link:stolen"


@dataclass(frozen=True, slots=True)
class Position:
    """The position of the first event to read."""

    #: An offset, a sequence number or a time: the first event is the one after it.
    after: str | int | datetime
    #: The number of the event that a checkpoint names, if it is one's.
    checkpoint: int | None = None


class PartitionLostError(Exception):
    """Another reader with an epoch has claimed the partition."""


class PartitionReader:
    """Reads one partition from a position on, until it is closed or the partition is lost."""

    def __init__(
        self,
        client: EventHubConsumerClient,
        partition: str,
        position: Position,
        options: EventHubsOptions,
        outage: Outage,
    ) -> None:
        self.partition = partition
        #: Another reader has it.
        self.lost = False
        self._client = client
        self._after = position.after
        self._checkpoint = position.checkpoint
        self._options = options
        self._outage = outage
        self._batches: asyncio.Queue[list[EventData] | None] = asyncio.Queue(1)
        self._handing_over: asyncio.Task[Any] | None = None
        self._link = asyncio.create_task(self._run())

    async def next_batch(self) -> list[EventData]:
        """Return the next events, in their order. Raises PartitionLostError.

        No more are fetched from the client until `done`.
        """
        batch = await self._batches.get()
        if batch is None or self.lost:
            raise PartitionLostError
        return batch

    def done(self) -> None:
        """Mark the batch as done."""
        self._batches.task_done()

    async def close(self) -> None:
        """Close the link."""
        self._link.cancel()
        await asyncio.wait([self._link])

    async def _run(self) -> None:
        delay = _FIRST_DELAY
        loop = asyncio.get_running_loop()
        while not self.lost:
            began = loop.time()
            try:
                await self._read()
                await self._on_refusal()
            except EventHubError as error:
                self._on_error(error)
            except Exception as error:  # noqa: BLE001 - any connection error leads to a new connection
                self._outage.began(self.partition, error)
            if loop.time() - began > _CONNECTED:
                delay = _FIRST_DELAY
            await asyncio.sleep(delay * random.uniform(0.5, 1))  # noqa: S311 - jitter, not a secret
            delay = min(delay * 2, _LONGEST_DELAY)

    async def _read(self) -> None:
        # The client has no public way to read one partition with an epoch, batch after batch.
        client: Any = self._client
        consumer = client._create_consumer(  # noqa: SLF001
            client._consumer_group,  # noqa: SLF001
            self.partition,
            self._after,
            self._hand_over,
            owner_level=0,
            prefetch=self._options.prefetch_count,
        )
        connected = asyncio.get_running_loop().call_later(_CONNECTED, self._outage.ended, self.partition)
        try:
            await consumer.receive(batch=True, max_batch_size=self._options.max_event_batch_size)
        finally:
            connected.cancel()
            if self._handing_over is not None:  # the client leaves it behind
                self._handing_over.cancel()
            await _closed(consumer.close)

    async def _hand_over(self, events: list[EventData]) -> None:
        self._handing_over = asyncio.current_task()
        await self._batches.put(events)
        self._after, self._checkpoint = events[-1].offset or self._after, None
        await self._batches.join()

    async def _on_refusal(self) -> None:
        """Find out why a link was refused: the client ends without an error then."""
        properties = await self._client.get_partition_properties(self.partition)
        last: int = properties["last_enqueued_sequence_number"]
        if self._checkpoint is not None and self._checkpoint > last:
            self._outage.impossible(self.partition, self._checkpoint, last)
        else:
            self._outage.began(self.partition, "a link was refused")

    def _on_error(self, error: EventHubError) -> None:
        if error.error == _STOLEN:
            self.lost = True
            with suppress(asyncio.QueueEmpty):
                self._batches.get_nowait()
            self._batches.put_nowait(None)
        else:
            self._outage.began(self.partition, error)


async def _closed(close: Callable[[], Any]) -> None:
    try:
        await asyncio.wait_for(close(), _CLOSING)
    except Exception as error:  # noqa: BLE001 - the connection was lost already, or is too slow
        _log.debug("closing a reader: %r", error)
