"""How remote services answer: what was drawn for an order, and what goes wrong with any call."""

from __future__ import annotations

from collections.abc import Sequence

from tests.simulation.drawn.load import PLAIN, DrawnOrder
from tests.simulation.drawn.workflows import AGENTS
from tests.simulation.faults.fates import FaultyFates
from tests.simulation.faults.kinds import FaultPlan, SimulatedFault
from tests.simulation.remotes.ledger import RemoteCall
from tests.simulation.remotes.service import Manner
from tests.simulation.world.world import World

_FAILING = (Manner.FAILING, Manner.FAILING, Manner.THROTTLED, Manner.HANGING, Manner.GARBLED)
#: The part of calls that take long.
_SLOW_PART = 0.4
_SILENT = (Manner.DONE_AND_FAILING, Manner.LATE)


class Manners:
    """Decides of each call."""

    def __init__(
        self, world: World, plan: FaultPlan, fates: FaultyFates, orders: Sequence[DrawnOrder]
    ) -> None:
        self._world = world
        self._chance = chance = world.chance("manners")
        self._plan = plan
        self._fates = fates
        self._refused = {(each.id, each.refused) for each in orders if each.refused is not None}
        self._down = chance.choice(AGENTS) if plan.has(SimulatedFault.REMOTE_DOWN) else None
        self._undo_refused = {
            (each.id, chance.choice(each.workflow.steps).name)
            for each in orders
            if each.id != PLAIN and plan.has(SimulatedFault.UNDO_REFUSED)
        }

    def of(self, call: RemoteCall) -> Manner:
        """Decide; what was drawn for an order stays so when all is healed."""
        if not self._fates.is_healed:
            if call.agent == self._down:
                self._world.met(SimulatedFault.REMOTE_DOWN)
                return Manner.FAILING
            for kind, manners in (
                (SimulatedFault.REMOTES, _FAILING),
                (SimulatedFault.REMOTES_SILENT, _SILENT),
            ):
                if self._plan.has(kind) and self._chance.random() < 6 * self._plan.rate:
                    self._world.met(kind)
                    return self._chance.choice(manners)
            if self._plan.has(SimulatedFault.REMOTES_SLOW) and self._chance.random() < _SLOW_PART:
                self._world.met(SimulatedFault.REMOTES_SLOW)
                call.takes = self._chance.uniform(1, 14)
        is_refused = (call.task, call.step_name) in (self._undo_refused if call.is_undo else self._refused)
        if is_refused and call.is_undo:
            self._world.met(SimulatedFault.UNDO_REFUSED)
        return Manner.REFUSED if is_refused else Manner.DONE
