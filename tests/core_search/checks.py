"""The checks of a seed: of each change of a record, of each release, and of the end."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from functions.core.deadline_rules import DEFERRED_TOO_LONG, UNREACHED
from functions.core.derive import ProcessState, derive, needs_run, needs_undo, step_state, unsettled
from functions.core.gate_rules import Circuit, Gate
from functions.core.record import (
    EFFECT_TYPES,
    WAITING_TYPES,
    Direction,
    EpochEnd,
    MessageKind,
    Operation,
    OperationState,
    StepSpec,
    StepType,
    TaskRecord,
)
from functions.core.task_events import (
    Answered,
    ChildEnded,
    Event,
    OutcomeKind,
    Resubmitted,
    StepEnded,
    UndoRequested,
)
from tests.core_search.host import SETTINGS

if TYPE_CHECKING:
    from tests.core_search.world import World

#: Seconds after the return of a queue Agent within which every step that waited for it is released.
_RELEASED_WITHIN = 180
#: Seconds after which every host has the newest view of a gate, with an allowance for its use.
_VIEW_SECONDS = 4
_ENDED = {OperationState.DONE, OperationState.REFUSED}


class ViolationError(Exception):
    """An invariant does not hold."""


class Checks:
    """The invariants of a seed, with the facts that they need beside the records."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.by_operator: set[tuple[str, str]] = set()
        self.holds: dict[str, list[tuple[datetime, datetime | None]]] = defaultdict(list)
        self._admitted: dict[str, datetime] = {}
        self._pauses: dict[str, timedelta] = defaultdict(timedelta)
        self._gated: dict[str, dict[str, datetime]] = defaultdict(dict)
        self._closed_since: dict[str, datetime] = {}
        self._gate_written: dict[str, datetime] = {}
        self._waits_since: dict[tuple[str, str, datetime], datetime] = {}
        self._released_at: dict[str, datetime] = {}
        self._counted: dict[str, list[str]] = defaultdict(list)

    def require(self, holds: object, text: str) -> None:
        """Record a violation unless `holds`."""
        self.world.require(holds, text)

    # Changes

    def check_event(self, event: Event | None, before: TaskRecord) -> None:
        """Check that an event that counts is true: an operator's action, a look-up, or the end of a child."""
        if isinstance(event, Answered | Resubmitted | UndoRequested):
            place = f"{before.order.task}: {type(event).__name__}"
            self.require(event.epoch == before.epoch, f"{place} of epoch {event.epoch} in {before.epoch}")
            self.require(before.error is not None, f"{place} counted outside of Error")
        if isinstance(event, StepEnded) and event.is_look_up:
            place = f"{before.order.task} {event.step}: look-up"
            is_open = before.do(event.step).find_by is not None and event.epoch == before.epoch
            self.require(is_open, f"{place} counted that was over")
            is_fenced = event.start_id in self.world.services.fenced
            is_safe = event.kind is not OutcomeKind.NOT_BEGUN or is_fenced
            self.require(is_safe, f"{place} found it not done, and its start may take effect")
        if isinstance(event, ChildEnded):
            step, child = before.step(event.step), self.world.records.get(event.child)
            state = ProcessState.COMPENSATED if child is None else derive(child).state
            own = ProcessState.PROCESSED if event.is_done else ProcessState.COMPENSATED
            current = [before.order.child(event.step, step.generation(each)) for each in Direction]
            is_true = state is own and event.child in current
            self.require(is_true, f"{before.order.task}: end of {event.child or 'no child'}: {state}")

    def check_change(self, before: TaskRecord | None, after: TaskRecord) -> None:
        """Check one change of a task."""
        task, columns = after.order.task, derive(after)
        is_open = after.finished_at is None
        self.require(not is_open or after.suspension or columns.due_at, f"{task}: open, and never due")
        waits = {op.gate for _, op in after.operations() if op.gate is not None and is_open}
        self.require(set(columns.gates) == waits, f"{task}: gates {columns.gates}")
        self.require(len({m.id for m in after.outbox}) == len(after.outbox), f"{task}: a message twice")
        for spec in after.order.specs:
            step_state(after, spec)
        self._cover(after)
        is_stopped_undo = after.error is not None and after.direction is Direction.UNDO
        if is_stopped_undo and any(
            step.undo.state is OperationState.REFUSED for step in after.steps.values()
        ):
            self._check_stopped_undo(after)
        self._admitted.setdefault(task, self.world.now())
        credited = {*after.hold_credits, *(before.hold_credits if before is not None else ())}
        self._gated[task] = {gate: self._gated[task].get(gate, self.world.now()) for gate in credited}
        for gate, (since, _) in columns.gates.items():
            self._waits_since.setdefault((gate, task, since), self.world.now())
        if before is not None:
            self._check_transition(before, after)

    def _check_transition(self, before: TaskRecord, after: TaskRecord) -> None:
        task = after.order.task
        is_later = (after.epoch, after.run) >= (before.epoch, before.run)
        self.require(is_later, f"{task}: epoch or run went back")
        is_back = before.direction is Direction.UNDO and after.direction is Direction.DO
        self.require(not is_back, f"{task}: from undo to do")
        most = SETTINGS.threshold + len(SETTINGS.extended_waits)
        self.require(after.failures <= most, f"{task}: {after.failures} recoveries")
        if not self.world.intensity:
            if after.failures > before.failures:
                self._check_counted(before)
            self._check_deferred(before, after)
            is_exhausted = after.closed and after.closed[-1].end is EpochEnd.EXHAUSTED
            self.require(not is_exhausted, f"{task}: exhausted, though no fault was drawn")
        self._check_epoch(before, after)
        self._check_held(before, after)
        self._check_release(before, after)
        self._check_expired(before, after)
        for name, step in after.steps.items():
            spec, old = after.order.by_name[name], before.step(name)
            self.require(not (old.number and not step.number), f"{task} {name}: dispatch lost")
            self.require(len(step.earlier_dos) >= len(old.earlier_dos), f"{task} {name}: generation lost")
            if (len(step.earlier_dos), step.undone) != (len(old.earlier_dos), old.undone):
                is_child = spec.type is StepType.WORKFLOW
                cause = "child started again" if is_child else "request rebuilt"
                self.world.cover(task, "generation undone" if step.undone else cause)
                if is_child:
                    is_started = len(step.earlier_dos) > len(old.earlier_dos)
                    earlier = len(old.earlier_dos) if is_started else old.generation(Direction.UNDO)
                    self._check_child_undone(after, name, earlier)
                continue
            for direction in Direction:
                was, now = old.operation(direction), step.operation(direction)
                self.require(
                    was.request in {None, now.request}, f"{task} {name} {direction}: request changed"
                )
                if now.start_id != was.start_id and spec.type not in WAITING_TYPES:
                    self._check_start(before, after, spec, direction)
                if now.state in _ENDED and was.state not in _ENDED and spec.type not in WAITING_TYPES:
                    self._check_end(after, spec, direction, was, now)
            self._check_event(before, after, spec)
            is_refused = old.do.state is OperationState.RUNNING and step.do.state is OperationState.REFUSED
            if (
                spec.type is StepType.WORKFLOW
                and is_refused
                and not (step.do.error or "").startswith("its task did not end")
            ):
                self._check_child_undone(after, name, len(step.earlier_dos))

    def _check_child_undone(self, record: TaskRecord, name: str, generation: int) -> None:
        """Check that the child of a generation was undone, if it was admitted."""
        child = self.world.records.get(record.order.child(name, generation))
        state = ProcessState.COMPENSATED if child is None else derive(child).state
        place = f"{record.order.task} {name}"
        self.require(state is ProcessState.COMPENSATED, f"{place}: its child {generation} is {state}")

    def _check_held(self, before: TaskRecord, after: TaskRecord) -> None:
        """Check that a deferral behind a held gate does not end, neither as a recovery nor as a failure."""
        now = self.world.now()
        running = [op for _, op in before.operations() if op.state is OperationState.RUNNING]
        is_deferral = not needs_run(before) and not any(op.is_overdue(now) for op in running)
        is_recovered = is_deferral and after.failures > before.failures
        for spec, op in before.operations():
            gate = self.world.gates.get(op.gate or "")
            hold = None if gate is None else gate.hold
            if hold is None or now - hold.start < timedelta(seconds=20):
                continue
            is_failed = after.step(spec.name).operation(before.direction).error == DEFERRED_TOO_LONG
            is_cause = is_recovered and op.defer_by is not None and op.defer_by <= now
            place = f"{after.order.task} {spec.name}"
            self.require(not (is_failed or is_cause), f"{place}: counted behind the held gate {op.gate}")

    def _check_epoch(self, before: TaskRecord, after: TaskRecord) -> None:
        """Check the end of an epoch or of a task, and the number of items at once."""
        task = after.order.task
        for spec in {each.step: each for each in after.order.specs if each.at_once is not None}.values():
            items = (each.name for each in after.order.specs if each.step == spec.step)
            running = sum(after.current(name).state is OperationState.RUNNING for name in items)
            self.require(running <= (spec.at_once or 0), f"{task} {spec.step}: {running} items at once")
        if after.closed and after.closed[-1].end is EpochEnd.TIMED_OUT:
            unknown = [
                name
                for name, state in after.closed[-1].steps.items()
                if state == "unknown" and not after.order.by_name[name].may_fail
            ]
            self.require(not unknown, f"{task}: timed out before the question on {unknown}")
        if after.error is not None and before.error is None and after.direction is Direction.DO:
            name = after.error.partition(":")[0]
            do = after.do(name)
            is_broken = do.state is OperationState.NOT_STARTED and after.error == f"{name}: {do.error}"
            self.require(not is_broken, f"{task}: stopped at {after.error}, though no function raises")
        for name, step in after.steps.items() if after.epoch > before.epoch else ():
            is_once = after.order.by_name[name].must_not_repeat(Direction.DO)
            is_pending = step.do.state is OperationState.RUNNING and step.do == before.step(name).do
            self.require(not (is_once and is_pending), f"{task} {name}: its epoch ended while it was pending")

    def _check_start(
        self, before: TaskRecord, after: TaskRecord, spec: StepSpec, direction: Direction
    ) -> None:
        """Check that a start was allowed: its order, the gate, the suspension, the previous start."""
        place = f"{after.order.task} {spec.name}"
        was, now = before.step(spec.name).operation(direction), after.step(spec.name).operation(direction)
        self.require(before.suspension is None, f"{place}: started while suspended")
        if not self.world.intensity:
            since = self._closed_since.get(spec.gate, self.world.now())
            is_closed = since + timedelta(seconds=_VIEW_SECONDS) < self.world.now()
            self.require(not is_closed, f"{place}: started, though {spec.gate} is closed")
        # A step that must not be repeated may be certain not to have been done.
        is_over = was.state in {OperationState.NOT_STARTED, OperationState.UNKNOWN}
        is_own = was.run == now.run and spec.type is StepType.ACTIVITY and not spec.must_not_repeat(direction)
        is_own &= not was.is_overdue(now.started_at or self.world.now())  # the Supervisor counts it
        self.require(is_over or before.epoch != after.epoch or is_own, f"{place}: started over {was.state}")
        if direction is Direction.DO:
            is_ordered = spec.needs.isdisjoint(unsettled(after)) or after.direction is Direction.UNDO
            self.require(is_ordered, f"{place}: started before its needs")
        else:
            self._check_undo_order(after, spec.name)

    def _check_end(
        self, after: TaskRecord, spec: StepSpec, direction: Direction, was: Operation, now: Operation
    ) -> None:
        """Check that an outcome is that of the start on record, in time, or an operator's verdict."""
        place = f"{after.order.task} {spec.name} {direction}"
        is_current = was.start_id == now.start_id and was.state is OperationState.RUNNING
        is_once = spec.must_not_repeat(direction)
        is_new = was.start_id != now.start_id and now.start_id is not None
        is_answer = (after.order.task, spec.name) in self.by_operator
        is_exhausted = (now.error or "").endswith((DEFERRED_TOO_LONG, "recoveries"))
        is_allowed = is_current or is_once or is_new or is_answer or is_exhausted
        self.require(is_allowed, f"{place}: outcome of a start that was over ({was.state})")
        if is_current and not (is_once or is_answer or is_exhausted) and spec.type in EFFECT_TYPES:
            is_derived = (now.error or "").startswith("outcome unknown")
            is_late = now.finished_at and was.complete_by and now.finished_at > was.complete_by
            self.require(is_derived or not is_late, f"{place}: a late reply counted")

    def _check_event(self, before: TaskRecord, after: TaskRecord, spec: StepSpec) -> None:
        """Check that an event step does not time out for a time in which its task was suspended."""
        was, now = before.do(spec.name), after.do(spec.name)
        is_expired = was.state is OperationState.RUNNING and now.state is OperationState.REFUSED
        if spec.type is not StepType.EVENT or not is_expired or was.started_at is None:
            return
        waited = self.world.now() - was.started_at
        pauses = self._pauses[f"{after.order.task}/{was.start_id}"]
        limit = timedelta(seconds=spec.complete_within - 3) + pauses
        self.require(waited >= limit, f"{after.order.task} {spec.name}: timed out early")

    def _check_expired(self, before: TaskRecord, after: TaskRecord) -> None:
        """Check that neither a suspension nor a hold counts against the task's own time limit."""
        task, limit = after.order.task, after.order.complete_within
        if before.suspension is not None and after.suspension is None:
            length = self.world.now() - before.suspension.since
            self._pauses[task] += length
            for step in before.steps.values():
                if step.do.state is OperationState.RUNNING:
                    self._pauses[f"{task}/{step.do.start_id}"] += length
        is_expired = (after.reason or "").startswith("not finished within")
        if before.error is not None or limit is None or not is_expired:
            return
        self.world.cover(task, "timed out")
        now = self.world.now()
        held = max(
            (self._held(gate, since) for gate, since in self._gated[task].items()), default=timedelta()
        )
        end = self._admitted[task] + timedelta(seconds=limit - 8) + max(held, self._pauses[task])
        is_first = after.epoch > before.epoch or after.error is not None
        self.require(not is_first or before.reason == after.reason or now >= end, f"{task}: timed out early")

    def _held(self, gate: str, since: datetime) -> timedelta:
        now = self.world.now()
        spans = (min(end or now, now) - max(start, since) for start, end in self.holds[gate])
        return sum((span for span in spans if span > timedelta()), timedelta())

    # Undo

    def _check_undo_order(self, record: TaskRecord, name: str) -> None:
        number, task = record.step(name).number or 0, record.order.task
        for other in record.steps.values():
            if (other.number or 0) > number and needs_undo(record.order.by_name[other.name], other):
                is_over = other.undo.state in {*_ENDED, OperationState.SKIPPED}
                is_blocked = _blocking(record, other.name)
                self.require(is_over or is_blocked, f"{task} {name}: undone before {other.name}")
        blocking = _blocking(record, name)
        self.require(not blocking, f"{task} {name}: undone, though {blocking} needs it")

    def _check_stopped_undo(self, record: TaskRecord) -> None:
        """Check that an undo that an operator must resume has left only blocked steps."""
        for step in record.steps.values():
            is_open = step.undo.state in {OperationState.NOT_STARTED, OperationState.RUNNING}
            if is_open and needs_undo(record.order.by_name[step.name], step) and record.failures == 0:
                self.require(_blocking(record, step.name), f"{record.order.task} {step.name}: not undone")

    # Gates

    def check_gate(self, before: Gate | None, gate: Gate) -> None:
        """Check a change of a gate: without a fault, healthy traffic of a queue does not write its row."""
        agent, services = gate.name.removeprefix("queue:"), self.world.services
        is_held = any(end is None for _, end in self.holds[gate.name])
        self.require(gate.hold is not None or not is_held, f"{gate.name}: its hold is lost")
        if before is not None:
            is_same = (before.link, before.circuit, before.next_at) == (gate.link, gate.circuit, gate.next_at)
            self.require(is_same or before.link < gate.link, f"{gate.name}: link {gate.link} twice")
        is_healthy = agent not in services.troubled and agent not in services.hung.values()
        if gate.is_queue and not self.world.intensity:
            self.require(not is_healthy, f"{gate.name}: written, though no fault was drawn")
        self._gate_written[gate.name] = self.world.now()
        if gate.circuit is Circuit.OPEN or gate.hold is not None:
            self._closed_since.setdefault(gate.name, self.world.now())
        else:
            self._closed_since.pop(gate.name, None)

    def failing(self, name: str) -> Gate | None:
        """Return a gate that shows failures, if all hosts have its newest view."""
        gate = self.world.gates.get(name)
        written_at = self._gate_written.get(name)
        if gate is None or gate.circuit is Circuit.OPEN or not gate.failures or written_at is None:
            return None
        return None if written_at + timedelta(seconds=_VIEW_SECONDS) > self.world.now() else gate

    def _check_counted(self, before: TaskRecord) -> None:
        """Check that a failure was counted for a request that hung, or as one of the first of an absence."""
        services, task, causes = self.world.services, before.order.task, set[str]()
        for spec, op in before.operations():
            is_once = spec.must_not_repeat(before.direction)
            if spec.type is not StepType.QUEUE or op.state is not OperationState.RUNNING or is_once:
                continue
            if not op.started_at or not op.complete_by or op.complete_by > self.world.now():
                continue
            if op.start_id in services.hung_starts:
                causes.add("hung")
            outage = services.outages.get(spec.agent, (0, 0))
            start, end = (self.world.start + timedelta(seconds=time) for time in outage)
            if start <= op.complete_by and op.started_at <= end:
                causes.add(spec.agent)
        if len(causes) == 1 and "hung" not in causes:
            agent = min(causes)
            self._counted[agent].append(task)  # one task alone may count all failures
            is_bounded = len(self._counted[agent]) <= SETTINGS.open_after
            self.require(is_bounded, f"{agent} away: {self._counted[agent]} counted")
        if not causes:
            is_on_its_way = self.world.replying[task]
            self.require(is_on_its_way, f"{task}: recovered, though no fault was drawn")

    def _check_deferred(self, before: TaskRecord, after: TaskRecord) -> None:
        """Check that the only request that hangs at a healthy Agent is counted."""
        services = self.world.services
        for spec, was in before.operations():
            if was.start_id not in services.hung_starts or was.state is not OperationState.RUNNING:
                continue
            op = after.step(spec.name).operation(before.direction)
            hung = list(services.hung.values())
            is_only = hung.count(spec.agent) == 1 and spec.agent not in services.troubled
            is_deferred = op.gate is not None and op.error == UNREACHED
            self.require(not (is_only and is_deferred), f"{after.order.task} {spec.name}: hung, and deferred")

    def _check_release(self, before: TaskRecord, after: TaskRecord) -> None:
        """Check soon after a release that no step waits on that had waited longer."""
        now = self.world.now()
        for spec, old in before.operations():
            new = after.step(spec.name).operation(after.direction)
            is_released = old.gate and new.is_released and before.direction is after.direction
            if self.world.intensity or not is_released:
                continue
            self.world.cover(after.order.task, "released")
            self._released_at[after.order.task] = now
            limit, recent = (old.deferred_since or now) - timedelta(seconds=1), now - timedelta(seconds=1)
            older = [key for key in self._waiting(old.gate or "") if key[2] < limit]
            older = [key for key in older if self._waits_since[key] < recent]
            self.world.spawn(self._check_older(after.order.task, older))

    def _waiting(self, gate: str) -> list[tuple[str, str, datetime]]:
        found = ((task, derive(record).gates.get(gate)) for task, record in self.world.records.items())
        return [(gate, task, row[0]) for task, row in found if row is not None]

    async def _check_older(self, task: str, older: list[tuple[str, str, datetime]]) -> None:
        await asyncio.sleep(2)
        recent = self.world.now() - timedelta(seconds=_VIEW_SECONDS)
        left = [
            key
            for key in older
            if key in self._waiting(key[0]) and self._released_at.get(key[1], self.world.start) < recent
        ]
        self.require(not left, f"{task}: released before {left}")

    async def check_returned(self, agent: str) -> None:
        """Check some time after a queue Agent's return that no step waits that waited before."""
        gate, services = f"queue:{agent}", self.world.services
        ends = [end for _, end in (services.outages.get(agent, (0, 0)), services.slow.get(agent, (0, 0)))]
        await asyncio.sleep(max(ends))
        while self.holds[gate] and self.holds[gate][-1][1] is None:
            await asyncio.sleep(5)
        limit = self.world.now()
        await asyncio.sleep(_RELEASED_WITHIN)
        left = [key for key in self._waiting(gate) if key[2] < limit]
        is_held = any(end is None or end > limit for _, end in self.holds[gate])
        self.require(is_held or not left, f"{agent} has returned, and {left} still wait")

    # The end

    def check_end(self) -> None:
        """Check that every task has ended, and that the services agree with the records."""
        world = self.world
        notices = {
            ProcessState.PROCESSED: MessageKind.COMPLETED,
            ProcessState.COMPENSATED: MessageKind.COMPENSATED,
            ProcessState.ERROR: MessageKind.ALERT,
        }
        for task in world.definitions.tasks:
            self.require(task in world.records, f"{task}: lost")
            state = derive(world.records[task]).state
            self.require(
                (task, notices.get(state)) in world.posted, f"{task}: no message of its end ({state})"
            )
        for task, record in world.records.items():
            columns = derive(record)
            has_output = record.output is not None or (record.reason or "").startswith("no output")
            self.require(columns.state is not ProcessState.PROCESSED or has_output, f"{task}: no output")
            ended = f"{task}: never ended ({columns.waiting_for}, {record.decision})"
            self.require(record.finished_at, ended)
            for name in record.steps:
                if (task, name) not in self.by_operator:
                    self._check_effects(record, columns.state, name)
            if columns.state is ProcessState.COMPENSATED:
                self._check_all_undone(record)

    def _check_effects(self, record: TaskRecord, state: ProcessState, name: str) -> None:
        spec, step, place = record.order.by_name[name], record.steps[name], f"{record.order.task} {name}"
        is_done = step.do.state is OperationState.DONE and state is ProcessState.PROCESSED
        is_undone = state is ProcessState.COMPENSATED and step.undo.state is OperationState.DONE
        if spec.type is StepType.WORKFLOW and (is_done or is_undone):
            for generation in range(len(step.earlier_dos) + is_undone):
                self._check_child_undone(record, name, generation)
        if spec.type in WAITING_TYPES:
            return
        effects = [
            self.world.services.effects.get(record.order.effect_key(name, Direction.DO, number))
            for number in range(len(step.dispatched))
        ]
        newest = effects[-1] if effects else None
        if is_done:
            self.require(newest and newest.done and not newest.undone, f"{place}: not done")
        if state is ProcessState.COMPENSATED and spec.undo:
            self.require(all(each and each.undone for each in effects), f"{place}: not undone")
            is_recorded = not effects or step.undo.state is OperationState.DONE
            self.require(is_recorded, f"{place}: its undo is not on record")

    def _check_all_undone(self, record: TaskRecord) -> None:
        prefix = f"{record.order.task}.{record.order.run_id}/"
        for key, effect in self.world.services.effects.items():
            if key.startswith(prefix) and "/do" in key:
                name = key.split("/")[1]
                is_covered = (
                    record.order.by_name[name].undo and (record.order.task, name) not in self.by_operator
                )
                self.require(not is_covered or effect.undone or not effect.done, f"{key}: an effect remains")

    # Coverage

    def _cover(self, record: TaskRecord) -> None:
        """Count in how many tasks something happened, so that an empty search is noticed."""
        task, columns = record.order.task, derive(record)
        facts = {
            f"{columns.state}": True,
            f"for {columns.waiting_for}": True,
            "decision waits": record.decision is not None,
            "recovered": record.failures > 0,
            "extended wait": record.failures > SETTINGS.threshold,
            "task deferred": record.deferred_since is not None,
            "two gates": len(columns.gates) > 1,
            "suspended by operator": record.suspension is not None and record.suspension.by_operator,
            "suspended with a call": record.suspension is not None and columns.calls_under_way > 0,
            "second run in an epoch": record.run > 1,
            "output missing": (record.reason or "").startswith("no output"),
        }
        for step in record.steps.values():
            for direction in Direction:
                operation = step.operation(direction)
                facts[f"{direction} {operation.state}"] = True
                facts["look-up"] = facts.get("look-up", False) or operation.find_by is not None
                facts["not reached"] = facts.get("not reached", False) or operation.error == UNREACHED
                facts["started twice"] = facts.get("started twice", False) or bool(operation.earlier_starts)
            if step.note is not None:
                facts[f"note: {step.note[:24]}"] = True
        for fact, holds in facts.items():
            if holds:
                self.world.cover(task, fact)


def _blocking(record: TaskRecord, name: str) -> list[str]:
    """Return the steps that need a step, directly or not, and whose undo was refused."""
    users, steps = set[str](), {record.order.by_name[name].step}
    while steps:
        found = {spec.name for spec in record.order.specs if spec.needs & steps} - users
        users |= found
        steps = {record.order.by_name[each].step for each in found}
    return sorted(each for each in users if record.step(each).undo.state is OperationState.REFUSED)
