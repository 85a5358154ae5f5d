"""All queues and hubs of a broker: configured ones, and queues created when a client first uses them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from re import fullmatch

from servicebus_local.broker.entity import Entity, Machinery
from servicebus_local.broker.queue import DEAD_LETTER_SUFFIX, Queue
from servicebus_local.broker.settings import QUEUE_NAME, AutoCreateRule, QueueSettings
from servicebus_local.broker.timers import now_ms
from servicebus_local.errors import EntityNotFoundError
from servicebus_local.hubs.hub import Hub

_SUBSCRIPTIONS = "/subscriptions/"
_log = logging.getLogger(__name__)


class Namespace:
    """Finds hubs and queues, creates and deletes queues. Names are case-insensitive, as in Azure."""

    def __init__(
        self,
        configured: Mapping[str, QueueSettings],
        auto_create: Sequence[AutoCreateRule],
        machinery: Machinery,
        hubs: Sequence[Hub] = (),
    ) -> None:
        self._machinery = machinery
        self._hubs = {hub.key: hub for hub in hubs}
        self._auto_create = auto_create
        self._queues: dict[str, Queue] = {}
        for name, settings in configured.items():
            self._add(name, settings)

    @property
    def queues(self) -> list[Queue]:
        """All queues, in the order of their creation."""
        return list(self._queues.values())

    @property
    def hubs(self) -> list[Hub]:
        """All hubs."""
        return list(self._hubs.values())

    def hub(self, address: str) -> Hub | None:
        """Return the hub with an address, or with the address of something in it."""
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
            queue = self._existing_or_new(address[: -len(DEAD_LETTER_SUFFIX)])
            return queue, queue.dead_letters
        queue = self._existing_or_new(address)
        return queue, queue

    def load(self) -> int:
        """Restore the contents of the log, and return the number of messages."""
        journal = self._machinery.journal
        for name, next_number in journal.queues():
            queue = self._queues.get(name) or self._create(name)
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

    def _existing_or_new(self, name: str) -> Queue:
        return self._queues.get(name.lower()) or self._create(name) or self.existing(name)

    def _create(self, name: str) -> Queue | None:
        for rule in self._auto_create if fullmatch(QUEUE_NAME, name) else ():
            if _matches(name.lower(), rule.pattern.lower()):
                queue = self._add(name, rule.settings)
                queue.create()
                return queue
        return None

    def _add(self, name: str, settings: QueueSettings) -> Queue:
        queue = Queue(name, settings, self._machinery)
        self._queues[queue.key] = queue
        if settings.auto_delete_idle_ms is not None:
            self._watch_idleness(queue, settings.auto_delete_idle_ms)
        return queue

    def _watch_idleness(self, queue: Queue, limit_ms: int) -> None:
        deadline_ms = queue.idle_since_ms() + limit_ms
        if deadline_ms > now_ms():
            self._machinery.timers.at(deadline_ms, self._watch_idleness, queue, limit_ms)
        else:
            del self._queues[queue.key]
            queue.delete()
            _log.info("queue '%s' was idle and is deleted", queue.name)


def _matches(name: str, pattern: str) -> bool:
    """Return whether a name matches a shell pattern; a wildcard stands for no slash."""
    names, patterns = name.split("/"), pattern.split("/")
    return len(names) == len(patterns) and all(map(fnmatchcase, names, patterns))
