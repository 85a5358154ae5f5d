"""How the payment service meets a call: as its order's fate says, or else as the present fault says."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

from tests.chaos.faults import Fault, FaultKind
from tests.chaos.payments.ledger import Direction
from tests.chaos.plan import Fate
from tests.chaos.tally import Tally

#: How often the undo of an unreachable order fails before it works.
_UNDO_FAILURES = 2


class Troubles:
    """Decides each call's trouble, and counts it."""

    def __init__(self, fates: Mapping[str, Fate], tally: Tally) -> None:
        self._fates = dict(fates)
        self._tally = tally
        self._undos: Counter[str] = Counter()
        self._misheard: set[str] = set()
        self._present: FaultKind | None = None
        self._met = 0

    def mend(self, order: str) -> None:
        """Let an order's calls succeed from now on."""
        self._fates[order] = Fate.SMOOTH

    async def happen(self, fault: Fault) -> int:
        """Let every call meet this fault for as long as it lasts, and tell how many did."""
        self._present, self._met = fault.kind, 0
        try:
            await asyncio.sleep(fault.lasts)
        finally:
            self._present = None
        return self._met

    def meet(self, order: str, direction: Direction) -> FaultKind | None:
        """Tell what becomes of a call; None when nothing is wrong with it."""
        own = self._own(order, direction)
        if own is not None:
            self._tally.add(own)
            return own
        self._met += 1
        return self._present

    def _own(self, order: str, direction: Direction) -> FaultKind | None:
        fate = self._fates.get(order, Fate.SMOOTH)
        return self._own_undo(order, fate) if direction is Direction.UNDO else self._own_do(order, fate)

    def _own_do(self, order: str, fate: Fate) -> FaultKind | None:
        match fate:
            case Fate.REFUSED | Fate.MENDED | Fate.WITHDRAWN:
                return FaultKind.PAYMENT_REFUSED
            case Fate.MISHEARD if order not in self._misheard:
                self._misheard.add(order)
                return FaultKind.PAYMENT_MALFORMED
            case Fate.UNREACHABLE | Fate.STUCK:
                return FaultKind.PAYMENT_FAILING
            case Fate.BELATED:
                return FaultKind.PAYMENT_BELATED
            case _:
                return None

    def _own_undo(self, order: str, fate: Fate) -> FaultKind | None:
        self._undos[order] += 1
        if fate is Fate.UNREACHABLE and self._undos[order] <= _UNDO_FAILURES:
            return FaultKind.UNDO_FAILING
        return FaultKind.UNDO_REFUSED if fate is Fate.STUCK else None
