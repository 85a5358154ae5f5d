"""What a run of the activity `run_steps` does next with a task: skip, start, take up, or leave to another."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from functions.pattern.cannot_start import CannotStart, LookAt
from functions.pattern.children import children_to_reach
from functions.pattern.epochs import HAND_BACK_AFTER, UNDER_WAY, is_busy, is_exhausted
from functions.pattern.events import Parked, StepBroken, StepSkipped, StepStarted
from functions.pattern.identity import Epoch, SchedulerId, StartId, StepName, start_of
from functions.pattern.placing import HasPlace, PlacedSteps, placed_steps
from functions.pattern.ready import is_under_way, ready_steps
from functions.pattern.records import TaskRecord
from functions.pattern.states import Direction, ProcessState, StepState, Way
from functions.pattern.step_records import StepRecord
from functions.pattern.texts import cause_of
from functions.pattern.wait_events import HandedBack, PutOff, WaitsEnded
from functions.pattern.waits import LONGEST_WAIT, is_in_time, over, waits_end


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """One run of `run_steps`: number `activity` of its Scheduler, with at most `at_once` steps under way.

    A step that could last beyond `ends_at` is left to a fresh run. `start_within` is the time in which what
    follows must have started. A request may wait `pick_up_within` for its Agent, before the step's own time.
    """

    epoch: Epoch
    scheduler: SchedulerId
    activity: int
    at_once: int
    ends_at: datetime
    start_within: timedelta
    pick_up_within: timedelta
    new_id: Callable[[], str]


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What happens now, as events; `left` are ready steps that need another run of `run_steps`."""

    events: tuple[
        StepSkipped | StepStarted | StepBroken | Parked | HandedBack | PutOff | WaitsEnded, ...
    ] = ()
    left: tuple[StepName, ...] = ()


def plan(
    record: TaskRecord,
    runner: Runner,
    now: datetime,
    *,
    look_at: LookAt,
    is_first: bool,
    may_share: bool,
    reached: Container[StepName] = (),
    has_place: HasPlace = lambda _: True,
) -> StepPlan:
    """Plan what `runner` does with what is ready.

    A plan `is_first` when the run has started nothing yet: it leaves nothing for lack of time. A runner with
    nothing under way that `may_share` leaves everything when there is more than it has room for, so that
    runs of other processes take their parts. A task is parked when there is nothing else to do, and handed
    back when there is nothing else than to wait for long, or put off when no step `has_place`: not before all
    its children are `reached`.
    """
    if not _is_held(record, runner):
        return StepPlan()
    if over(record, now):
        ended = WaitsEnded(epoch=runner.epoch, scheduler=runner.scheduler, start_by=now + runner.start_within)
        return StepPlan((ended,))
    under_way = len(mine(record, runner))
    room = max(0, runner.at_once - under_way)
    is_sure = all(name in reached for name in children_to_reach(record))
    without = 0
    while True:
        ready = _ready(record, runner, now, look_at, is_first=is_first, room=room + without)
        if isinstance(ready, StepBroken):
            return StepPlan((ready,))
        if not (ready.begun or ready.fitting or ready.left):
            return StepPlan(_idle(record, runner, now, ready.missing) if is_sure else ())
        if may_share and not under_way and len(ready.fitting) > room:
            return StepPlan(tuple(ready.begun), tuple(ready.left + ready.fitting))
        placed = placed_steps(record, ready.fitting, room, has_place)
        if ready.unseen.isdisjoint(placed.started):
            break
        without = placed.without  # in whose place others can start, once they were looked at
    started = [_started(record.step(name), runner, now) for name in placed.started]
    events, left = (*ready.begun, *started), (*ready.left, *placed.left)
    may_put_off = is_sure and not events and not left
    return StepPlan(_put_off(record, runner, now, placed) if may_put_off else events, left)


def _put_off(record: TaskRecord, runner: Runner, now: datetime, placed: PlacedSteps) -> tuple[PutOff, ...]:
    """Let go of a task whose steps have no places, unless one waits for its place here.

    Beside a step under way, it is only told when that is needed so that the next look comes in time.
    """
    if placed.awaited or not _is_open(record):
        return ()
    again_at = max(now, min(placed.again_at))
    if is_busy(record) and is_in_time(record, again_at + runner.start_within / 2):
        return ()
    start_by = again_at + runner.start_within
    return (PutOff(epoch=runner.epoch, scheduler=runner.scheduler, not_before=again_at, start_by=start_by),)


@dataclass(frozen=True, slots=True)
class _Ready:
    """The ready steps: skipped or beginning to wait, fitting in, left to another run, lacking something.

    Of those that fit in, nobody has asked yet whether the order needs the `unseen`.
    """

    begun: list[StepSkipped | StepStarted] = field(default_factory=list)
    fitting: list[StepName] = field(default_factory=list)
    left: list[StepName] = field(default_factory=list)
    missing: list[CannotStart] = field(default_factory=list)
    unseen: set[StepName] = field(default_factory=set)


def _ready(
    record: TaskRecord, runner: Runner, now: datetime, look_at: LookAt, *, is_first: bool, room: int
) -> _Ready | StepBroken:
    """Look at what is ready, but for items for which there is no room yet; a defect stops that."""
    ready = _Ready()
    for name in ready_steps(record):
        step = record.step(name)
        is_item = step.shape.at_once is not None and not step.shape.via.waits
        if is_item and len(ready.fitting) >= room:
            ready.fitting.append(name)
            ready.unseen.add(name)
            continue
        needed = _within_a_year(look_at(name), now)
        if isinstance(needed, CannotStart):
            if not needed.parks:
                return _broken(name, needed, runner, now)
            ready.missing.append(needed)
        elif not needed:
            ready.begun.append(_skipped(name, runner, now))
        elif step.shape.via.waits:
            ready.begun.append(_started(step, runner, now, needed if isinstance(needed, datetime) else None))
        elif not is_first and _may_outlast(step, runner, now):
            ready.left.append(name)
        else:
            ready.fitting.append(name)
    return ready


