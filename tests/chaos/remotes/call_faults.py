"""The fault of each call to a remote service: by its order's scenario, or else the one injected now."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress

from tests.chaos.injection.lanes import FaultCounts
from tests.chaos.plan.faults import InjectedFault, Injection
from tests.chaos.plan.schedule import Scenario
from tests.chaos.remotes.ledger import CallDirection, ServiceCall

#: How often the undo of an unreachable order fails before it succeeds.
_UNDO_FAILURES = 2
#: Seconds for which a fault waits for a first call.
_LASTS_ON = 60.0
#: The step to which scenarios happen.
_PAYMENT = "payment"


class CallFaults:
    """Decides and counts the fault of each call."""

    def __init__(
        self, scenarios: Mapping[str, Scenario], fault_counts: FaultCounts, refused: Mapping[str, str]
    ) -> None:
        """`refused` are the steps that are refused of drawn orders."""
        self._scenarios = dict(scenarios)
        self._refused = refused
        self._fault_counts = fault_counts
        self._undos: Counter[str] = Counter()
        self._garbled: set[str] = set()
        self._injected: InjectedFault | None = None
        self._affected = 0
        self._called = asyncio.Event()

    def fix(self, order: str) -> None:
        """Let an order's calls succeed from now on, as its operator has fixed the cause."""
        self._scenarios[order] = Scenario.SMOOTH

    async def inject(self, injection: Injection) -> int:
        """Give every call this fault for as long as it lasts, and return how many calls there were.

        It lasts on while there was none: on a busy machine, an order takes long to get here.
        """
        self._injected, self._affected = injection.fault, 0
        self._called.clear()
        try:
            await _last(injection.lasts)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._called.wait(), _LASTS_ON)
        finally:
            self._injected = None
        return self._affected

    def next_for(self, call: ServiceCall) -> InjectedFault | None:
        """Return the fault of a call that arrives now; None when it is to succeed."""
        own = self._own(call.order, call.direction) if call.step == _PAYMENT else self._drawn(call)
        if own is not None:
            self._fault_counts.add(own)
            return own
        self._affected += 1
        self._called.set()
        return self._injected

    def _drawn(self, call: ServiceCall) -> InjectedFault | None:
        """Return what was drawn to befall a step, or each of its items."""
        is_refused = self._refused.get(call.order) == call.step.partition(".")[0]
        return InjectedFault.PAYMENT_REFUSED if is_refused and call.direction is CallDirection.DO else None

    def _own(self, order: str, direction: CallDirection) -> InjectedFault | None:
        scenario = self._scenarios.get(order, Scenario.SMOOTH)
        return (
            self._own_undo(order, scenario)
            if direction is CallDirection.UNDO
            else self._own_do(order, scenario)
        )

    def _own_do(self, order: str, scenario: Scenario) -> InjectedFault | None:
        match scenario:
            case Scenario.REFUSED | Scenario.FIXED | Scenario.UNDONE:
                return InjectedFault.PAYMENT_REFUSED
            case Scenario.GARBLED if order not in self._garbled:
                self._garbled.add(order)
                return InjectedFault.PAYMENT_MALFORMED
            case Scenario.UNREACHABLE | Scenario.STUCK:
                return InjectedFault.PAYMENT_FAILING
            case Scenario.OVERTAKEN:
                return InjectedFault.PAYMENT_AFTER_UNDO
            case _:
                return None

    def _own_undo(self, order: str, scenario: Scenario) -> InjectedFault | None:
        self._undos[order] += 1
        if scenario is Scenario.UNREACHABLE and self._undos[order] <= _UNDO_FAILURES:
            return InjectedFault.UNDO_FAILING
        return InjectedFault.UNDO_REFUSED if scenario is Scenario.STUCK else None


async def _last(seconds: float) -> None:
    await asyncio.sleep(seconds)
