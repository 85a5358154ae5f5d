"""Reads the notices that callers were sent, after the run."""

from __future__ import annotations

from azure.servicebus.aio import ServiceBusClient
from pydantic import AwareDatetime, BaseModel, ConfigDict

from tests.chaos.traffic.submitters import REPLY_QUEUE

_AT_ONCE = 200
#: Seconds without a message after which the queue counts as empty.
_SILENCE = 3.0


class Notice(BaseModel):
    """One notice about an order. `at`, in UTC, is when the event happened."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    kind: str
    id: str
    epoch: int
    at: AwareDatetime
    correlation_id: str | None = None


async def read_notices(connection: str) -> list[Notice]:
    """Take all notices off the reply queue."""
    notices: list[Notice] = []
    async with (
        ServiceBusClient.from_connection_string(connection) as client,
        client.get_queue_receiver(REPLY_QUEUE) as receiver,
    ):
        while messages := await receiver.receive_messages(_AT_ONCE, max_wait_time=_SILENCE):
            for message in messages:
                notices.append(Notice.model_validate_json(bytes(b"".join(message.body))))
                await receiver.complete_message(message)
    return notices
