"""The moves of a state: everything that can happen next."""

from __future__ import annotations

from collections.abc import Iterator

from functions.core.derive import is_settled, needs_undo
from functions.core.record import Direction, OperationState, TaskRecord
from functions.core.task_events import OutcomeKind, Verdict
from tests.model.canonical import START
from tests.model.core import After, Core
from tests.model.state import Call, Effect, Left, Run, State

#: Activities at the same time.
_MOST_RUNS = 2


class Moves:
    """The moves of runs, services, the Supervisor and an operator. A service may refuse one step."""

    def __init__(self, core: Core, refused: str) -> None:
        self._core = core
        self._refused = refused
        specs = core.records[core.first].order.specs
        self._places = {spec.name: place for place, spec in enumerate(specs)}
        self._once = frozenset(spec.name for spec in specs if not spec.idempotent)

    def first(self, left: Left) -> State:
        """Return the state of a new task."""
        return State(self._core.first, (), (Effect(),) * len(self._places), (), left)

    def without_faults(self, state: State) -> Iterator[State]:
        """Yield the moves that happen without a fault and without an operator."""
        yield state._replace(record=self._core.aged(state.record, state.start_ids))
        newest = self._core.records[state.record].run
        if not any(run.is_current and run.number == newest for run in state.runs):
            yield from self._begin(state, newest)  # it is requested, or repeated after a crash
        for run in state.runs:
            for call in run.calls:
                if call.outcome:
                    yield self._recorded(state, run, call)
                else:
                    done, outcome = self._carried_out(state, call)
                    yield self._answered(done, run, call, outcome)
        yield self._after(state, self._core.after_deadlines(state.record, state.start_ids))
        for call in state.late:
            late = list(state.late)
            late.remove(call)
            yield self._carried_out(state, call)[0]._replace(late=tuple(late))

    def with_faults(self, state: State) -> Iterator[State]:
        """Yield the faults, and the actions of an operator."""
        left = state.left
        if left.duplicates:
            fewer = state._replace(left=left._replace(duplicates=left.duplicates - 1))
            for number in range(1, self._core.records[state.record].run + 1):
                yield from self._begin(fewer, number)
            late = self._core.after_begin(state.record, 1, state.start_ids, is_current=False)
            assert late is None, "a run of an earlier epoch begins"
        for run in state.runs if left.crashes else ():
            crashed = state._replace(left=left._replace(crashes=left.crashes - 1)).with_run(run, None)
            yield crashed
            yield from (crashed.with_late(call) for call in run.calls if left.late and not call.outcome)
        for run in state.runs:
            for call in run.calls:
                if not call.outcome:
                    yield from self._unanswered(state, run, call)
        if left.actions:
            yield from self._operator(state._replace(left=left._replace(actions=left.actions - 1)))

    # Runs

    def _begin(self, state: State, number: int) -> Iterator[State]:
        if len(state.runs) < _MOST_RUNS:
            after = self._core.after_begin(state.record, number, state.start_ids, is_current=True)
            if after is not None:
                yield self._after(state.with_run(None, Run(True, number, after.calls)), after)

    def _recorded(self, state: State, run: Run, call: Call) -> State:
        """Record the outcome of a call; its run begins the calls that follow."""
        after = self._core.after_outcome(
            state.record, run.number, call, state.start_ids, is_current=run.is_current
        )
        rest, calls = run.without(call), () if after is None else after.calls
        return self._after(state.with_run(run, rest._replace(calls=(*rest.calls, *calls))), after)

    def _answered(self, state: State, run: Run, call: Call, outcome: OutcomeKind) -> State:
        """Return the state with the outcome of a call. Most outcomes of an earlier epoch are rejected."""
        answered, rest = call._replace(outcome=outcome.value), run.without(call)
        if not run.is_current and not self._counts(state, run.number, answered):
            return state.with_run(run, rest)
        return state.with_run(run, rest._replace(calls=(*rest.calls, answered)))

    def _counts(self, state: State, number: int, call: Call) -> bool:
        """Return whether an outcome of an earlier epoch counts: of a step that must not be repeated only."""
        if call.step in self._once and not call.is_undo:
            return True
        after = self._core.after_outcome(state.record, number, call, state.start_ids, is_current=False)
        assert after is None, f"an outcome of {call.step} counts, of an earlier epoch"
        return False

    def _after(self, state: State, after: After | None) -> State:
        """Return the state with another record. In the next epoch, all runs are of an earlier one."""
        if after is None:
            return state
        state = state._replace(record=after.record)
        if not after.is_next_epoch:
            return state
        runs = []
        for run in state.runs:
            calls = tuple(
                each for each in run.calls if not each.outcome or self._counts(state, run.number, each)
            )
            if calls:
                runs.append(Run(False, run.number, calls))
        return state._replace(runs=tuple(sorted(runs)))

    # Services

    def _carried_out(self, state: State, call: Call) -> tuple[State, OutcomeKind]:
        """Carry out a call, once for each key that the service knows. After an undo the service refuses."""
        _check_call(self._core.records[state.record], call)
        place = self._places[call.step]
        before = state.effects[place]
        if before.is_undone and not call.is_undo:
            return state, OutcomeKind.REFUSED
        is_repeated = before.done and call.step not in self._once
        done = before.done if is_repeated or call.is_undo else before.done + 1
        assert done <= 1, f"{call.step} is done twice"
        after = Effect(done, before.is_undone or call.is_undo)
        effects = (*state.effects[:place], after, *state.effects[place + 1 :])
        return state._replace(effects=effects), OutcomeKind.DONE

    def _unanswered(self, state: State, run: Run, call: Call) -> Iterator[State]:
        """Refuse a call, or give it up: at its deadline, or when its answer is lost."""
        left, is_first = state.left, state.effects[self._places[call.step]] == Effect()
        if left.refusals and is_first and call.step == self._refused and not call.is_undo:
            refused = state._replace(left=left._replace(refusals=left.refusals - 1))
            yield self._answered(refused, run, call, OutcomeKind.REFUSED)
        given_up = self._answered(state, run, call, OutcomeKind.UNKNOWN)
        is_overdue = self._core.records[state.record].current(call.step).is_overdue(START)
        if is_overdue or not run.is_current:
            yield given_up
        elif left.late:
            yield given_up._replace(left=left._replace(late=left.late - 1))
        if left.late:
            yield given_up.with_late(call)

    # Operators

    def _operator(self, state: State) -> Iterator[State]:
        """Act on the task. An operator answers truly, and only while no call of the step is under way."""
        actions = ["cancel", "resubmit", "undo"]
        calls = [call for run in state.runs for call in run.calls if not call.outcome]
        under_way = {call.step for call in (*calls, *state.late)}
        for step in sorted(self._once - under_way):
            is_done = state.effects[self._places[step]].done
            actions.append(f"{Verdict.DONE if is_done else Verdict.NOT_DONE}:{step}")
        for action in actions:
            after = self._core.after_action(state.record, action, state.start_ids)
            if after is not None:
                yield self._after(state, after)


