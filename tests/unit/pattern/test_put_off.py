"""Steps without a place at their service: the task is put off to its next run, and nothing of it is lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from functions.pattern.announcements import starts_scheduler
from functions.pattern.cannot_start import CannotStart, LookAt
from functions.pattern.events import Postponed, StepStarted
from functions.pattern.identity import StepName, scheduler_id
from functions.pattern.planning import Runner, StepPlan, plan
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason
from functions.pattern.states import ProcessState, Way
from functions.pattern.supervision import judge
from functions.pattern.wait_events import PutOff
from tests.fakes.clock import START
from tests.fakes.supervision import POLICY
from tests.fakes.tasks import FIRST, after, claimed, completed, pending, started, told
from tests.fakes.workflows import TASK, each, step, workflow
from tests.unit.pattern.waiting_tasks import event_of, flow_of, handed_back, refusal_of, waiting

WIDE = workflow(*(step(f"s{number}") for number in range(3)))
HELD = told(pending(WIDE), claimed())
PUT_OFF = PutOff(epoch=FIRST, scheduler=claimed().scheduler, not_before=after(20), start_by=after(50))


def _plan(
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


def _started(made: StepPlan) -> list[str]:
    return [event.step for event in made.events if isinstance(event, StepStarted)]


def test_steps_with_a_place_start() -> None:
    """The others take no room from them, and are left to no other run."""
    made = _plan(HELD, {"s0": after(20), "s1": False}, at_once=1)
    assert (_started(made), made.left) == (["s2"], ())
    assert _plan(HELD, {"s0": after(20)}, at_once=1).left == ("s2",)


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
    made = _plan(record, {"s0": after(20)}, at_once=1, look_at=lambda name: look.get(name, True))
    found: dict[str, list[str]] = {}
    for event in made.events:
        found.setdefault(type(event).__name__, []).append(getattr(event, "step", ""))
    assert (found, made.left) == (events, left)


def test_task_is_put_off_when_no_step_has_a_place() -> None:
    """Until the first of them may have one."""
    made = _plan(HELD, {"s0": after(40), "s1": after(20), "s2": after(30)})
    assert made.events == (PUT_OFF,)


def test_task_is_kept_while_a_place_is_awaited_or_a_step_runs() -> None:
    """Its Scheduler goes on with it in a moment."""
    everywhere = {"s0": after(40), "s1": after(20), "s2": after(30)}
    assert _plan(HELD, everywhere | {"s2": False}).events == ()
    assert _plan(told(HELD, started("s2")), everywhere).events == ()


def test_step_behind_a_queue_needs_no_place_here() -> None:
    """Its Agent finds one."""
    record = told(pending(workflow(step("s0", via=Way.QUEUE))), claimed())
    assert _started(_plan(record, {"s0": False})) == ["s0"]


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


def test_supervisor_leaves_it_alone_until_its_run_is_late() -> None:
    """It waits for us, which is nobody's failure."""
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


def test_event_that_comes_meanwhile_is_kept() -> None:
    """The next run finds it."""
    flow = flow_of(step("other"))
    record = told(waiting(flow), PUT_OFF)
    approved = told(record, event_of())
    assert approved.step(StepName("approve")).known_result is not None
    assert (approved.task.run, approved.task.not_before) == (1, after(20))


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
    made = _plan(record, {"send": after(20)})
    assert made.events == (PUT_OFF,)
    kept = told(record, PUT_OFF)
    assert (kept.task.process_state, kept.task.run) == (ProcessState.PROCESSING, None)
    assert (kept.task.complete_by, kept.task.locked_by) == (after(50), claimed().scheduler)
    assert _plan(kept, {"send": after(20)}).events == ()


def test_task_that_is_kept_is_overdue_with_its_step_all_the_same() -> None:
    """And none is overdue earlier for that it was told."""
    record = told(HELD, started("s0", complete_by=40))
    assert told(record, PUT_OFF) is record
    assert _plan(record, {"s1": after(20), "s2": after(20)}).events == ()
