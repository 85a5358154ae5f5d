"""The last telemetry of a process: sent when it ends, but nobody waits long for a collector that is away."""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from threading import Thread
from time import monotonic
from typing import Protocol, cast

from opentelemetry._logs import get_logger_provider
from opentelemetry.metrics import get_meter_provider
from opentelemetry.trace import get_tracer_provider

#: Seconds that all of it may take; by itself, the SDK takes half a minute for each kind.
_LONGEST = 0.3


class Provider(Protocol):
    """What spans, metrics or log records are sent through."""

    def shutdown(self) -> None:
        """Send what is left, and then nothing more."""


def flush_at_exit() -> None:
    """Have the providers in use shut down, before the SDK itself would do so and wait for them."""
    providers = (get_tracer_provider(), get_meter_provider(), get_logger_provider())
    atexit.register(shut_down, cast("Sequence[Provider]", providers))


def shut_down(providers: Sequence[Provider], *, within: float = _LONGEST) -> None:
    """Shut `providers` down side by side, and give up after `within` seconds."""
    until = monotonic() + within
    threads = [Thread(target=each.shutdown, name="flush telemetry", daemon=True) for each in providers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until - monotonic()))
