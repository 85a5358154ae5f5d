"""The real core, asked each question once: what an event makes of a record, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from typing import NamedTuple

from functions.pattern.definition import Workflow
from functions.pattern.events import (
    Cancelled,
    Claimed,
    Event,
    GivenUp,
    Judgement,
    OperatorEvent,
    Postponed,
    StepStarted,
)
from functions.pattern.folding import Follow, Told, fold
from functions.pattern.identity import Epoch, StartId, StepName, scheduler_id
from functions.pattern.planning import Runner, plan, started_by, taken_up
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import Refused
from functions.pattern.states import Direction
from functions.pattern.supervision import SupervisionPolicy, judge
from functions.pattern.transitions import admit, apply
from functions.scheduler.outcomes import StepAttempt
from tests.fakes.clock import START
from tests.fakes.workflows import TASK, order
from tests.model.canonical import CURRENT, aged_record, canonical, in_ticks
from tests.model.rules import check
from tests.model.state import Call

_SOON = in_ticks(1)
_POLICY = SupervisionPolicy(
    threshold=1, extended_waits=(_SOON - START,), skew=timedelta(seconds=5), start_within=_SOON - START
)


#: What an operator does in an epoch.
type Deed = Callable[[Epoch], OperatorEvent | Cancelled]


class After(NamedTuple):
    """What came of an event: the record after it, by its number, and the calls that begin with it."""

    record: int
    is_next_epoch: bool
    calls: tuple[Call, ...]


class Core:
    """Records and verdicts by number: the search compares numbers."""

    def __init__(self, workflow: Workflow) -> None:
        self.records: list[TaskRecord] = []
        self._verdicts: list[Judgement] = []
        self._numbers: dict[object, int] = {}
        self.first = self._number(canonical(admit(order(workflow), pick_up_by=_SOON)))
        self.claimed = cache(self._claimed)
        self.told = cache(self._told)
        self.operated = cache(self._operated)
        self.judged = cache(self._judged)
        self.acted = cache(self._acted)
        self.aged = cache(self._aged)

    def _claimed(self, record: int, *, is_current: bool) -> After | None:
        """Have a run begin, with what was begun before it; None if it is refused."""
        runner = _runner(is_current=is_current)
        event = Claimed(epoch=runner.epoch, scheduler=runner.scheduler, start_by=_SOON)
        after = self._folded(record, event, runner)
        if after is None:
            return None
        claimed = self.records[after.record]
        behind = () if after.is_next_epoch else taken_up(claimed, runner)
        calls = dict.fromkeys((*after.calls, *(_call(claimed, each.name) for each in behind)))
        return after._replace(calls=tuple(calls))

    def _told(self, record: int, call: Call, *, is_current: bool) -> After | None:
        """Have a run tell what came of a call, with the calls of what follows; None if it is refused."""
        runner = _runner(is_current=is_current)
        attempt = StepAttempt(
            task=TASK,
            epoch=runner.epoch,
            scheduler=runner.scheduler,
            step=StepName(call.step),
            start_id=StartId(call.start_id),
            is_repeatable=True,
            is_undo=call.is_undo,
        )
        event = attempt.completed({}, _SOON) if call.is_done else attempt.failed("no", _SOON)
        return self._folded(record, event, runner)

    def _operated(self, record: int, deed: Deed) -> After | None:
        """Have an operator do something; None if that is refused."""
        return self._folded(record, replace(deed(CURRENT), start_by=_SOON))

    def _judged(self, record: int) -> int | None:
        """Have a Supervisor judge a record; None if there is nothing to do.

        What one has decided in an epoch that has ended since is refused: no state keeps it.
        """
        for each in self._verdicts:
            late = apply(self.records[record], replace(each, epoch=Epoch(CURRENT - 1)), START)
            assert isinstance(late, Refused), f"{each} counts in another epoch"
        verdict = judge(self.records[record], START, _POLICY)
        return None if verdict is None else self._verdict(verdict)

    def _acted(self, record: int, verdict: int) -> After | None:
        """Have a Supervisor do what it has decided, perhaps long ago; None if that is refused."""
        return self._folded(record, self._verdicts[verdict])

    def _aged(self, record: int) -> int:
        return self._number(aged_record(self.records[record]))

    def _folded(self, number: int, event: Event, runner: Runner | None = None) -> After | None:
        """Fold an event, with what a run does next, into a record, and check each change that it makes."""
        before = self.records[number]
        [answer] = fold(before, [Told(event, None if runner is None else _follow(runner))], START).answers
        if answer.fault is not None:
            assert isinstance(answer.fault, Refused), str(answer.fault)
            return None
        for change in answer.changes:
            check(change.before, change.after, change.event)
        after = canonical(answer.record)
        calls = () if runner is None else tuple(_begun(before, answer.record, runner))
        return After(self._number(after), answer.record.task.epoch != CURRENT, calls)

    def _number(self, record: TaskRecord) -> int:
        key = (record.task, record.steps, record.history)
        if key not in self._numbers:
            self._numbers[key] = len(self.records)
            self.records.append(record)
        return self._numbers[key]

    def _verdict(self, verdict: Judgement) -> int:
        """Give a verdict's number; whenever it is acted upon, what follows has its time from then on."""
        if isinstance(verdict, GivenUp):
            verdict = replace(verdict, reason="")
        if not isinstance(verdict, Postponed):
            verdict = replace(verdict, start_by=_SOON)
        if verdict not in self._numbers:
            self._numbers[verdict] = len(self._verdicts)
            self._verdicts.append(verdict)
        return self._numbers[verdict]


@cache
def _runner(*, is_current: bool) -> Runner:
    epoch = CURRENT if is_current else Epoch(CURRENT - 1)
    return Runner(
        epoch=epoch,
        scheduler=scheduler_id(TASK, epoch),
        activity=1,
        at_once=16,
        ends_at=START + timedelta(hours=1),
        start_within=_SOON - START,
        pick_up_within=timedelta(),
        new_id=str,
    )


def _follow(runner: Runner) -> Follow:
    """Plan what follows, each start of a step under an id that none before it had."""

    def follow(record: TaskRecord, now: datetime) -> list[Event]:
        planned = plan(record, runner, now, look_at=lambda _: True, is_first=True, may_share=False)
        return [_numbered(record, each) if isinstance(each, StepStarted) else each for each in planned.events]

    return follow


def _numbered(record: TaskRecord, event: StepStarted) -> StepStarted:
    older = [past.start_id for closed in record.history for past in closed.steps if past.name == event.step]
    known = {*older, record.step(event.step).start_id} - {None}
    return replace(event, start_id=StartId(f"{event.step}.{len(known) + 1}"))


def _begun(before: TaskRecord, after: TaskRecord, runner: Runner) -> Iterator[Call]:
    """Give the calls of starts that were not on record before."""
    for step in after.steps:
        was = before.step(step.name)
        if (step.start_id, step.epoch) != (was.start_id, was.epoch):
            for name in started_by(after, runner, {step.start_id}):
                if name == step.name:
                    yield _call(after, name)


def _call(record: TaskRecord, name: StepName) -> Call:
    return Call(name, record.step(name).start_id or "", record.task.direction is Direction.UNDO)
