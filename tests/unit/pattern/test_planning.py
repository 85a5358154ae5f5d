"""Planning says what one run of `run_steps` does with what is ready, and what it leaves to others."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from functions.pattern.events import Event, StepSkipped, StepStarted
from functions.pattern.folding import Told, fold
from functions.pattern.identity import StepName, scheduler_id
from functions.pattern.planning import (
    Runner,
    StepPlan,
    awaited_replies,
    plan,
    taken_up,
)
from functions.pattern.ready import ready_steps
from functions.pattern.records import TaskRecord
from functions.pattern.states import Way
from tests.fakes.clock import START
from tests.fakes.interventions import recovery
from tests.fakes.tasks import FIRST, SECOND, after, claimed, completed, failed, pending, started, told
from tests.fakes.workflows import DIAMOND, TASK, step, workflow

WIDE = workflow(*(step(f"s{number}") for number in range(5)))


def _ready_after(*events: Event) -> tuple[str, ...]:
    return ready_steps(told(pending(), *events))


def _done(*steps: str) -> list[Event]:
    return [event for step in steps for event in (started(step), completed(step))]


def test_nothing_is_ready_before_the_claim() -> None:
    """Without a holder nobody may dispatch."""
    assert _ready_after() == ()


def test_steps_without_needs_are_ready_first() -> None:
    """The diamond has one entrance."""
    assert _ready_after(claimed()) == ("open",)


def test_independent_steps_are_ready_together() -> None:
    """The diamond's two sides run side by side, in the order of the definition."""
    assert _ready_after(claimed(), *_done("open")) == ("left", "right")


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


def test_step_that_must_not_run_twice_is_never_ready_again() -> None:
    """Its outcome is unknown, whatever epoch it is."""
    once = workflow(step("pay", idempotent=False), step("log"))
    recovered = told(pending(once), claimed(), started("pay"), recovery(), claimed(SECOND), now=after(40))
    assert ready_steps(recovered) == ("log",)


def test_nothing_is_ready_in_a_finished_task() -> None:
    """Neither after the last step nor after a refusal."""
    assert _ready_after(claimed(), *_done("open", "left", "right", "close")) == ()
    assert _ready_after(claimed(), *_done("open"), started("left"), failed("left")) == ()


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


def test_more_than_there_is_room_for_is_left_to_several_runs() -> None:
    """One that has nothing under way starts none, so that all of them begin alike."""
    made = _plan(told(pending(WIDE), claimed()), at_once=2)
    assert (made.events, made.left) == ((), ("s0", "s1", "s2", "s3", "s4"))


def test_run_that_has_its_share_starts_what_it_has_room_for() -> None:
    """Also when it has something under way already, and then only as room comes."""
    record = told(pending(WIDE), claimed())
    assert _started(_plan(record, at_once=2, may_share=False)) == ["s0", "s1"]
    record = told(record, started("s0"), started("s1"))
    assert _plan(record, at_once=2).left == ("s2", "s3", "s4")
    record = told(record, completed("s1"))
    assert _started(_plan(record, at_once=2)) == ["s2"]


def test_steps_of_another_run_take_no_room() -> None:
    """Room is counted by the number that started a step."""
    record = told(pending(WIDE), claimed(), started("s0"), started("s1"))
    assert _started(_plan(record, activity=2, at_once=2, may_share=False)) == ["s2", "s3"]


def test_step_that_might_outlast_the_activity_is_left() -> None:
    """But not by a run that begins with it: no run would have more time."""
    record = told(pending(WIDE), claimed())
    assert _plan(record, ends=9, is_first=False).left == ("s0", "s1", "s2", "s3", "s4")
    assert len(_started(_plan(record, ends=9))) == 5


def test_step_that_is_not_needed_is_skipped() -> None:
    """And takes no room."""
    made = _plan(told(pending(WIDE), claimed()), at_once=4, look_at=lambda name: name != "s0")
    assert [event.step for event in made.events if isinstance(event, StepSkipped)] == ["s0"]
    assert _started(made) == ["s1", "s2", "s3", "s4"]


def test_nothing_is_planned_for_a_task_that_is_held_by_another() -> None:
    """Of a newer epoch, or by nobody."""
    assert _plan(pending(WIDE)) == StepPlan()
    newer = told(pending(WIDE), claimed(), recovery(), claimed(SECOND), now=after(40))
    assert _plan(newer) == StepPlan()


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


def test_replies_are_awaited_for_queue_steps_under_way() -> None:
    """Until their complete-by; a queue step takes no room of a run."""
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
