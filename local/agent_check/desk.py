"""The Scheduler's side of the queue pair: sends requests, hears replies, looks at what is left."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta

from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage, ServiceBusSubQueue
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver
from azure.servicebus.amqp import AmqpMessageBodyType
from azure.servicebus.exceptions import ServiceBusError

from functions.messaging.agent_messages import (
    AGENT_REPLIES_QUEUE,
    AgentRequest,
    RequestKind,
    requests_queue,
)
from local.agent_check.replies import HeardReply, content_of, misfit, not_echoed
from local.agent_check.verdicts import BrokerGoneError
from local.platform import StartRefusedError

_AT_ONCE = 100
_DEAD = ServiceBusSubQueue.DEAD_LETTER
#: What the client raises where the broker is away, or the address is none.
_GONE = (ServiceBusError, OSError, ValueError)
_LOOK_EVERY = 0.25
_TRY_AGAIN_AFTER = 0.3


class Desk:
    """Sends requests to the Agent, and keeps its replies by the start ids and the kinds of the requests."""

    def __init__(self, connection: str, agent: str, *, alone: bool) -> None:
        self._connection = connection
        self._alone = alone
        self.queue = requests_queue(agent)
        self._asked: dict[tuple[str, str], AgentRequest] = {}
        self._heard: defaultdict[tuple[str, str], list[HeardReply]] = defaultdict(list)
        self._taken: set[int | None] = set()
        self._news = asyncio.Condition()
        #: When a reply to anything that was asked was heard last, by the loop's clock.
        self.heard_last = 0.0
        #: What was wrong with replies: against the schema, and against their requests.
        self.misfits: list[str] = []
        self.not_echoed: list[str] = []

    @classmethod
    @asynccontextmanager
    async def at(cls, connection: str, agent: str, *, alone: bool) -> AsyncIterator[Desk]:
        """Listen for replies during the block; where the kit is alone, they are all the Agent's.

        Raises `StartRefusedError` when the queues can't be opened.
        """
        desk = cls(connection, agent, alone=alone)
        try:
            await desk.find_queues()
        except BrokerGoneError as fault:
            raise StartRefusedError(str(fault)) from None
        listening = asyncio.create_task(desk._listen())
        try:
            yield desk
        finally:
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening

    async def ask(self, requests: Iterable[AgentRequest], *, lives_on: bool = False) -> None:
        """Send requests, which end with their complete-by unless they live on."""
        asked = list(requests)
        self._asked |= {_name_of(request): request for request in asked}
        await self.send([_message(request, lives_on=lives_on) for request in asked])

    async def send(self, messages: list[ServiceBusMessage]) -> None:
        """Send messages as they are; `ask` knows requests."""
        async with self._client() as client, client.get_queue_sender(self.queue) as sender:
            for message in messages:
                await sender.send_messages(message)

    def expect(self, request: AgentRequest) -> None:
        """Know the replies to a request that `send` sends."""
        self._asked[_name_of(request)] = request

    def heard(self, request: AgentRequest) -> list[HeardReply]:
        """Give the replies so far."""
        return self._heard[_name_of(request)]

    def answered_instead(self, request: AgentRequest) -> AgentRequest | None:
        """Give another request of the same key that has more than one reply."""
        others = (each for each in self._asked.values() if each.effect_key == request.effect_key)
        return next((each for each in others if each != request and len(self.heard(each)) > 1), None)

    async def until(self, met: Callable[[], bool], within: float) -> bool:
        """Wait for replies until the condition is met; tell whether it was."""
        try:
            async with asyncio.timeout(within), self._news:
                await self._news.wait_for(met)
        except TimeoutError:
            return met()
        return True

    async def until_gone(self, message_ids: Iterable[str], last: Callable[[], float]) -> bool:
        """Wait until the Agent has settled messages, whatever it did with them; tell whether it has.

        `last` gives the time, by the loop's clock, until which it is waited for; that may move on.
        """
        awaited, now = set(message_ids), asyncio.get_running_loop().time
        while True:
            late = now() >= last()  # one look is taken however late it is
            if (gone := await self.is_gone(awaited)) or late:
                return gone
            await asyncio.sleep(_LOOK_EVERY)

    async def is_gone(self, message_ids: Iterable[str]) -> bool:
        """Tell whether none of the messages is on the queue any more."""
        return {message.message_id for message in await self._left()}.isdisjoint(message_ids)

    async def dead_letters(self, message_ids: Iterable[str], within: float) -> dict[str, str]:
        """Give the reasons of dead letters by message id; those that are missing are waited for."""
        awaited, found = set(message_ids), dict[str, str]()
        now = asyncio.get_running_loop().time
        end = now() + within
        while not awaited <= found.keys():
            late = now() >= end  # one look is taken however late it is
            found |= {str(dead.message_id): dead.dead_letter_reason or "" for dead in await self._left(_DEAD)}
            if late:
                break
        return found

    async def _left(self, sub_queue: ServiceBusSubQueue | None = None) -> list[ServiceBusReceivedMessage]:
        """Look at what is on the queue, locked or not."""
        found: list[ServiceBusReceivedMessage] = []
        async with (
            self._client() as client,
            client.get_queue_receiver(self.queue, sub_queue=sub_queue) as receiver,
        ):
            first = 1
            while more := await receiver.peek_messages(_AT_ONCE, sequence_number=first):
                found += more
                first = (more[-1].sequence_number or first) + 1
        return found

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[ServiceBusClient]:
        """Connect for the block. Raises `BrokerGoneError`."""
        try:
            async with ServiceBusClient.from_connection_string(self._connection) as client:
                yield client
        except _GONE as fault:
            pair = f"{self.queue} and {AGENT_REPLIES_QUEUE}"
            why = " ".join(str(fault).split())
            raise BrokerGoneError(f"The queues {pair} can't be opened: {why}") from None

    async def find_queues(self) -> None:
        """See that both queues are there. Raises `BrokerGoneError`."""
        for queue in (self.queue, AGENT_REPLIES_QUEUE):
            async with self._client() as client, client.get_queue_receiver(queue) as receiver:
                await receiver.peek_messages()

    async def _listen(self) -> None:
        while True:
            try:
                async with (
                    self._client() as client,
                    client.get_queue_receiver(AGENT_REPLIES_QUEUE) as receiver,
                ):
                    await self._hear(receiver)
            except* (BrokerGoneError, *_GONE):  # whoever asks, meets it too
                await asyncio.sleep(_TRY_AGAIN_AFTER)

    async def _hear(self, receiver: ServiceBusReceiver) -> None:
        async with asyncio.TaskGroup() as settling:  # where the broker is slow to thank, the next is heard
            while True:
                messages = await receiver.receive_messages(_AT_ONCE, max_wait_time=1)
                async with self._news:
                    for message in messages:
                        self._take(message)
                    self._news.notify_all()
                for message in messages:
                    settling.create_task(receiver.complete_message(message))

    def _take(self, message: ServiceBusReceivedMessage) -> None:
        if message.sequence_number in self._taken:
            return  # it was not settled before the broker was killed
        self._taken.add(message.sequence_number)
        if message.body_type is not AmqpMessageBodyType.DATA:
            self.misfits.append("the body is not in a data section")
            return
        body = b"".join(message.body)
        content = content_of(body)
        kind = content.get("kind", RequestKind.CARRY_OUT)
        request = self._asked.get((str(content.get("start_id")), str(kind)))
        tasks = {str(each.task_id): each for each in self._asked.values()}
        of_its_task = request or tasks.get(str(content.get("task_id")))
        if of_its_task is None and content and not self._alone:
            return  # of somebody else, or of an earlier run
        if message.message_id == content.get("start_id"):
            self.misfits.append("its message id is the start id, which is a secret")
        if (fault := misfit(body)) is not None:
            self.misfits.append(fault)
        elif of_its_task is None:
            self.not_echoed.append("a reply to nothing that was asked")
        if of_its_task is not None:
            self.not_echoed += not_echoed(content, of_its_task)
            self.heard_last = asyncio.get_running_loop().time()
        if request is not None:
            self._heard[_name_of(request)].append(HeardReply(content))


def _name_of(request: AgentRequest) -> tuple[str, str]:
    return request.start_id, request.kind


def _message(request: AgentRequest, *, lives_on: bool) -> ServiceBusMessage:
    left = max(timedelta(), request.complete_by - datetime.now(UTC))
    return message_of(request, request.model_dump_json().encode(), time_to_live=None if lives_on else left)


def message_of(
    request: AgentRequest, body: bytes, *, time_to_live: timedelta | None = None
) -> ServiceBusMessage:
    """Make a message as the application does, with another body."""
    return ServiceBusMessage(
        body,
        message_id=request.message_id,
        content_type="application/json",
        subject=request.direction,
        correlation_id=request.task_id,
        time_to_live=time_to_live,
    )
