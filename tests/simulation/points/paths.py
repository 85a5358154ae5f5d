"""The paths of the sample workflows, and the states in which they end."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from functions.workflows.registration import Registration
from functions.workflows.registry import load_registrations
from tests.simulation.drawn.load import DrawnOrder
from tests.simulation.remotes.ledger import RemoteCall
from tests.simulation.remotes.service import Manner
from tests.simulation.run.drawn_run import Scenario
from tests.simulation.run.platform import SimulatedTimes

_TIMES = SimulatedTimes(sweep=15, pick_up=15, extended_waits=(5,))
_PAYLOADS: Mapping[str, Mapping[str, Any]] = {
    "orders": {
        "customer": "C-1",
        "currency": "EUR",
        "items": [{"sku": "TEA", "quantity": 2, "unit_price": "4.90"}],
    },
    "delivery": {
        "account": "A-1",
        "pickup": {"latitude": 47.64, "longitude": -122.13},
        "dropoff": {"latitude": 47.61, "longitude": -121.5},
        "pickup_at": "2026-11-21T12:00:00Z",
        "expedited": True,
        "package": {"weight_kg": 1.2, "size": "small", "tag": "spare parts"},
    },
}
#: What the services answer, by their Agents' names.
_ANSWERS = {
    "account": {"suspended": False},
    "package": {"tracking_number": "T-1"},
    "transport": {"carrier": "C-1", "price": "1.50", "currency": "EUR"},
    "drone": {"drone": "D-1"},
    "delivery": {"expected_at": "2026-11-21T13:00:00Z"},
}
#: The last service of each workflow that something is asked of.
_LAST = {"orders": "payment", "delivery": "delivery"}
#: Seconds from the beginning, until when a service hangs: beyond its step's complete-by.
_HANGS_UNTIL = {"orders": 62.0, "delivery": 17.0}


class PathTaken(StrEnum):
    """How a task goes, but for the fault."""

    #: Everything succeeds.
    HAPPY = "happy"
    #: The last service hangs for longer than its step may take.
    RECOVERED = "recovered"
    #: The last service refuses, or fails for good.
    COMPENSATED = "compensated"
    #: Its caller cancels it while it is under way.
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class SamplePath:
    """One path of one sample workflow."""

    workflow: str
    path: PathTaken

    def __str__(self) -> str:
        return f"{self.workflow}, {self.path}"

    @property
    def ends(self) -> frozenset[str]:
        """Give the states in which it may end: a cancel may come too early, and is then repeated."""
        is_undone = self.path in {PathTaken.COMPENSATED, PathTaken.CANCELLED}
        return frozenset({"Compensated" if is_undone else "Processed"})

    def scenario(self, threshold: int) -> Scenario:
        """Give what takes place: one order, on two hosts."""
        registrations = tuple(_with_services(each) for each in load_registrations())
        workflow = next(each.workflow for each in registrations if each.workflow.name == self.workflow)
        cancelled = 0.3 if self.path is PathTaken.CANCELLED else None
        order = DrawnOrder("s1", workflow, _PAYLOADS[self.workflow], 0.0, cancelled=cancelled)
        return Scenario(registrations, registrations, (order,), replace(_TIMES, threshold=threshold), hosts=2)

    def manner(self) -> Callable[[RemoteCall], Manner]:
        """Give how the services answer."""

        def manner(call: RemoteCall) -> Manner:
            if call.is_undo or call.agent != _LAST[self.workflow]:
                return Manner.DONE
            if self.path is PathTaken.COMPENSATED:
                return Manner.REFUSED if self.workflow == "delivery" else Manner.FAILING
            if self.path is PathTaken.RECOVERED and call.arrived < _HANGS_UNTIL[self.workflow]:
                return Manner.HANGING
            return Manner.DONE

        return manner


def answer(call: RemoteCall) -> bytes:
    """Give what a sample's service answers."""
    return json.dumps(_ANSWERS.get(call.agent, {"paid": True})).encode()


def every_path() -> list[SamplePath]:
    """Give all paths of both workflows."""
    return [SamplePath(workflow, path) for workflow in _PAYLOADS for path in PathTaken]


def _with_services(registration: Registration) -> Registration:
    """Leave the sample services out: the simulated ones stand in their place."""
    return Registration(registration.workflow, registration.agents, (), registration.older)
