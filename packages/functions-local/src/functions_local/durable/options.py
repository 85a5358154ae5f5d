"""What can be set on the Durable engine; the host fills it from host.json and the command line."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import timedelta

from functions_local.sqlite_log import Synchronous


def _default_concurrency() -> int:
    """Ten per core, the extension's own default outside the Consumption plan."""
    return 10 * (os.cpu_count() or 1)


@dataclass(frozen=True, slots=True)
class ChaosOptions:
    """Legal misfortunes to provoke on purpose, the same ones again for the same seed."""

    #: Probability (0 to 1) that an activity runs twice, as it may in Azure after a crash.
    duplicate_activity: float = 0.0
    #: Deliver the messages waiting for an instance in random order.
    reorder: bool = False
    seed: int = 0


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Limits and habits of one engine. The timer values are those of the Azure Storage provider."""

    #: host.json `extensions.durableTask.maxConcurrentOrchestratorFunctions`
    max_concurrent_orchestrators: int = field(default_factory=_default_concurrency)
    #: host.json `extensions.durableTask.maxConcurrentActivityFunctions`
    max_concurrent_activities: int = field(default_factory=_default_concurrency)
    synchronous: Synchronous = Synchronous.NORMAL
    #: A timer longer than this is split by the SDK into legs; None: never split.
    maximum_short_timer: timedelta | None = timedelta(days=6)
    #: Length of one leg of a split timer; None: never split.
    long_timer_interval: timedelta | None = timedelta(days=3)
    #: Seconds that `stop` waits for running functions; what still runs then runs again at the next start.
    stop_grace: float = 5.0
    chaos: ChaosOptions = field(default_factory=ChaosOptions)
