"""The plan of one run: which steps start, are skipped, or wait for a place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from functions.pattern.announcements import starts_scheduler
from functions.pattern.cannot_start import CannotStart, LookAt
from functions.pattern.events import Event, Postponed, StepSkipped, StepStarted
from functions.pattern.folding import Told, fold
from functions.pattern.identity import StepName, scheduler_id
from functions.pattern.planning import Runner, StepPlan, awaited_replies, plan, taken_up
from functions.pattern.ready import ready_steps
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason
from functions.pattern.states import ProcessState, Way
from functions.pattern.supervision import judge
from functions.pattern.wait_events import PutOff
from tests.fakes.clock import START
from tests.fakes.interventions import recovery
from tests.fakes.supervision import POLICY
from tests.fakes.tasks import FIRST, SECOND, after, claimed, completed, failed, pending, started, told
from tests.fakes.workflows import DIAMOND, TASK, each, step, workflow
from tests.unit.pattern.waiting_tasks import event_of, flow_of, handed_back, refusal_of, waiting

WIDE = workflow(*(step(f"s{number}") for number in range(5)))


def _ready_after(*events: Event) -> tuple[str, ...]:
    return ready_steps(told(pending(), *events))


def _done(*steps: str) -> list[Event]:
    return [event for step in steps for event in (started(step), completed(step))]


def test_independent_steps_are_ready_together() -> None:
    """The diamond's two sides run side by side, in the order of the definition."""
    assert _ready_after(claimed(), *_done("open")) == ("left", "right")
    # Steps without needs are ready first.
    assert _ready_after(claimed()) == ("open",)
    # Nothing is ready before the claim.
    assert _ready_after() == ()
    # Nothing is ready in a finished task.
    assert _ready_after(claimed(), *_done("open", "left", "right", "close")) == ()
    assert _ready_after(claimed(), *_done("open"), started("left"), failed("left")) == ()


def test_step_waits_for_all_that_it_needs() -> None:
    """One side alone does not close the diamond; the other side stays on the list."""
    assert _ready_after(claimed(), *_done("open", "right")) == ("left",)
    assert _ready_after(claimed(), *_done("open", "right", "left")) == ("close",)


def test_running_step_is_dispatched_again_in_the_next_epoch_only() -> None:
    """In this epoch it is somebody's; after a recovery somebody has to begin it again."""
    begun = told(pending(), claimed(), *_done("open"), started("left"))
    assert ready_steps(begun) == ("right",)
    recovered = told(begun, recovery(), claimed(SECOND), now=after(40))
    assert ready_steps(recovered) == ("left", "right")
    # Step that must not run twice is never ready again.
    once = workflow(step("pay", idempotent=False), step("log"))
    recovered = told(pending(once), claimed(), started("pay"), recovery(), claimed(SECOND), now=after(40))
    assert ready_steps(recovered) == ("log",)


def _plan(
    record: TaskRecord,
    *,
    activity: int = 1,
    at_once: int = 16,
    ends: float = 285,
    look_at: Callable[[StepName], bool] = lambda _: True,
    is_first: bool = True,
    may_share: bool = True,
) -> StepPlan:
    runner = _runner(activity, at_once=at_once, ends=ends)
    return plan(record, runner, START, look_at=look_at, is_first=is_first, may_share=may_share)


def _runner(activity: int = 1, *, at_once: int = 16, ends: float = 285) -> Runner:
    return Runner(
        epoch=FIRST,
        scheduler=scheduler_id(TASK, FIRST),
        activity=activity,
        at_once=at_once,
        ends_at=after(ends),
        start_within=timedelta(seconds=30),
        pick_up_within=timedelta(),
        new_id=lambda: "0" * 32,
    )


def _started(made: StepPlan) -> list[str]:
    return [event.step for event in made.events if isinstance(event, StepStarted)]


def test_everything_ready_is_started_by_one_run() -> None:
    """With its number, and until its complete-by."""
    made = _plan(told(pending(WIDE), claimed()))
    assert _started(made) == ["s0", "s1", "s2", "s3", "s4"]
    assert made.left == ()
    first = made.events[0]
    assert isinstance(first, StepStarted)
    assert (first.activity, first.complete_by) == (1, after(10))
    # More than there is room for is left to several runs.
    made = _plan(told(pending(WIDE), claimed()), at_once=2)
    assert (made.events, made.left) == ((), ("s0", "s1", "s2", "s3", "s4"))
    # Nothing is planned for a task that is held by another.
    assert _plan(pending(WIDE)) == StepPlan()
    newer = told(pending(WIDE), claimed(), recovery(), claimed(SECOND), now=after(40))
    assert _plan(newer) == StepPlan()


