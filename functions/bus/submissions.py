"""The way of an order from the API to the queue `submissions`."""

from __future__ import annotations

from functions.bus.sender import Outgoing, QueueSender
from functions.pattern.messages import SubmissionMessage
from functions.pattern.records import Order

#: A message id holds at most 128 characters (Service Bus); 64 are the task id's.
_DIGEST_CHARACTERS = 32


class QueuedSubmissions:
    """Submits orders over Service Bus, which drops what a caller or a retry sends twice."""

    def __init__(self, sender: QueueSender) -> None:
        self._sender = sender

    async def submit(self, message: SubmissionMessage, order: Order) -> None:
        """Put the order on the queue.

        The message id is the task id with the content's digest: by the task id alone, other content
        under a known id would be dropped unseen, instead of being recorded as a conflict.
        """
        await self._sender.send(
            Outgoing(
                message_id=f"{message.task_id}.{order.digest[:_DIGEST_CHARACTERS]}",
                body=message.model_dump_json(exclude_none=True).encode(),
                subject=message.workflow,
                correlation_id=message.correlation_id,
            )
        )
