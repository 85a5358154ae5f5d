"""All queues and hubs of a broker."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence

from servicebus_local.broker.entity import Entity, Machinery
from servicebus_local.broker.queue import DEAD_LETTER_SUFFIX, Queue
from servicebus_local.broker.settings import QueueSettings
from servicebus_local.broker.timers import now_ms
from servicebus_local.errors import EntityNotFoundError
from servicebus_local.hubs.hub import Hub

_SUBSCRIPTIONS = "/subscriptions/"
_log = logging.getLogger(__name__)


class Namespace:
    """Finds hubs and queues. Names are case-insensitive, as in Azure."""

    def __init__(
        self,
        configured: Mapping[str, QueueSettings],
        machinery: Machinery,
        hubs: Sequence[Hub] = (),
    ) -> None:
        self._machinery = machinery
        self._hubs = {hub.key: hub for hub in hubs}
        queues = (Queue(name, settings, machinery) for name, settings in configured.items())
        self._queues = {queue.key: queue for queue in queues}

    @property
    def queues(self) -> list[Queue]:
        """All queues."""
        return list(self._queues.values())

    @property
    def hubs(self) -> list[Hub]:
        """All hubs."""
        return list(self._hubs.values())

    def hub(self, address: str) -> Hub | None:
        """Return the hub of an address, which may continue below the hub."""
        return self._hubs.get(address.partition("/")[0].lower())

    def existing_hub(self, name: str) -> Hub:
        """Return a hub. Raises EntityNotFoundError."""
        hub = self._hubs.get(name.lower())
        if hub is None:
            raise EntityNotFoundError(f"The messaging entity '{name}' could not be found.")
        return hub

    def node(self, name: str) -> Hub | Queue:
        """Return a hub or a queue. Raises EntityNotFoundError."""
        return self._hubs.get(name.lower()) or self.existing(name)

    def existing(self, name: str) -> Queue:
        """Return a queue. Raises EntityNotFoundError."""
        queue = self._queues.get(name.lower())
        if queue is None:
            limit = " The local broker has no topics." if _SUBSCRIPTIONS in name.lower() else ""
            raise EntityNotFoundError(f"The messaging entity '{name}' could not be found.{limit}")
        return queue

    def entity(self, address: str) -> tuple[Queue, Entity]:
        """Return an address's queue, and the entity at the address: the queue or its dead letters.

        Raises EntityNotFoundError.
        """
        if address.lower().endswith(DEAD_LETTER_SUFFIX):
            queue = self.existing(address[: -len(DEAD_LETTER_SUFFIX)])
            return queue, queue.dead_letters
        queue = self.existing(address)
        return queue, queue

    def load(self) -> int:
        """Restore the contents of the log, and return the number of messages."""
        journal = self._machinery.journal
        for name, next_number in journal.queues():
            queue = self._queues.get(name)
            if queue is not None:
                queue.resume_numbers(next_number)
        now = now_ms()
        for name, message_id, until_ms in journal.seen_ids():
            queue = self._queues.get(name)
            if queue is not None and queue.seen_ids is not None and until_ms > now:
                queue.seen_ids.restore(message_id, until_ms)
        return self._load_messages()

    def _load_messages(self) -> int:
        loaded, strays = 0, Counter[str]()
        for message in self._machinery.journal.messages():
            name = message.address.removesuffix(DEAD_LETTER_SUFFIX)
            queue = self._queues.get(name)
            if queue is None:
                strays[name] += 1
            else:
                queue.restore(message)
                loaded += 1
        for name, count in strays.items():
            _log.warning("%d messages of queue '%s' stay in the log: it is not configured", count, name)
        return loaded
