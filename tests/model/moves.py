"""Everything that can happen next in a state."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from functions.pattern.events import Cancelled
from functions.pattern.identity import Epoch, StepName
from functions.pattern.records import TaskRecord
from tests.fakes.clock import START
from tests.fakes.interventions import cancellation, found_done, found_not_done, resubmission, undo_request
from tests.model.core import After, Core, Deed
from tests.model.rules import check_call
from tests.model.state import Call, Effect, Left, Run, State

_RUNS, _SUPERVISORS = 2, 2


def _cancel(_epoch: Epoch) -> Cancelled:
    return cancellation(by_operator=True)


class Moves:
    """The moves of all that take part. The service may refuse one of the steps."""

    def __init__(self, core: Core, refused: str) -> None:
        self._core = core
        self._refused = refused
        shapes = core.records[core.first].order.steps
        self._numbers = {str(shape.name): number for number, shape in enumerate(shapes)}
        self._keyless = frozenset(shape.name for shape in shapes if not shape.idempotent)
        self._answers: list[tuple[str, Deed, Deed]] = [
            (name, partial(found_done, name), partial(found_not_done, name)) for name in sorted(self._keyless)
        ]

    def first(self, left: Left) -> State:
        """Give the state in which a task is new."""
        return State(self._core.first, (), (), (Effect(),) * len(self._numbers), (), left)

    def without_faults(self, state: State) -> Iterator[State]:
        """Give the moves that lead on when nothing goes wrong any more, and no operator acts."""
        yield state._replace(record=self._core.aged(state.record))  # time passes
        if not any(run.is_current for run in state.runs):
            yield from self._begin(state)  # asked for, or run again after a crash
        for run in state.runs:
            for call in run.calls:
                yield from self._of_call(state, run, call)
        yield from self._supervisors(state)
        for call in state.late:
            yield self._carried_out(state, call)[0]._replace(late=())

    def with_faults(self, state: State) -> Iterator[State]:
        """Give what may go wrong, and what an operator may do."""
        left = state.left
        if left.duplicates:
            fewer = state._replace(left=left._replace(duplicates=left.duplicates - 1))
            yield from self._begin(fewer)
            yield from self._begin(fewer, is_current=False)
        if left.crashes:
            fewer = state._replace(left=left._replace(crashes=left.crashes - 1))
            for run in state.runs:
                yield fewer.with_run(run, None)
                for call in run.calls:
                    yield from self._late(fewer.with_run(run, None), call)
        for run in state.runs:
            for call in (each for each in run.calls if each.is_done is None):
                yield from self._unanswered(state, run, call)
        if left.deeds:
            yield from self._operator(state._replace(left=left._replace(deeds=left.deeds - 1)))

    def _record(self, state: State) -> TaskRecord:
        return self._core.records[state.record]

    def _after(self, state: State, after: After | None) -> State:
        """Give the state after an event; one that was refused has changed nothing."""
        if after is None:
            return state
        if after.is_next_epoch:
            for call in (call for run in state.runs for call in run.calls if call.is_done is not None):
                self._check_unheard(after.record, call)
        return state.with_record(after.record, is_next_epoch=after.is_next_epoch, keyless=self._keyless)

    def _check_unheard(self, record: int, call: Call) -> bool:
        """Check that what came of a call of an epoch that has ended is refused, unless it must be kept."""
        is_kept = call.step in self._keyless and not call.is_undo
        is_refused = is_kept or self._core.told(record, call, is_current=False) is None
        assert is_refused, f"an outcome of {call.step} counts, of an epoch that has ended"
        return not is_kept

    def _begin(self, state: State, *, is_current: bool = True) -> Iterator[State]:
        """Have a run begin; one that is refused has changed nothing, and cost nothing."""
        after = self._core.claimed(state.record, is_current=is_current) if len(state.runs) < _RUNS else None
        if after is not None:
            yield self._after(state.with_run(None, Run(is_current, after.calls)), after)

    def _of_call(self, state: State, run: Run, call: Call) -> Iterator[State]:
        """Have the service answer a call, or its run tell the answer."""
        rest = run.without(call)
        if call.is_done is not None:
            after = self._core.told(state.record, call, is_current=run.is_current)
            calls = () if after is None else after.calls
            yield self._after(state.with_run(run, rest._replace(calls=(*rest.calls, *calls))), after)
            return
        done, is_done = self._carried_out(state, call)
        yield done.with_run(run, self._answered(state, rest, call, is_done=is_done))

    def _unanswered(self, state: State, run: Run, call: Call) -> Iterator[State]:
        """Have the service refuse a call, or its run give it up when its time is over."""
        rest = run.without(call)
        if self._may_refuse(state, call):
            refused = state._replace(left=state.left._replace(refusals=state.left.refusals - 1))
            yield refused.with_run(run, self._answered(state, rest, call, is_done=False))
        if not run.is_current or self._record(state).step(StepName(call.step)).is_late(START):
            yield state.with_run(run, rest)
            yield from self._late(state.with_run(run, rest), call)

    def _answered(self, state: State, rest: Run, call: Call, *, is_done: bool) -> Run:
        """Give a run with an answered call; of an epoch that has ended, most are refused."""
        answered = call._replace(is_done=is_done)
        if not rest.is_current and self._check_unheard(state.record, answered):
            return rest
        return rest._replace(calls=(*rest.calls, answered))

    @staticmethod
    def _late(state: State, call: Call) -> Iterator[State]:
        """Have a call still be under way when its caller is gone."""
        if state.left.late and call.is_done is None:
            yield state._replace(late=(call,), left=state.left._replace(late=state.left.late - 1))

    def _may_refuse(self, state: State, call: Call) -> bool:
        is_first = state.effects[self._numbers[call.step]] == Effect() and not call.is_undo
        return bool(state.left.refusals) and is_first and call.step == self._refused

    def _carried_out(self, state: State, call: Call) -> tuple[State, bool]:
        """Have the service carry out a call, once for each key that it knows; after an undo it refuses."""
        check_call(self._record(state), call)
        number = self._numbers[call.step]
        before = state.effects[number]
        if before.is_undone and not call.is_undo:
            return state, False
        again = before.done and call.step not in self._keyless
        done = before.done if again else before.done + 1
        after = before._replace(is_undone=True) if call.is_undo else before._replace(done=done)
        effects = (*state.effects[:number], after, *state.effects[number + 1 :])
        return state._replace(effects=effects), True

    def _supervisors(self, state: State) -> Iterator[State]:
        """Have one look at the task, or do what it has decided."""
        judged = self._core.judged(state.record)
        if len(state.verdicts) < _SUPERVISORS and judged is not None:
            yield state._replace(verdicts=tuple(sorted((*state.verdicts, judged))))
        for number, verdict in enumerate(state.verdicts):
            rest = state._replace(verdicts=state.verdicts[:number] + state.verdicts[number + 1 :])
            yield self._after(rest, self._core.acted(state.record, verdict))

    def _operator(self, state: State) -> Iterator[State]:
        """Have an operator act, who finds out what the service did when nothing is under way to it."""
        deeds: list[Deed] = [_cancel, resubmission, undo_request]
        under_way = {call.step for run in state.runs for call in run.calls if call.is_done is None}
        for name, done, not_done in self._answers:
            if name not in under_way | {call.step for call in state.late}:
                deeds.append(done if state.effects[self._numbers[name]].done else not_done)
        for after in (self._core.operated(state.record, deed) for deed in deeds):
            if after is not None:
                yield self._after(state, after)
