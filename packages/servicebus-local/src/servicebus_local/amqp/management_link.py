"""The `$management` node of a queue: requests come in here, and go back when what they did is committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servicebus_local.broker.entity import Entity
from servicebus_local.broker.queue import Queue
from servicebus_local.errors import ArgumentRefused, Refused

from .encoding import int32
from .links import Delivery, IncomingLink
from .management import Answer, perform
from .performatives import Attach
from .requests import Request, answer_link, answer_message
from .values import AmqpError, Encodable, Symbol

if TYPE_CHECKING:
    from .channel import Channel

MANAGEMENT_SUFFIX = "/$management"


class ManagementRequestLink(IncomingLink):
    """Takes requests about a queue or its dead letters."""

    def __init__(self, channel: Channel, attach: Attach, queue: Queue, entity: Entity) -> None:
        super().__init__(channel, attach, queue)
        self._entity = entity

    def take(self, delivery: Delivery) -> None:
        """Carry out a request and answer it. Raises AmqpError for what is no request."""
        request = Request.read(delivery.payload)
        self.accept(delivery)
        properties: dict[str, Encodable]
        try:
            self._entity.check_busy()
            answer = self._perform(request)
        except Refused as refusal:
            properties = {
                "statusCode": int32(refusal.status),
                "statusDescription": str(refusal),
                "errorCondition": Symbol(refusal.condition),
            }
            answer = Answer(refusal.status, str(refusal))
        else:
            properties = {"statusCode": int32(answer.status), "statusDescription": answer.description}
        message = answer_message(request, properties, answer.body)
        self._entity.acknowledge(self._send_answer, request.reply_to, message)

    def _perform(self, request: Request) -> Answer:
        try:
            return perform(self._entity, request)
        except AmqpError as error:
            raise ArgumentRefused(f"A message in the request can not be read: {error}") from error

    def _send_answer(self, reply_to: str | None, message: bytes) -> None:
        link = answer_link(self.channel, self.address, reply_to)
        if link is not None:
            link.answer(message)