def _check_call(record: TaskRecord, call: Call) -> None:
    """Check a call that arrives: its start is on record, after its needs or in the order of undo."""
    step, spec = record.step(call.step), record.order.by_name[call.step]
    operation = step.operation(Direction.UNDO if call.is_undo else Direction.DO)
    assert operation.number is not None, f"{call.step} is called, and not on record"
    assert not call.is_undo or record.direction is Direction.UNDO, f"{call.step} is undone, its task is not"
    if operation.start_id != call.start_id or operation.state is not OperationState.RUNNING:
        return
    if not call.is_undo and record.direction is Direction.DO:
        open_steps = {each.step for each in record.order.specs if not is_settled(each, record.do(each.name))}
        assert spec.needs.isdisjoint(open_steps), f"{call.step} is called before its needs"
    for other in record.order.specs if call.is_undo else ():
        is_user = call.step in other.needs and needs_undo(other, record.step(other.name))
        is_undone = record.step(other.name).undo.state is OperationState.DONE
        assert not is_user or is_undone, f"{call.step} is undone before {other.name}"


def check_effects(record: TaskRecord, effects: tuple[Effect, ...]) -> None:
    """Check the effects of a task that was processed or compensated."""
    if record.finished_at is None or record.error is not None:
        return
    for spec, effect in zip(record.order.specs, effects, strict=True):
        if record.direction is Direction.DO:
            assert effect == Effect(done=1), f"Processed, and {spec.name} is {effect}"
        elif spec.undo:
            assert not effect.done or effect.is_undone, f"Compensated, and {spec.name} is not undone"
