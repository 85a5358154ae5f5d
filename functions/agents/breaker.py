"""The circuit breaker of one remote service: lets calls through, or fails them fast while it is open.

A call costs no extra request: the row that all instances share is read at most once a second. While the state
store is unavailable, a process goes on with what it knows, and writes the row once the store is back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from functions.pattern.breaker import (
    BreakerPolicy,
    BreakerRecord,
    BreakerState,
    Verdict,
    after_failure,
    after_success,
    as_probe,
    new_record,
)
from functions.pattern.errors import NotSentError, PermanentError, TransientError
from functions.pattern.ports import Ports
from functions.pattern.shared_rows import StoredBreaker

_log = logging.getLogger(__name__)

#: How long a row that was read counts as current.
_GOOD_FOR = timedelta(seconds=1)

#: Seconds for which a call waits for a state store that does not answer.
_STORE_SECONDS = 1.0


class CircuitOpenError(NotSentError):
    """The circuit of a remote service is open: a retry before `retry_after` would fail as well."""

    def __init__(self, record: BreakerRecord, now: datetime) -> None:
        """Say until when at least, and why."""
        probe_at = record.probe_at or now
        super().__init__(
            f"{record.service}: circuit open until {probe_at:%H:%M:%S} UTC,"
            f" {record.failures} failures in a row ({record.last_error})",
            retry_after=max(0.0, (probe_at - now).total_seconds()),
        )


class Breaker:
    """The circuit breaker of one remote service, one of each in a process.

    All instances share its record: once the circuit is open, one instance at a time lets one call through,
    and the others learn from its outcome.
    """

    def __init__(self, service: str, ports: Ports, policy: BreakerPolicy) -> None:
        self._service = service
        self._policy = policy
        self._clock = ports.clock
        self._shared = _SharedRecord(service, ports)

    @property
    def state(self) -> BreakerState:
        """The state of the circuit, as this process knows it."""
        return self._shared.record.state

    async def call[Result](self, attempt: Callable[[], Awaitable[Result]]) -> Result:
        """Call the service by `attempt`. Raises what that raises, and `CircuitOpenError`.

        A refusal is an answer: the service is up. A cancelled call counts as failed: that is how complete-by
        ends a call of a service that hangs.
        """
        probe = await self._admit()
        try:
            result = await attempt()
        except PermanentError:
            await self._succeeded(probe)
            raise
        except (Exception, asyncio.CancelledError) as fault:
            await self._failed(probe, _reason(fault))
            raise
        await self._succeeded(probe)
        return result

    async def _admit(self) -> BreakerRecord | None:
        """Give the record that makes this call the probe, or None when it is an ordinary call."""
        await self._shared.refresh()
        now = self._clock.now()
        if self._shared.record.verdict(now) is Verdict.PROBE:
            probe = as_probe(self._shared.record, now, self._policy)
            await self._shared.publish(probe)
            if self._shared.record is probe:
                return probe
        if self._shared.record.verdict(now) is not Verdict.CALL:
            raise CircuitOpenError(self._shared.record, now)
        return None

    async def _succeeded(self, probe: BreakerRecord | None) -> None:
        if not self._counts(probe):
            return
        record = after_success(self._shared.record, self._clock.now())
        if probe is None:
            self._shared.record = record
            return
        _log.info("circuit of %s: closed, the service is back", self._service)
        await self._shared.publish(record)

    async def _failed(self, probe: BreakerRecord | None, error: str) -> None:
        if not self._counts(probe):
            return
        record = after_failure(self._shared.record, error, self._clock.now(), self._policy)
        if record.state is BreakerState.CLOSED:
            self._shared.record = record
            return
        _log.warning(
            "circuit of %s: open for %.0f s, %d failures in a row (%s)",
            self._service,
            self._policy.open_for.total_seconds(),
            record.failures,
            error,
        )
        await self._shared.publish(record)

    def _counts(self, probe: BreakerRecord | None) -> bool:
        """Tell whether an outcome still counts: the circuit may have changed since the call began."""
        record = self._shared.record
        return record.state is BreakerState.CLOSED if probe is None else record == probe


def _reason(fault: BaseException) -> str:
    if isinstance(fault, asyncio.CancelledError):
        return "no answer by complete-by"
    return str(fault) or type(fault).__name__


class _SharedRecord:
    """A breaker's record. Failures that open nothing are counted in this process only."""

    def __init__(self, service: str, ports: Ports) -> None:
        self._service = service
        self._rows = ports.breakers
        self._clock = ports.clock
        #: The record as this process knows it; what other instances need not know is simply assigned.
        self.record = self._there = new_record(service, self._clock.now())
        self._version: str | None = None
        self._read_at: datetime | None = None
        self._store_is_down = False
        self._lock = asyncio.Lock()

    async def publish(self, record: BreakerRecord) -> None:
        """Keep a record and write it, or adopt the row that another instance has written meanwhile."""
        self.record = record
        async with self._lock:
            await self._write()

    async def refresh(self) -> None:
        """Learn what other instances have found out. Callers wait for each other the first time only."""
        if self._lock.locked() and self._read_at is not None:
            return
        async with self._lock:
            if not self._is_fresh():
                await self._read()
                await self._write()

    def _is_fresh(self) -> bool:
        if self._read_at is None:
            return False
        return timedelta(0) <= self._clock.now() - self._read_at < _GOOD_FOR

    async def _read(self) -> None:
        async with self._asking_the_store():
            there = await self._rows.read(self._service)
            if self._version != (None if there is None else there.version):
                self._note(there)
                self.record = self._there
        self._read_at = self._clock.now()

    async def _write(self) -> None:
        """Write what the row does not say yet; failures that are merely counted are not written."""
        record = self.record
        if (record.state, record.probe_at) == (self._there.state, self._there.probe_at):
            return
        async with self._asking_the_store():
            swap = await self._rows.swap(record, self._version)
            self._note(swap.there)
            if not swap.won:
                self.record = self._there

    def _note(self, there: StoredBreaker | None) -> None:
        if there is None:
            self._there, self._version = new_record(self._service, self._clock.now()), None
        else:
            self._there, self._version = there.record, there.version

    @asynccontextmanager
    async def _asking_the_store(self) -> AsyncIterator[None]:
        """Bound the time that the block takes; a store that fails or does not answer raises nothing."""
        try:
            async with asyncio.timeout(_STORE_SECONDS):
                yield
        except (TransientError, TimeoutError) as fault:
            if not self._store_is_down:
                reason = str(fault) or "no answer"
                _log.warning("circuit of %s: not shared, the state store fails (%s)", self._service, reason)
            self._store_is_down = True
        else:
            self._store_is_down = False
