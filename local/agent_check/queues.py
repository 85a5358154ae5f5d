"""The Scheduler's side of the queue pair, on the user's broker or on one of its own."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage, ServiceBusSubQueue
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.amqp import AmqpMessageBodyType
from azure.servicebus.exceptions import ServiceBusError

from functions.core.json_values import UnfitValueError, json_text
from functions.messaging.agent_messages import AgentReply, AgentRequest, RequestKind
from functions.messaging.message_format import MessageError, read_message
from functions.messaging.queue_names import AGENT_REPLIES_QUEUE, requests_queue
from local.platform import ANY_PORTS, PartName, Platform, PlatformOptions, StartRefusedError, broker_alone

#: The fields that a reply echoes; a reply without a kind is one to carry out.
_ECHOED = ("schema_version", "task_id", "step", "direction", "epoch", "start_id", "kind")
_AT_ONCE = 100
_DEAD = ServiceBusSubQueue.DEAD_LETTER
#: The client's errors for a broker that is down, and for a wrong address.
_GONE = (ServiceBusError, OSError, ValueError)
_LOOK_EVERY = 0.25
_TRY_AGAIN_AFTER = 0.3


class BrokerUnavailableError(Exception):
    """The queues can't be reached any more; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply, as the Agent wrote it."""

    content: dict[str, Any]

    @property
    def outcome(self) -> object:
        """Its outcome."""
        return self.content.get("outcome")

    @property
    def result(self) -> str:
        """Its result, as text that can be compared."""
        return json.dumps(self.content.get("result") or {}, sort_keys=True)


