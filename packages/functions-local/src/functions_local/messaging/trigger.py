"""The loop of one function with a Service Bus trigger: receive, run, settle, reconnect.

With cardinality one, up to `maxConcurrentCalls` messages are processed concurrently, each by an invocation of
its own; with cardinality many, one invocation at a time gets up to `maxMessageBatchSize` messages. Success
completes the messages, an exception abandons them.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from azure.servicebus import ServiceBusReceivedMessage
from azure.servicebus.aio import AutoLockRenewer, ServiceBusClient

from functions_local.app import Function, ServiceBusTrigger
from functions_local.host_json import ServiceBusOptions
from functions_local.invocations import Invocations
from functions_local.messaging.link import ReceiverLink
from functions_local.messaging.metadata import many_delivery, one_delivery
from functions_local.worker import Succeeded

_log = logging.getLogger(__name__)

#: Seconds between attempts to connect: the first and the longest.
_FIRST_DELAY = 0.1
_LONGEST_DELAY = 5.0

#: The part of a lock's duration after which the lock of a message in process is renewed.
_RENEW_AFTER = 1 / 3


@dataclass(frozen=True, slots=True)
class _Work:
    """The messages of one invocation, and the link that received them and must settle them."""

    link: ReceiverLink
    messages: Sequence[ServiceBusReceivedMessage]


class ServiceBusListener:
    """Runs one function with the messages of its queue."""

    def __init__(
        self,
        function: Function,
        trigger: ServiceBusTrigger,
        client: ServiceBusClient,
        invocations: Invocations,
        options: ServiceBusOptions,
    ) -> None:
        self._function = function
        self._trigger = trigger
        self._client = client
        self._invocations = invocations
        self._options = options
        self._slots = 1 if trigger.many else options.max_concurrent_calls
        self._batch = options.max_message_batch_size if trigger.many else 1
        self._in_process: dict[asyncio.Task[bool], _Work] = {}
        self._finished: list[tuple[_Work, bool]] = []
        self._wake = asyncio.Event()
        self._link: ReceiverLink | None = None
        self._stopping = False

    async def run(self) -> None:
        """Listen until `stop`, reconnecting while the broker is unreachable, also at the start."""
        delay, lost = _FIRST_DELAY, False
        while not self._stopping:
            try:
                await self._connect()
                if lost:
                    _log.info(
                        "function %s: queue %s is reachable again", self._function.name, self._trigger.queue
                    )
                delay, lost = _FIRST_DELAY, False
                await self._pump()
            except Exception as error:  # noqa: BLE001 - any connection error leads to a new connection
                if not lost:
                    _log.warning(
                        "function %s: queue %s is not reachable: %s",
                        self._function.name,
                        self._trigger.queue,
                        error,
                    )
                lost = True
                await self._disconnect()
                await asyncio.sleep(delay * random.uniform(0.5, 1))  # noqa: S311 - jitter, not a secret
                delay = min(delay * 2, _LONGEST_DELAY)

    def stop(self) -> None:
        """Receive no more messages; those of invocations in flight are settled by `close`."""
        self._stopping = True
        self._interrupt()

    @property
    def is_idle(self) -> bool:
        """Whether it has no message in process or to be settled."""
        return not self._in_process and not self._finished

    async def close(self) -> None:
        """Settle finished messages, abandon the others, and disconnect from the queue."""
        self._finished += [(work, False) for work in self._in_process.values()]
        try:
            await self._settle_finished()
        except Exception as error:  # noqa: BLE001 - without the broker, the locks expire automatically
            _log.debug("function %s: not settled at the end: %s", self._function.name, error)
        for task in self._in_process:
            task.cancel()
        await self._disconnect()

    async def _connect(self) -> None:
        self._link = await ReceiverLink.open(
            self._client, self._trigger.queue, prefetch=self._options.prefetch_count
        )
        seconds = self._options.max_auto_lock_renewal_duration.total_seconds()
        self._renewer = AutoLockRenewer(max_lock_renewal_duration=seconds) if seconds else None

    async def _disconnect(self) -> None:
        if self._link is None:
            return
        link, self._link = self._link, None
        if self._renewer is not None:
            await self._renewer.close()
        await link.close()

    async def _pump(self) -> None:
        link = self._link
        while not self._stopping and link is not None:
            await self._settle_finished()
            if len(self._in_process) == self._slots:
                await self._wake.wait()
                self._wake.clear()
                continue
            for message in await self._receive(link):
                self._start(link, message)

    async def _receive(self, link: ReceiverLink) -> list[list[ServiceBusReceivedMessage]]:
        """Return the messages of each invocation to start: one batch with `many`, else single messages."""
        if self._trigger.many:
            batch = await link.receive(self._batch)
            return [batch] if batch else []
        return [[message] for message in await link.receive(1)]

    def _start(self, link: ReceiverLink, messages: Sequence[ServiceBusReceivedMessage]) -> None:
        work = _Work(link, messages)
        task = asyncio.create_task(self._invoke(work))
        self._in_process[task] = work
        task.add_done_callback(self._conclude)

    def _conclude(self, task: asyncio.Task[bool]) -> None:
        """Release the slot and queue the messages for settlement."""
        work = self._in_process.pop(task)
        if not task.cancelled():
            self._finished.append((work, task.result()))
        self._interrupt()

    async def _invoke(self, work: _Work) -> bool:
        messages = work.messages
        delivery = many_delivery(messages) if self._trigger.many else one_delivery(messages[0])
        renewal = self._renew_later(work)
        try:
            outcome = await self._invocations.run(
                self._function, {self._trigger.parameter: delivery.body}, delivery.metadata
            )
        finally:
            if renewal is not None:
                renewal.cancel()
        return isinstance(outcome, Succeeded)

    def _renew_later(self, work: _Work) -> asyncio.TimerHandle | None:
        """Renew a single message's lock, after part of its duration: most are finished by then."""
        renewer, message = self._renewer, work.messages[0]
        if renewer is None or message.locked_until_utc is None or self._trigger.many:  # as in Azure
            return None

        def register() -> None:
            # After a lost connection the renewer is closed and the locks are lost.
            if work.link is self._link:
                renewer.register(work.link.receiver, message)

        return asyncio.get_running_loop().call_later(_lock_seconds(message) * _RENEW_AFTER, register)

    async def _settle_finished(self) -> None:
        while self._finished:
            work, succeeded = self._finished.pop(0)
            if work.link is not self._link:
                _log.debug(
                    "function %s: the link was lost; its messages will be redelivered", self._function.name
                )
            elif not succeeded or self._options.auto_complete_messages:
                await work.link.settle(work.messages, succeeded=succeeded)

    def _interrupt(self) -> None:
        self._wake.set()
        if self._link is not None:
            self._link.interrupt()


def _lock_seconds(message: ServiceBusReceivedMessage) -> float:
    until = message.locked_until_utc
    return max(0.0, (until - datetime.now(UTC)).total_seconds()) if until is not None else 0.0
