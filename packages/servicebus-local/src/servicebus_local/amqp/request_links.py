"""The nodes `$cbs` and `$management`: one link for requests, another for answers."""

from __future__ import annotations

from urllib.parse import urlsplit

from servicebus_local.amqp.links import AnswerLink, IncomingLink, IncomingMessage, LinkChannel
from servicebus_local.amqp.management import Answer, perform
from servicebus_local.amqp.performatives import Attach
from servicebus_local.amqp.requests import Request, answer_message
from servicebus_local.broker.entity import Entity
from servicebus_local.broker.message import StoredMessage
from servicebus_local.broker.queue import Queue
from servicebus_local.codec.encoding import int32
from servicebus_local.codec.values import AmqpError, Encodable, Value
from servicebus_local.errors import ArgumentError, OperationError
from servicebus_local.namespace import Namespace

#: Suffix of a queue's address in the address of its management node.
MANAGEMENT_SUFFIX = "/$management"
_ACCEPTED = 202


def node_address(address: str | None) -> str:
    """Return 'orders/$management' for 'amqps://host:port/Orders/$management'; case does not matter."""
    if address is None:
        return ""
    path = urlsplit(address).path if "://" in address else address
    return path.strip("/").lower()


class RequestLink(IncomingLink):
    """Receives requests, and sends each answer on the client's link for answers from the same node."""

    def send_answer(self, reply_to: str | None, message: bytes) -> bool:
        """Send an answer, and return whether there is a link for it.

        If there are several links, the answer uses the link with the reply-to address.
        """
        links = [
            link
            for link in self.channel.links
            if isinstance(link, AnswerLink) and link.address == self.address
        ]
        named = [link for link in links if reply_to is not None and link.target_address == reply_to]
        if not links:
            return False
        (named or links)[-1].answer(message)
        return True


class CbsRequestLink(RequestLink):
    """Accepts every token for a node: the broker serves this machine only, and has no secrets to guard."""

    def __init__(self, channel: LinkChannel, attach: Attach, namespace: Namespace) -> None:
        super().__init__(channel, attach)
        self._namespace = namespace

    def take(self, message: IncomingMessage) -> None:
        """Accept a token for an existing node. Raises AmqpError for a message that is not a request."""
        request = Request.read(message.payload)
        self.accept(message)
        properties: dict[str, Encodable] = {
            "status-code": int32(_ACCEPTED),
            "status-description": "Accepted",
        }
        try:
            self._find_node(request.properties.get("name"))
        except OperationError as error:
            # No error condition: with one, the client for Python ignores status and description.
            properties = {
                "status-code": int32(error.status),
                "status-description": str(error),
            }
        self.send_answer(request.reply_to, answer_message(request, properties, None))

    def _find_node(self, audience: Value) -> None:
        address = node_address(audience if isinstance(audience, str) else None)
        if address and self._namespace.hub(address) is None:
            self._namespace.entity(address.removesuffix(MANAGEMENT_SUFFIX))


class ManagementRequestLink(RequestLink):
    """Carries out requests about a queue or its dead letters, and answers after the commit."""

    #: Room for the largest message to schedule, or several.
    max_message_bytes = 1 << 20

    def __init__(self, channel: LinkChannel, attach: Attach, queue: Queue, entity: Entity) -> None:
        super().__init__(channel, attach, queue)
        self._entity = entity

    def take(self, message: IncomingMessage) -> None:
        """Carry out a request and answer it. Raises AmqpError for a message that is not a request."""
        request = Request.read(message.payload)
        self.accept(message)
        try:
            self._entity.check_busy()
            answer = self._perform(request)
        except OperationError as error:
            answer = Answer.refusal(error)
        self._reply(request, answer)

    def refuse(self, message: IncomingMessage, error: OperationError) -> None:
        """Answer a message that is too large or malformed: clients wait a minute for an answer."""
        self.accept(message)
        self._reply(Request.head(message.payload), Answer.refusal(error))

    def _reply(self, request: Request, answer: Answer) -> None:
        reply = answer_message(request, answer.properties(), answer.body)
        self._entity.acknowledge(self._answer, request.reply_to, reply, answer.deleted)

    def _answer(self, reply_to: str | None, reply: bytes, deleted: list[StoredMessage]) -> None:
        if not self.send_answer(reply_to, reply):
            for message in deleted:
                self._entity.put_back(message)

    def _perform(self, request: Request) -> Answer:
        try:
            return perform(self._entity, request)
        except AmqpError as error:
            raise ArgumentError(f"A message in the request can't be read: {error}") from error