def content_of(body: bytes) -> dict[str, Any]:
    """Read a reply as far as it can be read."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def misfit(body: bytes) -> str | None:
    """Return why the application would reject a reply, or None."""
    try:
        if result := content_of(body).get("result"):
            json_text("result", result)
        read_message(AgentReply, body)
    except (MessageError, UnfitValueError) as error:
        return str(error)
    return None


def not_echoed(content: dict[str, Any], request: AgentRequest) -> list[str]:
    """Name the fields that a reply does not repeat from its request; no start id is shown."""
    expected = request.model_dump(mode="json")
    content = {"kind": RequestKind.CARRY_OUT} | content
    return [
        f"{name} {'differs from its request' if name in content else 'is missing'}"
        for name in _ECHOED
        if json.dumps(content.get(name)) != json.dumps(expected[name])
    ]


class Desk:
    """Sends requests to the Agent, and keeps its replies by the start ids and the kinds of the requests."""

    def __init__(self, connection: str, agent: str, *, alone: bool) -> None:
        self._connection = connection
        self._alone = alone
        self.queue = requests_queue(agent)
        self._asked: dict[tuple[str, str], AgentRequest] = {}
        self._heard: defaultdict[tuple[str, str], list[Reply]] = defaultdict(list)
        self._taken: set[int | None] = set()
        self._news = asyncio.Condition()
        #: When the last reply to any request was received, by the loop's clock.
        self.last_reply_at = 0.0
        #: The faults of replies: against the schema, and against their requests.
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
        except BrokerUnavailableError as fault:
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
        now = datetime.now(UTC)
        left = [None if lives_on else max(timedelta(), each.complete_by - now) for each in asked]
        bodies = [request.model_dump_json().encode() for request in asked]
        await self.send([*map(message_of, asked, bodies, left)])

    async def send(self, messages: list[ServiceBusMessage]) -> None:
        """Send messages as they are; `ask` knows requests."""
        async with self._client() as client, client.get_queue_sender(self.queue) as sender:
            for message in messages:
                await sender.send_messages(message)

    def expect(self, request: AgentRequest) -> None:
        """Record the replies to a request that `send` sends."""
        self._asked[_name_of(request)] = request

    def replies(self, request: AgentRequest) -> list[Reply]:
        """Return the replies that were received."""
        return self._heard[_name_of(request)]

    def answered_instead(self, request: AgentRequest) -> AgentRequest | None:
        """Return another request of the same key that has more than one reply."""
        others = (each for each in self._asked.values() if each.effect_key == request.effect_key)
        return next((each for each in others if each != request and len(self.replies(each)) > 1), None)

    async def until(self, met: Callable[[], bool], within: float) -> bool:
        """Wait for replies; return whether the condition is met within the timeout."""
        try:
            async with asyncio.timeout(within), self._news:
                await self._news.wait_for(met)
        except TimeoutError:
            return met()
        return True

    async def until_settled(self, message_ids: Iterable[str], last: Callable[[], float]) -> bool:
        """Return whether the Agent settles messages in any way until `last()`.

        That is a time by the loop's clock, which may increase.
        """
        awaited, now = set(message_ids), asyncio.get_running_loop().time
        while True:
            late = now() >= last()  # one look is taken however late it is
            if (gone := await self.is_settled(awaited)) or late:
                return gone
            await asyncio.sleep(_LOOK_EVERY)

    async def is_settled(self, message_ids: Iterable[str]) -> bool:
        """Return whether the queue holds none of the messages any more."""
        return {message.message_id for message in await self._left()}.isdisjoint(message_ids)

    async def dead_letters(self, message_ids: Iterable[str], within: float) -> dict[str, str]:
        """Return the reasons of dead letters by message id; wait for the missing ones."""
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
        """Connect for the block. Raises `BrokerUnavailableError`."""
        try:
            async with ServiceBusClient.from_connection_string(self._connection) as client:
                yield client
        except _GONE as fault:
            pair = f"{self.queue} and {AGENT_REPLIES_QUEUE}"
            why = " ".join(str(fault).split())
            raise BrokerUnavailableError(f"The queues {pair} can't be opened: {why}") from None

    async def find_queues(self) -> None:
        """See that both queues are there. Raises `BrokerUnavailableError`."""
        for queue in (self.queue, AGENT_REPLIES_QUEUE):
            async with self._client() as client, client.get_queue_receiver(queue) as receiver:
                await receiver.peek_messages()

    async def _listen(self) -> None:
        while True:
            try:
                await self._receive()
            except* (BrokerUnavailableError, *_GONE):  # the next request raises it, too
                await asyncio.sleep(_TRY_AGAIN_AFTER)

    async def _receive(self) -> None:
        async with (
            self._client() as client,
            client.get_queue_receiver(AGENT_REPLIES_QUEUE) as receiver,
            asyncio.TaskGroup() as settling,  # a slow acknowledgement delays no further reply
        ):
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
            return  # of another sender, or of an earlier run
        if message.message_id == content.get("start_id"):
            self.misfits.append("its message id is the start id, which is a secret")
        if (fault := misfit(body)) is not None:
            self.misfits.append(fault)
        elif of_its_task is None:
            self.not_echoed.append("a reply to nothing that was asked")
        if of_its_task is not None:
            self.not_echoed += not_echoed(content, of_its_task)
            self.last_reply_at = asyncio.get_running_loop().time()
        if request is not None:
            self._heard[_name_of(request)].append(Reply(content))


def _name_of(request: AgentRequest) -> tuple[str, str]:
    return request.start_id, request.kind


def message_of(
    request: AgentRequest, body: bytes, time_to_live: timedelta | None = None
) -> ServiceBusMessage:
    """Return a message as the application sends it, with `body`."""
    return ServiceBusMessage(
        body,
        message_id=request.message_id,
        content_type="application/json",
        subject=request.direction,
        correlation_id=request.task_id,
        time_to_live=time_to_live,
    )


class OwnBroker:
    """A broker that the kit may kill and slow down."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._admin = platform.addresses.admin

    @classmethod
    @asynccontextmanager
    async def running(cls, queue: str, lock: float, folder: Path) -> AsyncIterator[OwnBroker]:
        """Run a broker with the queues of one Agent for the block."""
        requests = {"lockDuration": f"PT{lock:g}S", "maxDeliveryCount": 10, "defaultMessageTimeToLive": "P1D"}
        queues = [{"name": queue, "properties": requests}, {"name": AGENT_REPLIES_QUEUE}]
        file = folder / "queues.json"
        file.write_text(json.dumps({"queues": queues}), encoding="utf-8")
        options = PlatformOptions(ports=ANY_PORTS, data=folder / "broker", queues=file)
        async with Platform(options, broker_alone) as platform:
            yield cls(platform)

    @property
    def connection(self) -> str:
        """The connection string for the Agent and the kit."""
        return self._platform.addresses.service_bus_connection

    async def kill(self) -> None:
        """End it, like a crash."""
        await self._platform.kill(PartName.BROKER)

    async def start(self) -> None:
        """Start it again with its data."""
        await self._platform.start(PartName.BROKER)

    async def expire_locks(self, queue: str) -> None:
        """Expire the locks of a queue now."""
        await self._call("POST", "/faults", {"kind": "expire-locks", "queue": queue})

    @asynccontextmanager
    async def slow_to_thank(self, seconds: float) -> AsyncIterator[None]:
        """Delay the broker's acknowledgements of replies: the Agent can't settle its request yet."""
        late = {"queue": AGENT_REPLIES_QUEUE, "milliseconds": round(seconds * 1_000)}
        await self._call("POST", "/faults", late | {"kind": "delay-acknowledgements"})
        try:
            yield
        finally:
            await self._call("DELETE", "/faults")

    async def figure(self, queue: str, name: str) -> int:
        """Return a figure of a queue, such as `active`, `locked`, `receivers` or `locks_expired`."""
        queues = await self._call("GET", "/queues")
        return next(int(each[name]) for each in queues if each["name"] == queue)

    async def _call(self, method: str, path: str, body: object = None) -> Any:
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.request(method, self._admin + path, json=body, raise_for_status=True) as answer,
            ):
                return await answer.json()
        except aiohttp.ClientError as fault:
            raise BrokerUnavailableError(f"The kit's own can't be asked: {fault}") from None
