"""The loop of one function with a Service Bus trigger: receive, run, settle, reconnect.

Cardinality one runs up to `maxConcurrentCalls` messages side by side, each an invocation; cardinality many
gives up to `maxMessageBatchSize` messages to one invocation, one at a time. Success completes, an exception
abandons.
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
from functions_local.configuration import ServiceBusOptions
from functions_local.invocations import Invocations
from functions_local.messaging.link import ReceiverLink
from functions_local.messaging.metadata import many_delivery, one_delivery
from functions_local.worker import Succeeded

log = logging.getLogger(__name__)

#: Seconds between attempts to connect: the first and the longest.
_FIRST_DELAY = 0.1
_LONGEST_DELAY = 5.0

#: The part of a lock's time after which a message still at work is handed to the renewer.
_RENEW_AFTER = 1 / 3


@dataclass(frozen=True, slots=True)
class _Work:
    """The messages of one invocation, to be settled on the link they came by."""

    link: ReceiverLink
    messages: Sequence[ServiceBusReceivedMessage]


class ServiceBusListener:
    """Feeds one function from its queue."""

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
        self._at_work: dict[asyncio.Task[bool], _Work] = {}
        self._finished: list[tuple[_Work, bool]] = []
        self._wake = asyncio.Event()
        self._link: ReceiverLink | None = None
        self._stopping = False

    async def run(self) -> None:
        """Listen until `stop`; a broker that is away, also at the start, is waited for."""
        delay, away = _FIRST_DELAY, False
        while not self._stopping:
            try:
                await self._connect()
                if away:
                    log.info("function %s: queue %s is back", self._function.name, self._trigger.queue)
                delay, away = _FIRST_DELAY, False
                await self._pump()
            except Exception as error:  # noqa: BLE001  whatever the connection died of, the answer is to reconnect
                if not away:
                    log.warning(
                        "function %s: queue %s is away: %s", self._function.name, self._trigger.queue, error
                    )
                away = True
                await self._disconnect()
                await asyncio.sleep(delay * random.uniform(0.5, 1))  # noqa: S311  jitter, no secret
                delay = min(delay * 2, _LONGEST_DELAY)

    def stop(self) -> None:
        """Take no further message; invocations under way go on and are settled by `close`."""
        self._stopping = True
        self._interrupt()

    @property
    def is_idle(self) -> bool:
        """Whether it has no message that runs or is to be settled."""
        return not self._at_work and not self._finished

    async def close(self) -> None:
        """Settle what has finished, give back what has not, and let go of the queue."""
        self._finished += [(work, False) for work in self._at_work.values()]
        try:
            await self._settle_finished()
        except Exception as error:  # noqa: BLE001  the broker is away: the locks run out by themselves
            log.debug("function %s: not settled at the end: %s", self._function.name, error)
        for task in self._at_work:
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
            if len(self._at_work) == self._slots:
                await self._wake.wait()
                self._wake.clear()
                continue
            for message in await self._receive(link):
                self._start(link, message)

    async def _receive(self, link: ReceiverLink) -> list[list[ServiceBusReceivedMessage]]:
        """Give the messages of each invocation to start: one list when many, lists of one else."""
        if self._trigger.many:
            batch = await link.receive(self._batch)
            return [batch] if batch else []
        return [[message] for message in await link.receive(1)]

    def _start(self, link: ReceiverLink, messages: Sequence[ServiceBusReceivedMessage]) -> None:
        work = _Work(link, messages)
        task = asyncio.create_task(self._invoke(work))
        self._at_work[task] = work
        task.add_done_callback(self._conclude)

    def _conclude(self, task: asyncio.Task[bool]) -> None:
        """Free the slot and have the messages settled."""
        work = self._at_work.pop(task)
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
        """Renew only what is still at work after a while: a task for each quick message would cost more."""
        renewer, first = self._renewer, work.messages[0]
        if renewer is None or first.locked_until_utc is None:
            return None

        def register() -> None:
            # After a lost connection the renewer is closed and the locks are gone.
            for message in work.messages if work.link is self._link else ():
                renewer.register(work.link.receiver, message)

        return asyncio.get_running_loop().call_later(_lock_seconds(first) * _RENEW_AFTER, register)

    async def _settle_finished(self) -> None:
        while self._finished:
            work, succeeded = self._finished.pop(0)
            if work.link is not self._link:
                log.debug("function %s: the link was lost; messages will come again", self._function.name)
            elif not succeeded or self._options.auto_complete_messages:
                await work.link.settle(work.messages, succeeded=succeeded)

    def _interrupt(self) -> None:
        self._wake.set()
        if self._link is not None:
            self._link.interrupt()


def _lock_seconds(message: ServiceBusReceivedMessage) -> float:
    until = message.locked_until_utc
    return max(0.0, (until - datetime.now(UTC)).total_seconds()) if until is not None else 0.0
