"""Sends orders to the event hub; those that wait at the same moment leave as few batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from azure.core.exceptions import AzureError

from functions.pattern.coalescer import Coalescer
from functions.pattern.errors import TransientError
from functions.pattern.messages import SubmissionMessage
from functions.pattern.request_figures import BusFigures
from functions.telemetry.spans import TRACEPARENT, current_traceparent

if TYPE_CHECKING:
    from azure.eventhub.aio import EventHubProducerClient

#: Bytes of a batch, of the 1 MiB that a hub takes on the Standard tier; the rest is for properties.
_BATCH_BYTES = 900_000
_EVENT_OVERHEAD_BYTES = 400
#: Events of a batch, which goes to one partition, and is taken there a hundred at a time. With many more, a
#: burst would wait in few partitions while the others are idle.
_MOST_TOGETHER = 128
_SEND_SECONDS = 10


@dataclass(frozen=True, slots=True)
class _Event:
    """An order on its way, and the trace in which it was submitted."""

    body: bytes
    traceparent: str | None

    @property
    def key(self) -> int:
        """Any two events can share a batch."""
        return id(self)

    @property
    def share(self) -> float:
        """Tell which part of a batch this takes."""
        return min(1.0, max(1 / _MOST_TOGETHER, (len(self.body) + _EVENT_OVERHEAD_BYTES) / _BATCH_BYTES))


class HubSubmissions:
    """Puts orders on the hub, one event for each, without a key.

    So a batch goes to any partition that is up, with one acknowledgement: admission needs no order. The hub
    drops nothing that is sent twice; the state store does.
    """

    def __init__(self, client: Callable[[], EventHubProducerClient], figures: BusFigures) -> None:
        self._client = client
        self._figures = figures
        self._coalescer = Coalescer[_Event, None](self._send)

    async def submit(self, message: SubmissionMessage) -> None:
        """Submit an order; the hub may have it even if this raises `TransientError`."""
        await self._submit(message, current_traceparent())

    async def submit_all(
        self, messages: Sequence[SubmissionMessage], traces: Sequence[str | None] = ()
    ) -> Sequence[BaseException | None]:
        """Submit orders, and give what went wrong with each."""
        traced = traces or [None] * len(messages)
        return await asyncio.gather(*map(self._submit, messages, traced), return_exceptions=True)

    async def _submit(self, message: SubmissionMessage, traceparent: str | None) -> None:
        try:
            async with asyncio.timeout(_SEND_SECONDS):
                await self._coalescer.submit(_Event(message.written, traceparent))
        except (AzureError, TimeoutError) as error:
            raise TransientError(f"Event Hubs: {type(error).__name__}") from error

    async def _send(self, events: Sequence[_Event]) -> list[None]:
        from azure.eventhub import EventData  # noqa: PLC0415 - with the first event
        from azure.eventhub.amqp import AmqpAnnotatedMessage  # noqa: PLC0415 - as above
        from azure.eventhub.exceptions import EventHubError  # noqa: PLC0415 - as above

        batch: list[EventData | AmqpAnnotatedMessage] = []
        for each in events:
            event = EventData(each.body)
            event.content_type = "application/json"
            if each.traceparent is not None:
                event.properties = {TRACEPARENT: each.traceparent}
            batch.append(event)
        try:
            await self._client().send_batch(batch, timeout=_SEND_SECONDS)
        except EventHubError as error:
            raise TransientError(f"Event Hubs: {type(error).__name__}") from error
        self._figures.messages += len(events)
        self._figures.batches += 1
        return [None] * len(events)
