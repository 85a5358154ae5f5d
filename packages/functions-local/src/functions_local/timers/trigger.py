"""The loop of one timer function: waits, runs it, retries by its policy, updates its record."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from functions_local.app import Function, TimerTrigger
from functions_local.configuration import StartError
from functions_local.invocations import Attempt, Invocations
from functions_local.protos import TypedData
from functions_local.timers.monitor import (
    ScheduleMonitor,
    ScheduleStatus,
    after_run,
    plan_start,
    worth_monitoring,
)
from functions_local.timers.ncrontab import Schedule, parse_schedule
from functions_local.worker import Succeeded

type Clock = Callable[[], datetime]
type Sleep = Callable[[float], Awaitable[None]]

#: Seconds after which the clock is read again: it may have been set, or the machine suspended.
_LONGEST_SLEEP = 60.0


def utc_now() -> datetime:
    """Return the current time as timers use it: naive UTC."""
    return datetime.now(UTC).replace(tzinfo=None)


class TimerRunner:
    """Runs one timer function while the host runs. `clock` and `sleep` are parameters for tests."""

    def __init__(
        self,
        function: Function,
        trigger: TimerTrigger,
        monitor: ScheduleMonitor,
        invocations: Invocations,
        *,
        clock: Clock = utc_now,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """Read the schedule. Raises StartError when it is malformed."""
        self._function = function
        self._trigger = trigger
        self._schedule = _schedule(function, trigger)
        self._monitored = trigger.use_monitor and worth_monitoring(self._schedule, clock())
        self._monitor = monitor
        self._invocations = invocations
        self._clock = clock
        self._sleep = sleep

    async def run(self) -> None:
        """Run the function on schedule until cancelled; only one of the hosts that share it runs it."""
        async with self._monitor.singleton(self._function.name):
            await self._run()

    async def _run(self) -> None:
        recorded = self._monitor.load(self._function.name) if self._monitored else None
        start = plan_start(recorded, self._schedule, self._clock())
        status = start.status
        if start.past_due or self._trigger.run_on_startup:
            status = await self._run_once(status, past_due=start.past_due)
        else:
            self._save(status)
        while True:
            while (left := (status.next - self._clock()).total_seconds()) > 0:
                await self._sleep(min(left, _LONGEST_SLEEP))
            status = await self._run_once(status, past_due=False)

    async def _run_once(self, status: ScheduleStatus, *, past_due: bool) -> ScheduleStatus:
        began = self._clock()
        await self._run_with_retries(timer_input(status if self._monitored else None, past_due=past_due))
        after = after_run(self._schedule, began)
        self._save(after)
        return self._without_missed(after)

    def _without_missed(self, status: ScheduleStatus) -> ScheduleStatus:
        """Skip occurrences that were due while the function ran: runs never overlap."""
        now = self._clock()
        return status if status.next > now else status.model_copy(update={"next": self._schedule.next(now)})

    async def _run_with_retries(self, request: TypedData) -> None:
        policy = self._function.retry
        retries = policy.max_retries if policy else 0
        for count in itertools.count():
            attempt = Attempt(count, retries)
            outcome = await self._invocations.run(
                self._function, {self._trigger.parameter: request}, attempt=attempt
            )
            if isinstance(outcome, Succeeded) or policy is None or count == retries:
                return
            await self._sleep(policy.delay(count))

    def _save(self, status: ScheduleStatus) -> None:
        if self._monitored:
            self._monitor.save(self._function.name, status)


def timer_input(status: ScheduleStatus | None, *, past_due: bool) -> TypedData:
    """Make the value of a timer parameter as the Azure host sends it; `status` is None without a record."""
    record = status and {
        "Last": _text(status.last or datetime.min),  # noqa: DTZ901 - .NET's earliest date means never
        "Next": _text(status.next),
        "LastUpdated": _text(status.updated),
    }
    return TypedData(
        json=json.dumps({"Schedule": {"AdjustForDST": True}, "ScheduleStatus": record, "IsPastDue": past_due})
    )


def _schedule(function: Function, trigger: TimerTrigger) -> Schedule:
    try:
        schedule = parse_schedule(trigger.schedule)
        schedule.next(utc_now())
    except ValueError as error:
        raise StartError(
            f"function {function.name} has the schedule {trigger.schedule!r}: {error}"
        ) from error
    return schedule


def _text(moment: datetime) -> str:
    return moment.isoformat() + "+00:00"
