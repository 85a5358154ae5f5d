"""The circuit breaker of one remote service; its shared row is read at most once a second."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from functions.agents.places import CutOff, Places
from functions.agents.shared_record import SharedRecord, Watch
from functions.pattern.breaker import (
    BreakerPolicy,
    BreakerRecord,
    BreakerState,
    Verdict,
    after_failure,
    after_success,
    as_probe,
    circuit_of,
    same_circuit,
)
from functions.pattern.errors import NotSentError, PermanentError
from functions.pattern.ports import Ports

_log = logging.getLogger(__name__)


class CircuitOpenError(NotSentError):
    """The circuit of a remote service is open: a retry before `retry_after` would fail as well."""

    def __init__(self, record: BreakerRecord, now: datetime, open_for: timedelta) -> None:
        probe_at = min(record.probe_at or now, now + open_for)
        super().__init__(
            f"{record.service}: circuit open until {probe_at:%H:%M:%S} UTC,"
            f" {record.failures} failures in a row ({record.last_error})",
            retry_after=max(0.0, (probe_at - now).total_seconds()),
        )


class Breaker:
    """The circuit breaker of one remote service: instances share its record, probes and `at_once` calls."""

    def __init__(
        self,
        service: str,
        ports: Ports,
        policy: BreakerPolicy,
        *,
        at_once: int | None = None,
        skew: timedelta = timedelta(seconds=5),
    ) -> None:
        self._service = service
        self._policy = policy
        self._clock = ports.clock
        self._shared = SharedRecord(service, ports)
        self._circuit = Watch()
        self.places = Places(ports, self._shared, policy, at_once=at_once, skew=skew)

    @property
    def state(self) -> BreakerState:
        """The state of the circuit, as this process knows it."""
        return self._shared.record.state

    async def call[Result](
        self,
        attempt: Callable[[], Awaitable[Result]],
        cut_off: CutOff = lambda now: now + timedelta(seconds=10),
        *,
        fair: float = 0,
    ) -> Result:
        """Call the service by `attempt` in a place. Raises its errors, and `CircuitOpenError`.

        A refusal counts as an answer. A cancelled call counts as failed if it had `fair` seconds, and used
        most of its time: otherwise it began too late, or its process stops.
        """
        await self._shared.refresh()
        if self._verdict() is Verdict.FAIL_FAST:
            raise self._is_open()
        async with self.places.for_call() as place:
            probe = await self._admit()
            async with self.places.call_in(place, cut_off):
                now = self._clock.now()
                seconds = (cut_off(now) - now).total_seconds()
                # A call that is cut short earlier was not too slow: its process stops.
                counts_after = 0.9 * seconds if seconds >= fair else math.inf
                return await self._outcome(attempt, probe, counts_after)

    async def _outcome[Result](
        self,
        attempt: Callable[[], Awaitable[Result]],
        probe: BreakerRecord | None,
        counts_after: float,
    ) -> Result:
        time = asyncio.get_running_loop().time
        began = time()
        try:
            result = await attempt()
        except PermanentError:
            await self._succeeded(probe)
            raise
        except (Exception, asyncio.CancelledError) as fault:
            if not isinstance(fault, asyncio.CancelledError) or time() - began >= counts_after:
                await self._failed(probe, _reason(fault))
            raise
        await self._succeeded(probe)
        return result

    async def _admit(self) -> BreakerRecord | None:
        await self._shared.refresh()
        if self._verdict() is Verdict.PROBE:
            probe = as_probe(self._shared.record, self._clock.now(), self._policy)
            if await self._shared.publish(probe):
                return probe
        if self._verdict() is not Verdict.CALL:
            raise self._is_open()
        return None

    def _verdict(self) -> Verdict:
        record = self._shared.record
        return record.verdict(self._clock.now(), self._circuit.seen_for(circuit_of(record)), self._policy)

    def _is_open(self) -> CircuitOpenError:
        return CircuitOpenError(self._shared.record, self._clock.now(), self._policy.open_for)

    async def _succeeded(self, probe: BreakerRecord | None) -> None:
        self.places.succeeded()
        if probe is None:
            if self.state is BreakerState.CLOSED:
                self._shared.record = after_success(self._shared.record, self._clock.now())
            return
        # The outage may still be the same: another instance may have written a probe of its own.
        while self.state is not BreakerState.CLOSED and self._shared.record.since == probe.since:
            if await self._shared.publish(after_success(self._shared.record, self._clock.now())):
                _log.info("circuit of %s: closed, the service is back", self._service)
                return

    async def _failed(self, probe: BreakerRecord | None, error: str) -> None:
        is_closed = self.state is BreakerState.CLOSED
        if not (is_closed if probe is None else same_circuit(self._shared.record, probe)):
            return  # the circuit has changed since the call began
        record = after_failure(self._shared.record, error, self._clock.now(), self._policy)
        if record.state is BreakerState.CLOSED:
            self._shared.record = record
            await self.places.failed()
            return
        text = "circuit of %s: open for %.0f s, %d failures in a row (%s)"
        _log.warning(text, self._service, self._policy.open_for.total_seconds(), record.failures, error)
        await self._shared.publish(record)


def _reason(fault: BaseException) -> str:
    if isinstance(fault, asyncio.CancelledError):
        return "no answer by complete-by"
    return str(fault) or type(fault).__name__
