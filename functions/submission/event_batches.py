"""A batch of events of one partition of an event hub: each event becomes a task or is rejected.

If the batch fails, the host delivers it again and writes no checkpoint. Times are UTC.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import accumulate, zip_longest
from typing import Any

from functions.messaging.message_format import QueueMessage
from functions.messaging.queue_names import hub_source
from functions.messaging.received_messages import TRANSIENT_ERRORS, Lose, as_error, handle, within
from functions.storage.table_contract import CorruptRowError
from functions.submission.admission import Admission, AdmissionResult
from functions.telemetry import instruments
from functions.telemetry.instruments import Field
from functions.telemetry.spans import TRACEPARENT

_log = logging.getLogger(__name__)

#: Bytes of an event: as many as of a message of the queue. A hub accepts 1 MiB.
MOST_EVENT_BYTES = 192 * 1024
#: Bytes of events that are parsed before other work of the process can run.
_BYTES_AT_ONCE = 64 * 1024
#: Events of all partitions that are recorded at once, so that running tasks do not wait for new orders.
_EVENTS_AT_ONCE = 400
#: Seconds in which an event is retried.
_HANDLING_SECONDS = 45
#: Seconds in which an event is recorded as lost.
_RECORD_SECONDS = 12
#: In a batch of this size or more, an error of most events is a defect of the application.
_FEWEST_TO_JUDGE = 10


@dataclass(frozen=True, slots=True)
class HubEvent:
    """An event, and the time at which the hub received it. Its id is its partition and number."""

    message: QueueMessage
    enqueued_at: datetime


def events_of(events: Sequence[Any]) -> list[HubEvent]:
    """Return the events of a batch, which are `azure.functions.EventHubEvent` with common metadata.

    Raises `ValueError` if the host does not name a number or a time.
    """
    metadata = events[0].metadata or {}
    partition = _parsed(metadata["PartitionContext"])["PartitionId"]
    listed = _parsed(metadata.get("PropertiesArray"))
    properties = listed[: len(events)] if isinstance(listed, list) else []
    return [_event_of(event, partition, its) for event, its in zip_longest(events, properties)]


def _parsed(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


def _event_of(event: Any, partition: object, properties: object) -> HubEvent:
    number, time = event.sequence_number, event.enqueued_time
    if number is None or time is None:
        raise ValueError("the host names no number or no time of an event")
    named = dict(properties) if isinstance(properties, dict) else {}
    if TRACEPARENT not in named and "Diagnostic-Id" in named:
        named[TRACEPARENT] = named["Diagnostic-Id"]  # of older clients
    message = QueueMessage.received(f"{partition}/{number}", event.get_body(), named)
    return HubEvent(message, time.replace(tzinfo=UTC))  # the host's times have no zone


class EventBatches:
    """Handles the batches of one hub. The host writes its checkpoint when `take` has returned."""

    def __init__(self, hub: str, admission: Admission, lose: Lose) -> None:
        self._source = hub_source(hub)
        self._admission, self._lose = admission, lose
        self._slots = asyncio.Semaphore(_EVENTS_AT_ONCE)

    async def take(self, events: Sequence[HubEvent]) -> None:
        """Record or reject each event of a batch.

        Raises `ExceptionGroup` if a service fails, or if most events meet a defect. The batch must be retried
        then, and its recorded events are `KNOWN`.
        """
        labels = {Field.QUEUE.value: self._source}
        age = (self._admission.now() - events[0].enqueued_at).total_seconds()
        instruments.EVENT_AGE.record(max(0.0, age), labels)  # before the attempt: it grows with each retry
        sizes = accumulate((len(each.message.body) for each in events), initial=0)
        sized = zip(events, sizes, strict=False)
        taken = (self._take_one(event, size // _BYTES_AT_ONCE) for event, size in sized)
        results = await asyncio.gather(*taken, return_exceptions=True)
        for outcome, count in Counter(each for each in results if isinstance(each, AdmissionResult)).items():
            instruments.EVENTS.add(count, {**labels, Field.OUTCOME.value: str(outcome)})
        failed = await self._failures(events, results)
        if failed:
            raise ExceptionGroup(f"{self._source}: the batch must be retried", failed)

    async def _take_one(self, event: HubEvent, rounds: int) -> AdmissionResult:
        for _ in range(rounds):
            await asyncio.sleep(0)
        work = partial(self._admit, event)
        return await handle(self._source, event.message, work, seconds=_HANDLING_SECONDS)

    async def _admit(self, event: HubEvent) -> AdmissionResult:
        async with self._slots:
            if len(event.message.body) > MOST_EVENT_BYTES:
                reason = f"the event has more than {MOST_EVENT_BYTES} bytes"
                await self._admission.rejected.reject(self._source, event.message, reason)
                return AdmissionResult.REJECTED
            return await self._admission.take(
                event.message, source=self._source, enqueued_at=event.enqueued_at
            )

    async def _failures(self, events: Sequence[HubEvent], results: Sequence[object]) -> list[Exception]:
        """Record the events that met a defect as lost, and return the errors for which the batch is retried.

        While a service fails, no event is lost: each retry of the batch would alert it again.
        """
        ended = zip(events, results, strict=True)
        failed = [(event, as_error(each)) for event, each in ended if isinstance(each, BaseException)]
        defects = [(event, error) for event, error in failed if not isinstance(error, TRANSIENT_ERRORS)]
        ours = [error for _, error in defects if not isinstance(error, CorruptRowError)]
        is_ours = len(events) >= _FEWEST_TO_JUDGE and 2 * len(ours) > len(events)
        if is_ours or len(failed) > len(defects):
            return [error for _, error in failed]
        lost = (within(_RECORD_SECONDS, self._lose_event(event, error)) for event, error in defects)
        left = await asyncio.gather(*lost, return_exceptions=True)
        return [as_error(each) for each in left if each is not None]

    async def _lose_event(self, event: HubEvent, error: Exception) -> None:
        """Record an event that would block its partition. The text of the error may quote the payload."""
        reason = f"failed unexpectedly: {type(error).__name__}"
        _log.error("event %s of %s %s", event.message.message_id, self._source, reason, exc_info=error)
        await self._lose(self._source, event.message, reason)
