"""What one run does next with its task, planned within each change of the task's record."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from functools import partial

from functions.pattern.cannot_start import CannotStart
from functions.pattern.definition import Registry
from functions.pattern.events import Event, StepStarted
from functions.pattern.folding import Follow
from functions.pattern.identity import StartId, StepName
from functions.pattern.placing import HasPlace
from functions.pattern.planning import Runner, StepPlan, is_over, plan, started_by
from functions.pattern.readiness import Definitions
from functions.pattern.records import TaskRecord
from functions.pattern.untold import untold
from functions.scheduler.children import Children
from functions.scheduler.run_places import RunPlaces

_log = logging.getLogger(__name__)


class RunPlan:
    """The plans of one run, with the definitions that are deployed here, and the places that it holds."""

    def __init__(self, registry: Registry, runner: Runner, children: Children, places: RunPlaces) -> None:
        #: Ids of starts that this run planned. One that stands on the record is this run's to call, whatever
        #: became of the answer to the write.
        self.planned = set[StartId]()
        self._registry = registry
        self._runner = runner
        self._children = children
        self._places = places
        #: Ready steps that can't be started; each is told of once.
        self._unstartable = set[StepName]()

    def follow(self, *, is_first: bool, may_share: bool) -> Follow:
        """Give what plans the events that follow from a change."""

        def follow(record: TaskRecord, now: datetime) -> Sequence[Event]:
            has_place = partial(self._places.has, record)
            shares = may_share and self._places.again_at is None
            try:
                planned = self._plan(record, now, is_first=is_first, may_share=shares, has_place=has_place)
            except Exception:  # noqa: BLE001 - a defect in what follows must not cost a known outcome
                _log.exception("task %s: what follows could not be planned", record.order.task)
                return ()
            starts = [event for event in planned.events if isinstance(event, StepStarted)]
            self.planned |= {event.start_id for event in starts}
            # Of an earlier plan only what stands on the record: another run may have been faster.
            recorded = started_by(record, self._runner, self.planned)
            self._places.keep(follow, [event.step for event in starts], recorded)
            return planned.events

        return follow

    def left(self, record: TaskRecord, now: datetime) -> list[StepName]:
        """Name the ready steps that need another run now; those without a place at their service wait."""
        planned = self._plan(record, now, is_first=False, may_share=True, has_place=lambda _: True)
        return [name for name in planned.left if not self._places.lacks(name)]

    def _plan(
        self, record: TaskRecord, now: datetime, *, is_first: bool, may_share: bool, has_place: HasPlace
    ) -> StepPlan:
        if self._children.to_hear(record, now):
            return StepPlan()  # what follows depends on how they stand
        parked = untold(self._registry, record, now)
        if parked is not None and not is_over(record, self._runner.epoch, self._runner.scheduler):
            return StepPlan((parked,))
        return plan(
            record,
            self._runner,
            now,
            look_at=partial(self._look_at, Definitions(self._registry, record)),
            is_first=is_first,
            may_share=may_share,
            reached=self._children.reached,
            has_place=has_place,
        )

    def _look_at(self, here: Definitions, name: StepName) -> bool | datetime | CannotStart:
        """Ask the definition that the record names: what was remembered may be another task of this id."""
        look = here.look_at(name)
        if isinstance(look, CannotStart) and name not in self._unstartable:
            self._unstartable.add(name)
            text = "task %s: step %s is not started"
            _log.warning(text, here.record.order.task, name, exc_info=look.fault)
        return look
