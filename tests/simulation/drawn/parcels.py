"""What drawn workflows are ordered with: a payload that says what each of its steps does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict

from functions.pattern.definition import Json
from functions.pattern.identity import StepName
from tests.simulation.world.world import START

type Results = Mapping[StepName, Any]


class DrawnParcel(BaseModel):
    """`skipped` are the numbers of steps whose condition is false; timers go off `at` seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    skipped: tuple[int, ...]
    items: int
    at: int


class Told(BaseModel):
    """The event that a step waits for."""

    model_config = ConfigDict(extra="forbid")

    yes: bool


def request(parcel: DrawnParcel, results: Results) -> Json:
    """Make a step's request, which names what it got."""
    return {"items": parcel.items, "after": sorted(results)}


def request_for_item(parcel: DrawnParcel, results: Results, item: int) -> Json:
    """Make an item's request."""
    return {**request(parcel, results), "item": item}


def request_for_child(parcel: DrawnParcel, _results: Results) -> Json:
    """Make the payload of a task that is a step."""
    return parcel.model_dump()


def is_wanted(number: int) -> Callable[[DrawnParcel, Results], bool]:
    """Make a step's condition."""
    return lambda parcel, _results: number not in parcel.skipped


def is_wanted_for_item(number: int) -> Callable[[DrawnParcel, Results, int], bool]:
    """Make the condition of each item."""
    return lambda parcel, _results, item: (number + item) not in parcel.skipped


def items(parcel: DrawnParcel) -> list[int]:
    """Give the items of a for-each step."""
    return list(range(parcel.items))


def goes_off(seconds: int) -> Callable[[DrawnParcel, Results], datetime]:
    """Make a timer's time."""
    return lambda parcel, _results: START + timedelta(seconds=parcel.at + seconds)
