"""The circuit breaker of one remote service: lets calls through, or fails them fast while it is open."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime

from functions.agents.shared_breaker import SharedRecord
from functions.pattern.breaker import (
    BreakerPolicy,
    BreakerRecord,
    BreakerState,
    Verdict,
    after_failure,
    after_success,
    as_probe,
)
from functions.pattern.errors import PermanentError, TransientError
from functions.pattern.ports import Ports

_log = logging.getLogger(__name__)


class CircuitOpenError(TransientError):
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
        self._shared = SharedRecord(service, ports)

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
