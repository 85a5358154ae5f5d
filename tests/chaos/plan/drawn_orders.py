"""Orders of the workflows that a seed draws."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from itertools import count, islice
from random import Random
from typing import Any

from tests.chaos.app.drawn import drawn_registrations
from tests.simulation.drawn.load import DrawnOrder, draw_orders
from tests.simulation.world.world import START

#: Drawn timers go off up to 300 seconds after an order; those of up to so many do at once here.
_TIMERS_FROM = 290
#: An order does not depend on its steps' limits.
_ANY_LIMIT = 1.0


def drawn_orders(seed: int, number: int) -> list[DrawnOrder]:
    """Draw so many orders, each with an id of its own."""
    return [
        replace(order, id=f"chaos-{seed}-d{place:03d}")
        for place, order in enumerate(islice(_orders(seed), number))
    ]


def _orders(seed: int) -> Iterator[DrawnOrder]:
    registrations = drawn_registrations(seed, version=1, limit=_ANY_LIMIT)
    for crowd in count():
        chance = Random(f"{seed}/{crowd}/drawn")  # noqa: S311 - not for security
        yield from draw_orders(chance, registrations)


def body_of(order: DrawnOrder, submitted: datetime) -> Mapping[str, Any]:
    """Return what is submitted: the drawn timers count from a time of the simulation."""
    passed = int((submitted - START).total_seconds())
    return {**order.payload, "at": passed - _TIMERS_FROM}