def test_run_that_has_its_share_starts_what_it_has_room_for() -> None:
    """Also when it has something under way already, and then only as room comes."""
    record = told(pending(WIDE), claimed())
    assert _started(_plan(record, at_once=2, may_share=False)) == ["s0", "s1"]
    record = told(record, started("s0"), started("s1"))
    assert _plan(record, at_once=2).left == ("s2", "s3", "s4")
    record = told(record, completed("s1"))
    assert _started(_plan(record, at_once=2)) == ["s2"]
    # Steps of another run take no room.
    record = told(pending(WIDE), claimed(), started("s0"), started("s1"))
    assert _started(_plan(record, activity=2, at_once=2, may_share=False)) == ["s2", "s3"]


def test_step_that_might_outlast_the_activity_is_left() -> None:
    """But not by a run that begins with it: no run would have more time."""
    record = told(pending(WIDE), claimed())
    assert _plan(record, ends=9, is_first=False).left == ("s0", "s1", "s2", "s3", "s4")
    assert len(_started(_plan(record, ends=9))) == 5
    # Step that is not needed is skipped.
    made = _plan(told(pending(WIDE), claimed()), at_once=4, look_at=lambda name: name != "s0")
    assert [event.step for event in made.events if isinstance(event, StepSkipped)] == ["s0"]
    assert _started(made) == ["s1", "s2", "s3", "s4"]


def test_run_repeated_takes_up_its_own_steps_only() -> None:
    """Those that may be repeated; of another number's it knows nothing."""
    mixed = workflow(step("a"), step("once", idempotent=False), step("sent", via=Way.QUEUE), step("other"))
    record = told(
        pending(mixed),
        claimed(),
        *(started(name) for name in ("a", "once", "sent")),
        started("other", activity=2),
    )
    assert [each.name for each in taken_up(record, _runner())] == ["a", "sent"]
    assert [each.name for each in taken_up(record, _runner(2))] == ["other"]
    over = told(record, recovery(), claimed(SECOND), now=after(40))
    assert taken_up(over, _runner()) == ()
    # Replies are awaited for queue steps under way.
    mixed = workflow(step("a"), step("sent", via=Way.QUEUE), step("later", "a", via=Way.QUEUE))
    record = told(pending(mixed), claimed(), started("sent", complete_by=20), started("a"))
    assert awaited_replies(record) == {"sent": after(20)}
    assert awaited_replies(told(record, completed("sent"))) == {}


def test_run_follows_a_line_to_its_end() -> None:
    """Outcome after outcome, each with the start of what follows, in one fold each."""
    record = pending(DIAMOND)
    runner = _runner()

    def follow(known: TaskRecord, _: object) -> tuple[Event, ...]:
        return plan(known, runner, START, look_at=lambda _: True, is_first=False, may_share=True).events

    answer = fold(record, [Told(claimed(), follow)], START).answers[0]
    assert [type(event).__name__ for event in answer.events] == ["Claimed", "StepStarted"]
    answer = fold(answer.record, [Told(completed("open"), follow)], START).answers[0]
    assert [event.step for event in answer.events if isinstance(event, StepStarted)] == ["left", "right"]


THREE = workflow(*(step(f"s{number}") for number in range(3)))
HELD = told(pending(THREE), claimed())
PUT_OFF = PutOff(epoch=FIRST, scheduler=claimed().scheduler, not_before=after(20), start_by=after(50))


def _plan_with(
    record: TaskRecord,
    has: Mapping[str, bool | datetime],
    *,
    at_once: int = 16,
    look_at: LookAt = lambda _: True,
) -> StepPlan:
    runner = Runner(
        epoch=FIRST,
        scheduler=scheduler_id(TASK, FIRST),
        activity=1,
        at_once=at_once,
        ends_at=after(285),
        start_within=timedelta(seconds=30),
        pick_up_within=timedelta(),
        new_id=lambda: "0" * 32,
    )
    return plan(
        record,
        runner,
        START,
        look_at=look_at,
        has_place=lambda name: has.get(name, True),
        is_first=True,
        may_share=False,
    )


def test_steps_with_a_place_start() -> None:
    """The others take no room from them, and are left to no other run."""
    made = _plan_with(HELD, {"s0": after(20), "s1": False}, at_once=1)
    assert (_started(made), made.left) == (["s2"], ())
    assert _plan_with(HELD, {"s0": after(20)}, at_once=1).left == ("s2",)
    # Step behind a queue needs no place here.
    record = told(pending(workflow(step("s0", via=Way.QUEUE))), claimed())
    assert _started(_plan_with(record, {"s0": False})) == ["s0"]


