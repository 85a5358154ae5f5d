"""A service that is down while many tasks wait for it, and how its calls return."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from functions.pattern.crowds import SCHEDULERS
from tests.e2e.crowds.orders import Crowd, Ends, Show
from tests.e2e.crowds.payments import SlowPayments

_PATIENCE = 1_800.0
#: The application's own settings for what waits for a service, in seconds; they are divided by the scale.
_SECONDS = {
    "AGENTS_PICK_UP_SECONDS": 300.0,
    "BREAKER_OPEN_SECONDS": 15.0,
    "SKEW_SECONDS": 5.0,
}
_PAYMENT, _WAITS, _SWEEP_EVERY, _PER_MINUTE = 60.0, (60.0, 300.0, 900.0), 30, 600
_THRESHOLD = 3

#: Tells that what was alerted is over.
_OVER = "agent replies again"


@dataclass(frozen=True, slots=True)
class Outage:
    """So many `tasks` wait for a service that is down for `seconds`; times are `scale` times as fast.

    The service takes `call_seconds`, which are not scaled.
    """

    tasks: int
    seconds: float = 600
    scale: int = 1
    call_seconds: float = 1

    @property
    def settings(self) -> dict[str, str]:
        """The application's settings, scaled."""
        scaled = {name: f"{seconds / self.scale}" for name, seconds in _SECONDS.items()}
        return scaled | {
            "STEP_SECONDS": f"orders.payment={_PAYMENT / self.scale}",
            "EXTENDED_WAITS": ",".join(f"{wait / self.scale}" for wait in _WAITS),
            "SUPERVISOR_SCHEDULE": f"*/{_SWEEP_EVERY // self.scale} * * * * *",
            "SUPERVISOR_THRESHOLD": f"{_THRESHOLD}",
            "CROWD_PER_MINUTE": f"{_PER_MINUTE * self.scale}",
        }

    def allowed(self, after: float) -> float:
        """Tell how many calls may be in flight so many seconds after the return: 1, 2, 4 and so on."""
        interval = _SECONDS["BREAKER_OPEN_SECONDS"] / self.scale / 3
        return math.inf if after > 9 * interval else 2.0 ** math.floor(after / interval)


@dataclass(frozen=True, slots=True)
class Returned:
    """What became of the tasks; `per_second` are the calls that began in each second after the return."""

    outage: Outage
    ends: Ends
    paid_twice: int
    alerts: list[str]
    per_second: list[int]
    beyond: int
    refused: int
    seconds: float

    def faults(self) -> list[str]:
        """Tell which promises were broken."""
        promises = {
            "all tasks are processed": self.ends.states == {"Processed": self.outage.tasks},
            "calls never exceed the ramp": self.beyond == 0,
            "FailureCount stays below the threshold": max(self.ends.failures) < _THRESHOLD,
            "one alert": len(self.alerts) == 1,
        }
        return [promise for promise, is_kept in promises.items() if not is_kept]


async def outage(data: Path, show: Show, plan: Outage) -> Returned:
    """Have the service down, let the tasks wait for it, and have it return."""
    time = asyncio.get_running_loop().time
    payments = SlowPayments(plan.call_seconds)
    payments.is_down = True
    async with Crowd.at(data, payments, plan.settings) as crowd:
        await crowd.submit(plan.tasks)
        began = time()
        await crowd.until(lambda ends: sum(ends.states.values()) == plan.tasks, show, _PATIENCE)
        await asyncio.sleep(max(0.0, began + plan.seconds / plan.scale - time()))
        payments.is_down = False
        up_at = time()
        async with asyncio.timeout(_PATIENCE):
            while len(payments.paid) < plan.tasks:
                await asyncio.sleep(1)
                show(len(payments.paid))
        ends = await crowd.until(lambda ends: ends.finished == plan.tasks, show, _PATIENCE)
    calls = payments.calls
    return Returned(
        plan,
        ends,
        sum(times > 1 for times in payments.paid.values()),
        [_told(each) for each in payments.alerts if _is_of_service(each)],
        calls.per_second(payments.back_at),
        len(calls.beyond(payments.back_at, plan.allowed)),
        payments.refused,
        time() - up_at,
    )


def _is_of_service(alert: Mapping[str, Any]) -> bool:
    """Leave out that it is over, and tasks that wait for this machine, which may be busy."""
    return alert["event"] != _OVER and alert.get("behind") != SCHEDULERS


def _told(alert: Mapping[str, Any]) -> str:
    return f"{alert['event']}: {alert.get('reason')}"
