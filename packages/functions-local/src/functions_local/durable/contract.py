"""The engine's input from the host: the app's Durable functions, a call to run one, and options."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol


@dataclass(frozen=True, slots=True)
class DurableFunction:
    """One orchestrator or activity of the app."""

    #: The Durable name: the override given in the decorator, else the function's name.
    name: str
    function: str
    parameter: str


@dataclass(frozen=True, slots=True)
class Returned:
    """The function returned."""

    #: The return value as JSON text; None or "null" for no value.
    json: str | None


@dataclass(frozen=True, slots=True)
class Raised:
    """The function raised an exception."""

    #: The worker's text, for example "ValueError: boom".
    message: str
    stack: str


class Invoke(Protocol):
    """Runs one function of the app. It raises only for errors in the host itself, which are retried."""

    async def __call__(self, function: str, parameter: str, payload: str) -> Returned | Raised:
        """Run the function with the JSON text `payload` in its parameter."""


class FunctionTable:
    """Durable functions by name, case-insensitively as in Azure."""

    def __init__(self, functions: Iterable[DurableFunction]) -> None:
        self._by_name = {function.name.lower(): function for function in functions}

    def get(self, name: str) -> DurableFunction | None:
        """Return the function of that name, or None."""
        return self._by_name.get(name.lower())


def _default_concurrency() -> int:
    """Ten per core, the extension's own default outside the Consumption plan."""
    return 10 * (os.cpu_count() or 1)


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Limits and behaviour of an engine. The timer values are those of the Azure Storage provider."""

    max_concurrent_orchestrators: int = field(default_factory=_default_concurrency)
    max_concurrent_activities: int = field(default_factory=_default_concurrency)
    store_inputs: bool = False
    default_version: str = ""
    #: Whether other hosts may open the database: each runs its own instances, and those of ended hosts.
    is_shared: bool = False
    #: A timer longer than this is split by the SDK into legs; None: never split.
    maximum_short_timer: timedelta | None = timedelta(days=6)
    #: Length of one leg of a split timer; None: never split.
    long_timer_interval: timedelta | None = timedelta(days=3)
    #: Seconds that `stop` waits for running functions; the next start runs unfinished ones again.
    stop_grace: float = 5.0
