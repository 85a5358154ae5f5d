"""Steps that are tasks of other workflows: a run has them begun, or cancelled, before it lets go of the task.

Their start is on record before. All of it may be done again: a child has one id, and is inserted only.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from functions.messages.ends import Parents
from functions.messages.queues import again_until
from functions.pattern.children import (
    UNDONE_WITH_ITS_PARENT,
    children_over,
    children_to_reach,
    end_of,
    is_gone,
    tombstone,
)
from functions.pattern.definition import Registry
from functions.pattern.errors import TransientError, UnwritableError
from functions.pattern.events import Cancelled, Event, StepBroken
from functions.pattern.identity import FIRST_EPOCH, StepName, new_birth
from functions.pattern.planning import Runner
from functions.pattern.ports import Ports
from functions.pattern.readiness import Definitions, NotDeployedError, lack_of
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import Refused
from functions.pattern.states import Direction, ProcessState
from functions.pattern.store_ports import Stored
from functions.pattern.texts import cause_of
from functions.pattern.transitions import admit
from functions.scheduler.outcomes import StepAttempt
from functions.telemetry.spans import current_traceparent


class Children:
    """The children of one run: those that are `reached` have been begun, or cancelled.

    Of those whose time is over, it was looked how the `heard` ones stand.
    """

    def __init__(self, ports: Ports, registry: Registry, runner: Runner) -> None:
        self.reached = set[StepName]()
        self.heard = set[StepName]()
        self._ports = ports
        self._registry = registry
        self._runner = runner
        self._parents = Parents(ports.store, ports.clock, runner.start_within)
        self._wanted = set[StepName]()
        self._looked_at = set[StepName]()

    @property
    def more_to_reach(self) -> bool:
        """Tell whether any is wanted that is not reached."""
        return not self._wanted <= self.reached

    def to_reach(self, record: TaskRecord) -> Sequence[StepName]:
        """Name the steps whose children this run has to reach, and each once."""
        names = [each for each in children_to_reach(record) if each not in self._wanted]
        self._wanted.update(names)
        return names

    def to_hear(self, record: TaskRecord, now: datetime) -> set[StepName]:
        """Name the steps whose children's time is over, and that are to be looked at before that counts."""
        return set(children_over(record, now)) - self.heard

    def late(self, record: TaskRecord) -> Collection[StepName]:
        """Name those of them that nobody looks at by now."""
        late = self.to_hear(record, self._ports.clock.now()) - self._looked_at
        self._looked_at |= late
        return late

    async def hear(self, record: TaskRecord, until: datetime) -> None:
        """Have a task hear of those that have ended. Raises `TransientError` when that was impossible."""
        late = self.to_hear(record, self._ports.clock.now())
        try:
            await again_until(until, partial(self._parents.look, record), self._ports.clock)
            self.heard |= late
        finally:
            self._looked_at -= late

    async def reach(self, record: TaskRecord, step: StepName) -> Event | None:
        """Begin a child, or cancel it; give what its parent has to take for that. Raises `TransientError`."""
        reach = self._cancel if record.task.direction is Direction.UNDO else self._begin
        clock = self._ports.clock
        until = clock.now() + self._runner.start_within
        return await again_until(until, partial(reach, record, step), clock)

    async def _begin(self, record: TaskRecord, step: StepName) -> Event | None:
        """Admit a child, unless it is there; where that is impossible, one of before counts all the same."""
        of = self._runner.epoch, self._runner.scheduler
        try:
            child = self._made(record, step)
        except NotDeployedError as lack:
            return await self._known_or(record, step, lack_of(lack).parked(*of))
        except Exception as defect:  # noqa: BLE001 - whatever a definition's function raises
            return await self._known_or(record, step, self._broken(step, defect))
        try:
            admitted = await self._ports.store.admit(child)
        except UnwritableError as refusal:
            return self._broken(step, refusal)
        return await self._begun(step, admitted.stored)

    def _made(self, record: TaskRecord, step: StepName) -> TaskRecord:
        now, birth = self._ports.clock.now(), new_birth(self._ports.new_id())
        order = Definitions(self._registry, record).child_order(step, now, birth)
        order = replace(order, traceparent=current_traceparent())
        return admit(order, pick_up_by=now + self._runner.start_within)

    def _broken(self, step: StepName, defect: Exception) -> StepBroken:
        return StepBroken(
            epoch=self._runner.epoch,
            scheduler=self._runner.scheduler,
            step=step,
            error=cause_of(defect),
            start_by=self._start_by(),
        )

    async def _known_or(self, record: TaskRecord, step: StepName, event: Event) -> Event | None:
        stored = await self._ports.store.load(record.child(step))
        return event if stored is None else await self._begun(step, stored)

    async def _begun(self, step: StepName, child: Stored) -> Event | None:
        """Ask for the Scheduler of a child that has none yet; a repeat is dropped."""
        task = child.record.task
        is_first = (task.epoch, task.run) == (FIRST_EPOCH, None)
        waits = task.is_parked or task.is_handed_back
        if is_first and task.process_state is ProcessState.PENDING and not waits:
            await self._ports.scheduler_requests.request(task, child.record.queued)
        self.reached.add(step)
        return end_of(child.record, self._start_by())

    async def _cancel(self, record: TaskRecord, step: StepName) -> Event | None:
        """Have a child undone; one that was never admitted is kept from that."""
        name = record.child(step)
        stored = await self._ports.store.load(name)
        if stored is None:
            if is_gone(record, step):
                gone = f"its task {name} was processed, and is gone"
                return StepAttempt.of(record, step).failed(gone, self._start_by())
            birth = new_birth(self._ports.new_id())
            kept = tombstone(record, step, self._ports.clock.now(), birth)
            stored = (await self._ports.store.admit(kept)).stored
        child = await self._cancelled(stored)
        self.reached.add(step)
        is_undone = child.task.process_state is ProcessState.COMPENSATED
        return end_of(child, self._start_by()) if is_undone else None

    async def _cancelled(self, child: Stored) -> TaskRecord:
        """Cancel it as an operator may, also after it was processed. Raises `TransientError`."""
        if child.record.task.process_state is ProcessState.COMPENSATED:
            return child.record
        event = Cancelled(
            who="scheduler",
            reason=UNDONE_WITH_ITS_PARENT,
            by_operator=True,
            start_by=self._start_by(),
            traceparent=current_traceparent(),
        )
        task = child.record.order.task
        outcome = await self._ports.store.change(task, event, read=child)
        if isinstance(outcome, Refused):
            raise TransientError(f"task {task} is not cancelled yet ({outcome.reason})")
        return outcome.record

    def _start_by(self) -> datetime:
        return self._ports.clock.now() + self._runner.start_within