@pytest.mark.parametrize(
    ("look", "events", "left"),
    [
        ({"part.0": False}, {"StepSkipped": ["part.0"], "StepStarted": ["part.1"]}, ("part.2",)),
        (
            {"part.0": False, "part.1": False},
            {"StepSkipped": ["part.0", "part.1"], "StepStarted": ["part.2"]},
            (),
        ),
        ({"part.0": CannotStart("away", parks=True)}, {"StepStarted": ["part.1"]}, ("part.2",)),
        ({"part.0": CannotStart("a defect", parks=False)}, {"StepBroken": ["part.0"]}, ()),
    ],
    ids=["not needed", "nor the next", "not deployed", "broken"],
)
def test_item_that_starts_in_the_place_of_another_step_is_looked_at_first(
    look: Mapping[str, bool | CannotStart], events: Mapping[str, list[str]], left: tuple[str, ...]
) -> None:
    """There is room for it only because the step before it has no place at its service (seed 6686)."""
    record = told(pending(workflow(step("s0"), each("part"))), claimed())
    made = _plan_with(record, {"s0": after(20)}, at_once=1, look_at=lambda name: look.get(name, True))
    found: dict[str, list[str]] = {}
    for event in made.events:
        found.setdefault(type(event).__name__, []).append(getattr(event, "step", ""))
    assert (found, made.left) == (events, left)


def test_task_is_put_off_when_no_step_has_a_place() -> None:
    """Until the first of them may have one."""
    made = _plan_with(HELD, {"s0": after(40), "s1": after(20), "s2": after(30)})
    assert made.events == (PUT_OFF,)
    # Task is kept while a place is awaited or a step runs.
    everywhere = {"s0": after(40), "s1": after(20), "s2": after(30)}
    assert _plan_with(HELD, everywhere | {"s2": False}).events == ()
    assert _plan_with(told(HELD, started("s2")), everywhere).events == ()
    # Event that comes meanwhile is kept.
    flow = flow_of(step("other"))
    record = told(waiting(flow), PUT_OFF)
    approved = told(record, event_of())
    assert approved.step(StepName("approve")).known_result is not None
    assert (approved.task.run, approved.task.not_before) == (1, after(20))


def test_next_run_is_asked_for_later() -> None:
    """In the same epoch, without a failure; whoever held it before has lost it."""
    record = told(HELD, PUT_OFF)
    task = record.task
    assert (task.process_state, task.locked_by, task.epoch, task.run) == (
        ProcessState.PENDING,
        None,
        FIRST,
        1,
    )
    assert (task.not_before, task.complete_by, task.due_at) == (after(20), after(50), after(50))
    assert (task.failure_count, task.is_handed_back) == (0, False)
    assert starts_scheduler(HELD, record)
    assert refusal_of(record, claimed()) is RefusalReason.NOT_HOLDER
    again = told(record, replace(claimed(), scheduler=scheduler_id(TASK, FIRST, 1)), now=after(20))
    assert again.task.process_state is ProcessState.PROCESSING
    # Supervisor leaves it alone until its run is late.
    verdict = judge(told(HELD, PUT_OFF), after(50), POLICY)
    assert verdict == Postponed(epoch=FIRST, due_at=after(50))


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (handed_back(waiting()), RefusalReason.NOT_HOLDER),
        (told(HELD, PUT_OFF), RefusalReason.NOT_HOLDER),
    ],
)
def test_task_that_its_scheduler_has_let_go_of_is_not_put_off(
    record: TaskRecord, reason: RefusalReason
) -> None:
    """It is another run's."""
    assert refusal_of(record, PUT_OFF) is reason


def _kept() -> TaskRecord:
    """Lack a place for what follows a reply, beside a step of a day."""
    of = workflow(
        step("day", via=Way.QUEUE, complete_within=86_400),
        step("pick", via=Way.QUEUE),
        step("send", "pick"),
    )
    record = told(pending(of), claimed(), started("day", complete_by=86_400, token="d" * 32))
    picked = replace(completed("pick"), token="p" * 32, start_by=after(10))
    return told(record, started("pick", token="p" * 32), picked)


def test_task_is_not_overdue_for_want_of_a_place_beside_a_long_step() -> None:
    """Its recovery would begin the long step again, and count: its Scheduler looks again, and keeps it."""
    record = _kept()
    assert record.task.complete_by == after(10)
    made = _plan_with(record, {"send": after(20)})
    assert made.events == (PUT_OFF,)
    kept = told(record, PUT_OFF)
    assert (kept.task.process_state, kept.task.run) == (ProcessState.PROCESSING, None)
    assert (kept.task.complete_by, kept.task.locked_by) == (after(50), claimed().scheduler)
    assert _plan_with(kept, {"send": after(20)}).events == ()
    # A kept task is overdue with its step.
    record = told(HELD, started("s0", complete_by=40))
    assert told(record, PUT_OFF) is record
    assert _plan_with(record, {"s1": after(20), "s2": after(20)}).events == ()
