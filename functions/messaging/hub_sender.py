"""Sends orders as events to an event hub."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from functions.messaging.message_format import SubmissionMessage
from functions.messaging.senders import (
    HEADER_BYTES,
    SEND_SECONDS,
    BusFigures,
    SendBatches,
    SendError,
    traces_of,
)
from functions.telemetry.spans import TRACEPARENT

if TYPE_CHECKING:
    from azure.eventhub import EventData
    from azure.eventhub.aio import EventHubProducerClient


#: Bytes of a batch: 1 MiB, less the headers.
_MOST_BATCH_BYTES = 900_000
#: Events in one batch. A batch is in one partition, so larger ones would leave the others idle.
_MOST_EVENTS = 128


class HubSender:
    """Sends each order as an event without a key. The hub drops no duplicates; the state store finds them."""

    def __init__(self, client: Callable[[], EventHubProducerClient], figures: BusFigures) -> None:
        self._client, self._figures = client, figures
        self._batches: SendBatches[EventData] = SendBatches("event hub", self._send)

    async def submit(self, messages: Sequence[SubmissionMessage]) -> Sequence[BaseException | None]:
        """Submit orders; return the error of each order, or None. The hub may have an order with an error."""
        sends = map(self._submit, messages, traces_of(messages))
        return await asyncio.gather(*sends, return_exceptions=True)

    async def _submit(self, message: SubmissionMessage, trace: str | None) -> None:
        from azure.eventhub import EventData  # noqa: PLC0415 - with the first event

        event = EventData(message.body)
        event.content_type = "application/json"
        if trace is not None:
            event.properties = {TRACEPARENT: trace}
        share = (len(message.body) + HEADER_BYTES) / _MOST_BATCH_BYTES
        await self._batches.add(event, max(1 / _MOST_EVENTS, share))

    async def _send(self, events: Sequence[EventData]) -> None:
        from azure.eventhub.exceptions import EventHubError  # noqa: PLC0415 - with the first event

        try:
            await self._client().send_batch([*events], timeout=SEND_SECONDS)
        except EventHubError as error:
            raise SendError(f"event hub: {type(error).__name__}") from error
        self._figures.messages += len(events)
