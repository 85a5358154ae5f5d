"""The locks on the messages of a queue or dead-letter queue."""

from __future__ import annotations

import os
from collections.abc import Callable
from uuid import UUID

from servicebus_local.broker.message import Lock, StoredMessage
from servicebus_local.broker.timers import TimerHeap, now_ms
from servicebus_local.errors import LockLostError


class Locks:
    """Creates and ends locks, and reports the messages whose locks have expired."""

    def __init__(
        self, duration_ms: int, timers: TimerHeap, on_expired: Callable[[StoredMessage], object]
    ) -> None:
        self._duration_ms = duration_ms
        self._timers = timers
        self._on_expired = on_expired
        self._by_token: dict[UUID, Lock] = {}

    def __len__(self) -> int:
        return len(self._by_token)

    def lock(self, message: StoredMessage) -> Lock:
        """Lock a message for a receiver."""
        until_ms = now_ms() + self._duration_ms
        lock = Lock(UUID(bytes=os.urandom(16), version=4), message, until_ms)
        lock.timer = self._timers.at(until_ms, self._expire, lock)
        message.lock = lock
        self._by_token[lock.token] = lock
        return lock

    def held(self, token: object) -> Lock:
        """Return the valid lock with a token. Raises LockLostError."""
        lock = self._by_token.get(token) if isinstance(token, UUID) else None
        if lock is None or not self.is_held(lock):
            raise LockLostError
        return lock

    def is_held(self, lock: Lock) -> bool:
        """Return whether a lock is still valid."""
        return lock.message.lock is lock and lock.until_ms > now_ms()

    def renew(self, lock: Lock) -> int:
        """Renew a lock for its full time, and return its new end (milliseconds since 1970)."""
        if lock.timer is not None:
            lock.timer.cancel()
        lock.until_ms = now_ms() + self._duration_ms
        lock.timer = self._timers.at(lock.until_ms, self._expire, lock)
        return lock.until_ms

    def release(self, lock: Lock) -> None:
        """End a lock."""
        if lock.timer is not None:
            lock.timer.cancel()
        lock.message.lock = None
        self._by_token.pop(lock.token, None)

    def expire_all(self) -> int:
        """End all locks now, as if their time had passed, and return how many there were."""
        locks = list(self._by_token.values())
        for lock in locks:
            self._expire(lock)
        return len(locks)

    def _expire(self, lock: Lock) -> None:
        self.release(lock)
        self._on_expired(lock.message)
