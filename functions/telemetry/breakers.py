"""The circuit breakers' states, read whenever metrics are exported."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from functions.pattern.breaker import BreakerState
from functions.telemetry.fields import Field
from functions.telemetry.instruments import METER

_LEVELS = {BreakerState.CLOSED: 0, BreakerState.HALF_OPEN: 1, BreakerState.OPEN: 2}


class ObservedBreaker(Protocol):
    """A breaker that can be looked at from any thread."""

    @property
    def service(self) -> str:
        """The remote service, by its Agent's name."""

    @property
    def state(self) -> BreakerState:
        """Whether the service is called, as this process knows it."""


def observe_breakers(breakers: Collection[ObservedBreaker], meter: Meter = METER) -> None:
    """Measure the states of `breakers`, one series for each service; a meter takes one call."""

    def read(_: CallbackOptions) -> Iterable[Observation]:
        return [Observation(_LEVELS[each.state], {Field.SERVICE: each.service}) for each in breakers]

    meter.create_observable_gauge("breaker.state", [read], "1", "0 closed, 1 half-open, 2 open")
