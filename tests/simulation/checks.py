"""The checks of a seed: of each change of a record with its world, and of each release of a gate."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from functions.core.derive import ProcessState, derive, needs_run
from functions.core.gate_rules import UNREACHED, Circuit, Gate
from functions.core.record import (
    WAITING_TYPES,
    Direction,
    EpochEnd,
    MessageKind,
    OperationState,
    StepSpec,
    StepType,
    TaskRecord,
)
from functions.core.task_events import (
    Answered,
    Cancelled,
    ChildEnded,
    Due,
    Event,
    OutcomeKind,
    Resubmitted,
    Resumed,
    StepEnded,
    UndoRequested,
)
from tests.simulation.host import SETTINGS
from tests.simulation.record_checks import DEFERRED_TOO_LONG, RecordChecks, is_same_generation

if TYPE_CHECKING:
    from tests.simulation.world import World

#: Seconds after the return of a queue Agent within which every step that waited for it is released.
_RELEASED_WITHIN = 180
_SWEEP_SECONDS = 30  # the longest time between two sweeps: an absence that is shorter may count more
_CLOCKS = timedelta(seconds=2)  # the largest difference of two clocks: those of a suspension and of its end
#: Seconds after which every host has the newest view of a gate, with an allowance for its use.
_VIEW_SECONDS = 4


class Checks(RecordChecks):
    """The invariants of a seed, with the facts that they need beside the records."""

    def __init__(self, world: World) -> None:
        super().__init__(
            records=world.records,
            effects=world.services.effects,
            posted=world.posted,
            require=world.require,
            most_recoveries=SETTINGS.threshold + len(SETTINGS.extended_waits),
        )
        self.world = world
        self.holds: dict[str, list[tuple[datetime, datetime | None]]] = defaultdict(list)
        self._admitted: dict[str, datetime] = {}
        self._pauses: dict[str, timedelta] = defaultdict(timedelta)
        self._gated: dict[str, dict[str, datetime]] = defaultdict(dict)
        self._closed_since: dict[str, datetime] = {}
        self._gate_written: dict[str, datetime] = {}
        self._waits_since: dict[str, dict[tuple[str, str, datetime], datetime]] = defaultdict(dict)
        self._released_at: dict[str, datetime] = {}
        self._counted: dict[str, list[str]] = defaultdict(list)

    # Changes

    def check_event(self, event: Event | None, before: TaskRecord, after: TaskRecord) -> None:
        """Check that an event that counts is true: an operator's action, a look-up, or the end of a child."""
        suspension, is_undoing = before.suspension, before.direction is Direction.UNDO
        if isinstance(event, Due):
            self.require(suspension is None, f"{before.order.task}: a deadline counted while suspended")
        if isinstance(event, Resumed):
            is_same = suspension is None or suspension.by_operator is event.by_operator
            self.require(is_same, f"{before.order.task}: resumed, though somebody else suspended it")
        if isinstance(event, Cancelled) and is_undoing and before.error is None:
            self.require(after.epoch == before.epoch, f"{before.order.task}: its undo was cancelled")
        if isinstance(event, Answered | Resubmitted | UndoRequested):
            place = f"{before.order.task}: {type(event).__name__}"
            self.require(event.epoch == before.epoch, f"{place} of epoch {event.epoch} in {before.epoch}")
            self.require(before.error is not None, f"{place} counted outside of Error")
        if isinstance(event, StepEnded) and event.is_look_up:
            place = f"{before.order.task} {event.step}: look-up"
            is_open = before.do(event.step).finds_left > 0 and event.epoch == before.epoch
            is_done = event.kind in {OutcomeKind.DONE, OutcomeKind.DONE_WITHOUT_RESULT}
            self.require(is_open or is_done, f"{place} counted that was over")
            is_fenced = event.start_id in self.world.services.fenced
            is_safe = event.kind is not OutcomeKind.NOT_BEGUN or is_fenced
            self.require(is_safe, f"{place} found it not done, and its start may take effect")
        if isinstance(event, ChildEnded):
            step, child = before.step(event.step), self.world.records.get(event.child)
            state = ProcessState.COMPENSATED if child is None else derive(child).state
            own = ProcessState.PROCESSED if event.is_done else ProcessState.COMPENSATED
            current = [before.order.child(event.step, step.generation(each)) for each in Direction]
            is_own = state is own or (
                event.is_done and child is not None and child.direction is Direction.UNDO
            )
            is_true = is_own and event.child in current  # a child that was processed may be undone since
            self.require(is_true, f"{before.order.task}: end of {event.child or 'no child'}: {state}")

    def check_change(self, before: TaskRecord | None, after: TaskRecord) -> None:
        """Check one change of a task."""
        task, columns = after.order.task, derive(after)
        self.check_version(after)
        self._cover(after)
        self._admitted.setdefault(task, self.world.now())
        credited = {*columns.gates, *(derive(before).gates if before is not None else ())}
        self._gated[task] = {gate: self._gated[task].get(gate, self.world.now()) for gate in credited}
        waiting = {(gate, task, since) for gate, (since, _) in columns.gates.items()}
        earlier = self._waits_since[task]
        self._waits_since[task] = {key: earlier.get(key, self.world.now()) for key in waiting}
        if before is not None:
            self._check_transition(before, after)

    def _check_transition(self, before: TaskRecord, after: TaskRecord) -> None:
        task = after.order.task
        self.check_order(before, after)
        self.check_starts_and_ends(before, after)
        if not self.world.intensity:
            if after.failures > before.failures:
                self._check_counted(before)
            self._check_deferred(before, after)
            self._check_children(before, after)
            is_exhausted = after.closed and after.closed[-1].end is EpochEnd.EXHAUSTED
            self.require(not is_exhausted, f"{task}: exhausted, though no fault was drawn")
        self._check_alerts(before, after)
        self._check_conditions(before, after)
        self._check_held(before, after)
        self._check_release(before, after)
        self._check_expired(before, after)
        for name, step in after.steps.items():
            spec, old = after.order.by_name[name], before.step(name)
            if not is_same_generation(old, step):
                is_child = spec.type is StepType.WORKFLOW
                cause = "child started again" if is_child else "request rebuilt"
                self.world.cover(task, "generation undone" if step.undone else cause)
                if is_child:
                    is_started = len(step.earlier_dos) > len(old.earlier_dos)
                    earlier = len(old.earlier_dos) if is_started else old.generation(Direction.UNDO)
                    self.check_child_undone(after, name, earlier)
                continue
            for direction in Direction:
                is_started = step.operation(direction).start_id != old.operation(direction).start_id
                if is_started and spec.type not in WAITING_TYPES:
                    self._check_gate_passed(after.order.task, spec)
            self._check_event(before, after, spec)
            is_refused = old.do.state is OperationState.RUNNING and step.do.state is OperationState.REFUSED
            if (
                spec.type is StepType.WORKFLOW
                and is_refused
                and not (step.do.error or "").startswith("its task did not end")
            ):
                self.check_child_undone(after, name, len(step.earlier_dos))

    def _check_alerts(self, before: TaskRecord, after: TaskRecord) -> None:
        """Check that a recovery that an operator need not know has no alert."""
        ids = {message.id for message in before.outbox}
        alerts = [m for m in after.outbox if m.kind is MessageKind.ALERT and m.id not in ids]
        ends = {closed.end for closed in after.closed}
        is_given_up = bool(ends & {EpochEnd.EXHAUSTED, EpochEnd.TIMED_OUT})
        is_known = is_given_up or all(alert.body.get("cause") != "exhausted" for alert in alerts)
        self.require(is_known, f"{after.order.task}: an alert, though it was not given up")

    def _check_children(self, before: TaskRecord, after: TaskRecord) -> None:
        """Check that the undo of a child that has ended is not refused for its time."""
        for name, step in before.steps.items():
            child = self.records.get(after.order.child(name, step.generation(Direction.UNDO)))
            is_refused = after.step(name).undo.state is OperationState.REFUSED
            if child is not None and step.undo.state is OperationState.RUNNING and is_refused:
                is_ended = derive(child).state is ProcessState.COMPENSATED
                self.require(not is_ended, f"{after.order.task} {name}: the end of its child is lost")

    def _check_conditions(self, before: TaskRecord, after: TaskRecord) -> None:
        """Check that a step starts only if its condition holds, and is skipped only if it does not."""
        workflow = self.world.definitions.workflows[after.order.workflow]
        for name, step in after.steps.items() if after.direction is Direction.DO else ():
            was, when = before.do(name).state, workflow.steps[after.order.by_name[name].step].when
            if was is OperationState.NOT_STARTED and step.do.state is not was:
                is_skipped = step.do.state is OperationState.SKIPPED
                is_false = when is not None and not when(None, None)
                is_right = is_skipped == is_false or step.do.state is OperationState.REFUSED
                self.require(is_right, f"{after.order.task} {name}: its condition is {not is_false}")

    def _check_held(self, before: TaskRecord, after: TaskRecord) -> None:
        """Check that a deferral behind a held gate does not end, neither as a recovery nor as a failure."""
        now = self.world.now()
        running = [op for _, op in before.operations if op.state is OperationState.RUNNING]
        over = {op.gate for _, op in before.operations if op.gate and op.defer_by and op.defer_by <= now}
        is_deferral = not needs_run(before) and not any(op.is_overdue(now) for op in running)
        is_recovered = is_deferral and after.failures > before.failures and all(map(self._is_held, over))
        for spec, op in before.operations:
            if self._is_held(op.gate or ""):
                is_failed = after.step(spec.name).operation(before.direction).error == DEFERRED_TOO_LONG
                is_cause = is_recovered and op.gate in over
                place = f"{after.order.task} {spec.name}"
                self.require(not (is_failed or is_cause), f"{place}: counted behind the held gate {op.gate}")

    def _is_held(self, gate: str) -> bool:
        """Return whether an operator has closed a gate for so long that every host sees it."""
        hold = self.world.gates[gate].hold if gate in self.world.gates else None
        return hold is not None and self.world.now() - hold.start >= timedelta(seconds=20)

    def _check_gate_passed(self, task: str, spec: StepSpec) -> None:
        """Check that no step starts behind a gate that every host sees closed."""
        since = self._closed_since.get(spec.gate, self.world.now())
        is_closed = since + timedelta(seconds=_VIEW_SECONDS) < self.world.now()
        is_passed = is_closed and not self.world.intensity
        self.require(not is_passed, f"{task} {spec.name}: started, though {spec.gate} is closed")

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
            length = self.world.now() - before.suspension.since - _CLOCKS
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

    def _held(self, gate: str, since: datetime, until: datetime | None = None) -> timedelta:
        now = until or self.world.now()
        spans = (min(end or now, now) - max(start, since) for start, end in self.holds[gate])
        return sum((span for span in spans if span > timedelta()), timedelta())

    # Gates

    def check_gate(self, before: Gate | None, gate: Gate) -> None:
        """Check a change of a gate: without a fault, healthy traffic of a queue does not write its row."""
        agent, services = gate.name.removeprefix("queue:"), self.world.services
        is_held = any(end is None for _, end in self.holds[gate.name])
        self.require(gate.hold is not None or not is_held, f"{gate.name}: its hold is lost")
        if before is not None:
            is_same = (before.link, before.circuit, before.next_at) == (gate.link, gate.circuit, gate.next_at)
            self.require(is_same or before.link < gate.link, f"{gate.name}: link {gate.link} twice")
            is_chain = before.next_at is not None and gate.next_at is not None and before.link < gate.link
            if is_chain and before.has_succeeded and before.amount and gate.amount:
                most = min(100, before.amount * 2)
                self.require(gate.amount == most, f"{gate.name}: releases {gate.amount}, not {most}")
        is_healthy = agent not in services.troubled and agent not in services.hung.values()
        if gate.name.startswith("queue:") and not self.world.intensity:
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
        for spec, op in before.operations:
            is_once = spec.must_not_repeat(before.direction)
            if spec.type is not StepType.QUEUE or op.state is not OperationState.RUNNING or is_once:
                continue
            if not op.started_at or not op.complete_by or op.complete_by > self.world.now():
                continue
            if self._held(spec.gate, op.started_at, op.complete_by) > timedelta(seconds=5):
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
            is_short = services.outages[agent][1] - services.outages[agent][0] < _SWEEP_SECONDS
            is_bounded = is_short or len(self._counted[agent]) <= SETTINGS.open_after
            self.require(is_bounded, f"{agent} away: {self._counted[agent]} counted")
        if not causes:
            is_on_its_way = self.world.replying[task]
            is_limited = any(spec.gate in self.world.calls_at_once for spec, _ in before.operations)
            self.require(is_on_its_way or is_limited, f"{task}: recovered, though no fault was drawn")

    def _check_deferred(self, before: TaskRecord, after: TaskRecord) -> None:
        """Check that the only request that hangs at a healthy Agent is counted."""
        services = self.world.services
        for spec, was in before.operations:
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
        for spec, old in before.operations:
            new = after.step(spec.name).operation(after.direction)
            is_released = old.gate and new.is_released and before.direction is after.direction
            if self.world.intensity or not is_released:
                continue
            self.world.cover(after.order.task, "released")
            self._released_at[after.order.task] = now
            limit, recent = (old.deferred_since or now) - timedelta(seconds=1), now - timedelta(seconds=1)
            older = [key for key in self._waiting(old.gate or "") if key[2] < limit]
            older = [key for key in older if self._waits_since[key[1]].get(key, now) < recent]
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
        hung = {key.partition(".")[0] for key, at in services.hung.items() if at == agent}
        waits = ((key, self._waits_since[key[1]].get(key, limit)) for key in self._waiting(gate))
        left = [key for key, since in waits if since < limit and key[1] not in hung]
        is_held = any(end is None or end > limit for _, end in self.holds[gate])
        self.require(is_held or not left, f"{agent} has returned, and {left} still wait")

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
                facts["look-up"] = facts.get("look-up", False) or operation.finds_left > 0
                facts["not reached"] = facts.get("not reached", False) or operation.error == UNREACHED
                facts["started twice"] = facts.get("started twice", False) or bool(operation.earlier_starts)
            if step.note is not None:
                facts[f"note: {step.note[:24]}"] = True
        for fact, holds in facts.items():
            if holds:
                self.world.cover(task, fact)
