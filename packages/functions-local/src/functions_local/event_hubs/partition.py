"""The loop of one partition: own it, read it, run the function with each batch, write the checkpoint.

The rules are the extension's. One batch at a time, in order. The checkpoint follows the batch whether the
function has succeeded or failed; with a retry policy, the checkpoint and the next batch wait for the last
retry. No checkpoint follows a batch that ends when the host stops, or a lost partition.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from azure.eventhub import EventData

from functions_local.app import EventHubTrigger, Function
from functions_local.event_hubs.checkpoints import Checkpoint, Checkpoints
from functions_local.event_hubs.clients import HubClient
from functions_local.event_hubs.metadata import BatchOrigin, binding_failure, delivery_of
from functions_local.event_hubs.outage import Outage
from functions_local.event_hubs.reader import PartitionLostError, PartitionReader, Position
from functions_local.host_json import EventHubsOptions, StartType
from functions_local.invocations import Attempt, Invocations
from functions_local.worker import Outcome, Succeeded

_log = logging.getLogger(__name__)

_START, _END = "-1", "@latest"
#: Seconds between two requests for ownership and checkpoint.
_STORAGE_DELAY = 1.0


@dataclass(frozen=True, slots=True)
class PartitionWork:
    """The shared values of all partitions of a trigger."""

    function: Function
    trigger: EventHubTrigger
    hub: HubClient
    checkpoints: Checkpoints
    invocations: Invocations
    options: EventHubsOptions
    outage: Outage
    #: Set when the host stops.
    stopping: asyncio.Event


class PartitionLoop:
    """Works on one partition."""

    def __init__(self, work: PartitionWork, partition: str) -> None:
        self.partition = partition
        self._work = work
        self._origin = BatchOrigin(work.hub.namespace, work.hub.hub, work.trigger.consumer_group, partition)
        self._batches = 0
        #: The batch in process; it outlives the loop until `close`.
        self._processing: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no batch is in process."""
        return self._processing is None or self._processing.done()

    async def run(self) -> None:
        """Own the partition and work on it, until cancelled; after a loss, pause before the next claim."""
        while not self._work.stopping.is_set():
            try:
                await self._own(await self._position())
            except PartitionLostError:
                _log.warning(
                    "function %s: partition %s of hub %s was taken by another reader",
                    self._work.function.name,
                    self.partition,
                    self._work.hub.hub,
                )
                await self._pause(self._work.options.load_balancing_update_interval.total_seconds())

    async def close(self) -> None:
        """End the batch in process, without a checkpoint."""
        if self._processing is not None:
            self._processing.cancel()
            await asyncio.wait([self._processing])

    async def _position(self) -> Position:
        """Claim the partition and return the position to read from; retry while the storage is down."""
        while True:
            try:
                await self._work.checkpoints.claim(self.partition)
                found = await self._work.checkpoints.load(self.partition)
            except Exception as error:  # noqa: BLE001 - reading needs a position, so any error is retried
                _log.warning("the checkpoint of partition %s can't be read: %s", self.partition, error)
                await asyncio.sleep(_STORAGE_DELAY)
                continue
            after = None if found is None else _place(found)
            if found is None or after is None:
                return Position(self._initial())
            return Position(after, found.sequence_number)

    def _initial(self) -> str | datetime:
        initial = self._work.options.initial_offset_options
        if initial.enqueued_time_utc is not None and initial.type is StartType.FROM_ENQUEUED_TIME:
            return initial.enqueued_time_utc
        return _END if initial.type is StartType.FROM_END else _START

    async def _own(self, position: Position) -> None:
        work = self._work
        reader = PartitionReader(work.hub.client, self.partition, position, work.options, work.outage)
        renewing = asyncio.create_task(self._renew())
        try:
            while not work.stopping.is_set():
                events = await reader.next_batch()
                # A separate task: an invocation in flight may finish after the loop is cancelled.
                self._processing = asyncio.create_task(self._process(events, reader))
                await asyncio.shield(self._processing)
                reader.done()
        finally:
            renewing.cancel()
            await reader.close()

    async def _renew(self) -> None:
        """Renew the ownership of the partition at intervals: other hosts compare its time, as in Azure."""
        while True:
            await asyncio.sleep(self._work.options.load_balancing_update_interval.total_seconds())
            try:
                await self._work.checkpoints.claim(self.partition)
            except Exception as error:  # noqa: BLE001 - the next renewal repeats it
                _log.debug("the ownership of partition %s was not renewed: %s", self.partition, error)

    async def _process(self, events: Sequence[EventData], reader: PartitionReader) -> None:
        self._batches += 1
        writes = (
            self._work.options.enable_checkpointing
            and self._batches % self._work.options.batch_checkpoint_frequency == 0
        )
        await self._run_with_retries(events, reader, writes=writes)
        if writes and not self._given_up(reader):
            await self._save(events[-1])

    def _given_up(self, reader: PartitionReader) -> bool:
        return reader.lost or self._work.stopping.is_set()

    async def _run_with_retries(
        self, events: Sequence[EventData], reader: PartitionReader, *, writes: bool
    ) -> None:
        policy = self._work.function.retry
        retries = policy.max_retries if policy else 0
        for count in itertools.count():
            outcome = await self._run_once(events, Attempt(count, retries), writes=writes)
            if isinstance(outcome, Succeeded) or policy is None or count == retries or self._given_up(reader):
                return
            await self._pause(policy.delay(count))
            if self._given_up(reader):
                return

    async def _run_once(self, events: Sequence[EventData], attempt: Attempt, *, writes: bool) -> Outcome:
        work = self._work
        if reason := binding_failure(events):
            return work.invocations.fail(work.function, reason)
        delivery = delivery_of(events, self._origin, binary=work.trigger.binary, checkpoints=writes)
        inputs = {work.trigger.parameter: delivery.body}
        return await work.invocations.run(work.function, inputs, delivery.metadata, attempt)

    async def _save(self, last: EventData) -> None:
        checkpoint = Checkpoint(last.offset, last.sequence_number)
        try:
            await self._work.checkpoints.save(self.partition, checkpoint)
        except Exception as error:  # noqa: BLE001 - as in Azure: the next one is written, or the batch is redelivered
            _log.warning("the checkpoint of partition %s was not written: %s", self.partition, error)

    async def _pause(self, seconds: float) -> None:
        """Wait `seconds`, or until the host stops."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._work.stopping.wait(), seconds)


def _place(checkpoint: Checkpoint) -> str | int | None:
    return checkpoint.sequence_number if checkpoint.offset is None else checkpoint.offset