def _within_a_year(
    needed: bool | datetime | CannotStart,  # noqa: FBT001 - what a look gives
    now: datetime,
) -> bool | datetime | CannotStart:
    if isinstance(needed, datetime) and needed > now + LONGEST_WAIT:
        return CannotStart(f"its until gave {needed:%Y-%m-%d}, which is more than a year ahead", parks=False)
    return max(needed, now) if isinstance(needed, datetime) else needed


def _idle(
    record: TaskRecord, runner: Runner, now: datetime, missing: list[CannotStart]
) -> tuple[Parked | HandedBack, ...]:
    """Let go of a task with which there is nothing to do now, unless a step is under way."""
    if is_busy(record) or not _is_open(record):
        return ()
    if missing:
        return (missing[0].parked(runner.epoch, runner.scheduler),)
    until = waits_end(record)
    if until is None or until <= now + HAND_BACK_AFTER:
        return ()
    return (HandedBack(epoch=runner.epoch, scheduler=runner.scheduler),)


def mine(record: TaskRecord, runner: Runner) -> tuple[StepRecord, ...]:
    """Give the steps under way that runs of the same number dispatched; not those that wait for a reply."""
    return tuple(
        step
        for step in record.steps
        if step.shape.via is Way.ACTIVITY and step.activity == runner.activity and is_under_way(step, record)
    )


def taken_up(record: TaskRecord, runner: Runner) -> tuple[StepRecord, ...]:
    """Give the steps that a run of the same number began before it was cut short, and that may be repeated.

    A request to a queue is sent again, with its token: the Agent's effect key makes it harmless.
    """
    if not _is_held(record, runner):
        return ()
    return tuple(
        step
        for step in record.steps
        if step.activity == runner.activity
        and is_under_way(step, record)
        and not step.shape.via.waits
        and (step.shape.idempotent or step.shape.via is Way.QUEUE or record.task.direction is Direction.UNDO)
    )


def started_by(
    record: TaskRecord, runner: Runner, start_ids: Container[StartId | None]
) -> tuple[StepName, ...]:
    """Name the steps under way whose starts on record have one of the ids: they are their maker's to call."""
    if not _is_held(record, runner):
        return ()
    return tuple(
        step.name
        for step in record.steps
        if step.activity == runner.activity
        and step.start_id in start_ids
        and is_under_way(step, record)
        and not step.shape.via.waits
    )


def awaited_replies(record: TaskRecord) -> Mapping[StepName, datetime]:
    """Give the steps whose replies are awaited over queues, and until when each counts."""
    return {
        step.name: step.complete_by
        for step in record.steps
        if step.shape.via is Way.QUEUE and step.complete_by is not None and is_under_way(step, record)
    }


def latest_dispatches(record: TaskRecord) -> dict[str, int]:
    """Give the number of the latest dispatch, or the next, of steps whose requests were not taken."""
    open_states = {StepState.NOT_STARTED, *UNDER_WAY.values()}
    return {
        step.name: step.dispatch_of(None)
        for step in record.steps
        if step.not_taken and step.epoch == record.task.epoch and step.state in open_states
    }


def _is_open(record: TaskRecord) -> bool:
    """Tell whether it can be let go of: nothing is decided, and no step waits for the next epoch."""
    is_open = record.task.process_state is ProcessState.PROCESSING and record.task.decision is None
    return is_open and not is_exhausted(record)


def is_over(record: TaskRecord, epoch: Epoch, scheduler: SchedulerId) -> bool:
    """Tell whether the Scheduler of `epoch` has nothing left to do with the task."""
    return record.task.epoch != epoch or record.task.locked_by != scheduler


def _may_outlast(step: StepRecord, runner: Runner, now: datetime) -> bool:
    """Tell whether a step could last beyond the run; one behind a queue takes none of the run's time."""
    if step.shape.via is Way.QUEUE:
        return False
    return now + timedelta(seconds=step.shape.complete_within) > runner.ends_at


def _is_held(record: TaskRecord, runner: Runner) -> bool:
    return not is_over(record, runner.epoch, runner.scheduler)


def _skipped(name: StepName, runner: Runner, now: datetime) -> StepSkipped:
    start_by = now + runner.start_within
    return StepSkipped(epoch=runner.epoch, scheduler=runner.scheduler, step=name, start_by=start_by)


def _broken(name: StepName, defect: CannotStart, runner: Runner, now: datetime) -> StepBroken:
    return StepBroken(
        epoch=runner.epoch,
        scheduler=runner.scheduler,
        step=name,
        error=defect.reason if defect.fault is None else cause_of(defect.fault),
        start_by=now + runner.start_within,
    )


def _started(step: StepRecord, runner: Runner, now: datetime, until: datetime | None = None) -> StepStarted:
    token = runner.new_id() if step.shape.via is Way.QUEUE else None
    within = timedelta(seconds=step.shape.complete_within)
    within += timedelta() if token is None else runner.pick_up_within
    return StepStarted(
        epoch=runner.epoch,
        scheduler=runner.scheduler,
        step=step.name,
        complete_by=until or now + within,
        activity=runner.activity,
        start_id=StartId(runner.new_id()) if token is None else start_of(token),
        token=token,
    )
