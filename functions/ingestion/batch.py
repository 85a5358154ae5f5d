"""A batch of events of one partition: each event becomes a task or is rejected, or the batch is retried."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import accumulate, zip_longest
from typing import Any

import azure.functions as func

from functions.messages.batch import GiveUp
from functions.messages.blueprint import process
from functions.messages.queues import hub_source
from functions.messages.reading import content_of
from functions.pattern.errors import TransientError, as_error
from functions.pattern.ports import Ports, SchedulerStarts
from functions.pattern.waiting import within
from functions.submission.intake import Disposition, Intake, Origin
from functions.telemetry import instruments
from functions.telemetry.fields import Field
from functions.telemetry.spans import TRACEPARENT

#: The largest event in bytes: as large as a message of the queue. A hub accepts up to 1 MiB.
MOST_EVENT_BYTES = 192 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class HubEvent:
    """An event: its `sequence` number in its partition, when the hub got it (UTC), and what it carries."""

    partition: str
    sequence: int
    enqueued_at: datetime
    body: bytes
    application_properties: Mapping[str, Any]
    subject: str | None = None
    correlation_id: str | None = None

    @property
    def message_id(self) -> str:
        """Return partition and sequence number: an event has no id of its own."""
        return f"{self.partition}/{self.sequence}"

    def get_body(self) -> bytes:
        """Return the body."""
        return self.body


def events_of(events: Sequence[func.EventHubEvent]) -> list[HubEvent]:
    """Read a batch; all its events share their metadata."""
    raw, as_json = events[0].metadata or {}, {"PartitionContext", "PropertiesArray"}
    metadata = {
        name: json.loads(value) if isinstance(value, str) and name in as_json else value
        for name, value in raw.items()
    }
    partition, properties = metadata["PartitionContext"]["PartitionId"], metadata.get("PropertiesArray")
    carried = properties if isinstance(properties, list) else []
    return [
        HubEvent(
            partition=str(partition),
            sequence=_there(each.sequence_number),
            # The worker gives a time without a zone.
            enqueued_at=_there(each.enqueued_time).replace(tzinfo=UTC),
            body=each.get_body(),
            application_properties=_carried(its),
        )
        for each, its in zip_longest(events, carried[: len(events)])
    ]


def _there[ValueT](value: ValueT | None) -> ValueT:
    if value is None:
        raise ValueError("the host told no number or time of an event")
    return value


def _carried(properties: object) -> dict[str, Any]:
    carried = dict(properties) if isinstance(properties, dict) else {}
    if TRACEPARENT not in carried and "Diagnostic-Id" in carried:
        carried[TRACEPARENT] = carried["Diagnostic-Id"]  # of older clients
    return carried


#: Bytes of events that are read before other work of the process has its turn.
_TURN_BYTES = 64 * 1024
#: Seconds for which one invocation retries an event; then the host retries the batch.
_PATIENCE_SECONDS = 45

_log = logging.getLogger(__name__)


class EventBatches:
    """Takes batches of one hub. The host writes its checkpoint when `take` has returned."""

    def __init__(self, hub: str, intake: Intake, ports: Ports, give_up: GiveUp) -> None:
        self._source = hub_source(hub)
        self._intake = intake
        self._rejected = ports.rejected
        self._clock = ports.clock
        self._give_up = give_up
        #: Bounds the events at work over all partitions of this instance, so that the writes of running
        #: tasks do not wait behind thousands of new orders.
        self._slots = asyncio.Semaphore(400)

    async def take(self, events: Sequence[HubEvent], schedulers: SchedulerStarts) -> None:
        """Record or reject each event of a batch.

        Raises an `ExceptionGroup` when a service fails, or when most events meet a defect: the batch must be
        retried. The events that were recorded are known then.
        """
        labels = {Field.QUEUE.value: self._source}
        age = (self._clock.now() - events[0].enqueued_at).total_seconds()
        # Measured before the attempt: the age of a batch that fails grows with each retry.
        instruments.EVENT_AGE.record(max(0.0, age), labels)
        bytes_before = accumulate((len(each.body) for each in events), initial=0)
        taking = (
            self._take_one(event, schedulers, before // _TURN_BYTES)
            for event, before in zip(events, bytes_before, strict=False)
        )
        results = await asyncio.gather(*taking, return_exceptions=True)
        outcomes = Counter(each for each in results if isinstance(each, Disposition))
        for outcome, count in outcomes.items():
            instruments.EVENTS.add(count, {**labels, Field.OUTCOME.value: str(outcome)})
        failed = await self._settle(events, results)
        if failed:
            raise ExceptionGroup(f"partition {events[0].partition}: the batch must be retried", failed)

    async def _take_one(self, event: HubEvent, schedulers: SchedulerStarts, turns: int) -> Disposition:
        for _ in range(turns):
            await asyncio.sleep(0)
        admit = partial(self._admit, event, schedulers)
        return await process(self._source, event, admit, patience=_PATIENCE_SECONDS)

    async def _admit(self, event: HubEvent, schedulers: SchedulerStarts) -> Disposition:
        async with self._slots:
            content = content_of(event)
            if len(event.body) > MOST_EVENT_BYTES:
                reason = f"an event of more than {MOST_EVENT_BYTES} bytes is no order"
                await self._rejected.reject(
                    self._source, event.message_id, content.body, reason, content.labels
                )
                return Disposition.REJECTED
            origin = Origin(name=self._source, enqueued_at=event.enqueued_at)
            return await self._intake.take(event.message_id, content, schedulers, origin)

    async def _settle(
        self, events: Sequence[HubEvent], results: Sequence[Disposition | BaseException]
    ) -> list[Exception]:
        """Reject the events that met a defect, and return the errors for which the batch must be retried.

        While a service fails, no event is rejected: each retry of the batch would alert it again.
        """
        ended = zip(events, results, strict=True)
        raised = [(event, each) for event, each in ended if isinstance(each, BaseException)]
        failed = [(event, each) for event, each in raised if isinstance(each, Exception)]
        defects = [(event, each) for event, each in failed if not isinstance(each, TransientError)]
        fewest_to_judge = 10  # from here on, a defect that most events meet is the application's
        is_ours = len(events) >= fewest_to_judge and 2 * len(defects) > len(events)
        if is_ours or len(raised) > len(defects):
            return [as_error(each) for _, each in raised]
        rejected = (within(12, self._reject(event, defect)) for event, defect in defects)
        left = await asyncio.gather(*rejected, return_exceptions=True)
        return [as_error(each) for each in left if each is not None]

    async def _reject(self, event: HubEvent, defect: Exception) -> None:
        """Reject an event that meets a defect: it would block its partition. The reason quotes no payload."""
        reason = f"failed unforeseen: {type(defect).__name__}"
        _log.error("event %s of %s %s", event.message_id, self._source, reason, exc_info=defect)
        await self._give_up(self._source, event.message_id, content_of(event), reason)
