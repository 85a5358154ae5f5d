"""A step that is a task: its definition, its id, and the effect of its end on the parent."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from functions.pattern.announcements import announcements, starts_scheduler, wakes_scheduler
from functions.pattern.children import children_to_reach, end_of, tombstone
from functions.pattern.definition import Registry, Step, Workflow
from functions.pattern.errors import DefinitionError
from functions.pattern.identity import TASK_ID_PATTERN, Birth, Parent, StepName, TaskId, child_id, resource_id
from functions.pattern.occurrences import Occurrences, occurrences
from functions.pattern.ready import ready_steps
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason
from functions.pattern.shape import read_shape
from functions.pattern.states import (
    AnnouncementKind,
    Direction,
    EpochEnd,
    ProcessState,
    Remedy,
    StepState,
    Way,
)
from functions.pattern.step_records import OUTCOME_UNKNOWN
from functions.pattern.wait_events import ChildEnded, HandedBack
from tests.fakes.interventions import cancellation, done, found_done, recovered, resubmission, result_given
from tests.fakes.tasks import FIRST, SECOND, after, claimed, completed, failed, pending, started, told
from tests.fakes.workflows import BIRTH, LINE, TASK, TRIP, nested, step, workflow
from tests.unit.pattern.waiting_tasks import after_the_end, handed_back, refusal_of

HOUR = 3_600
CAR = StepName("car")
CHILD = TaskId("c-child")


def flow(remedy: Remedy = Remedy.COMPENSATE, on_failure: Remedy | None = None) -> Workflow:
    """Fly, rent a car by another workflow, and pay."""
    return workflow(
        step("fly", undo=True), nested("car", "fly", on_failure=on_failure), step("pay", "car"), remedy=remedy
    )


def renting(of: Workflow | None = None) -> TaskRecord:
    """Wait for the child, which has an hour."""
    return told(pending(of or flow()), claimed(), *done("fly"), started("car", complete_by=HOUR))


def undoing(record: TaskRecord | None = None) -> TaskRecord:
    """Wait for the child's undo, which comes first."""
    record = told(record or renting(), cancellation(), claimed(SECOND))
    return told(record, started("car", SECOND, complete_by=HOUR))


def ended(state: StepState = StepState.COMPLETED, birth: Birth = BIRTH, step: str = "car") -> ChildEnded:
    """Tell the end of the child."""
    error = {StepState.FAILED: "pay: no money", StepState.UNRECORDED: "its answer can't be given: x"}.get(
        state
    )
    result = b'{"car":7}' if state is StepState.COMPLETED else None
    return ChildEnded(
        birth=birth, step=StepName(step), state=state, result=result, error=error, start_by=after(30)
    )


UNDONE = ended(StepState.FAILED)


def child(state: ProcessState | None = None) -> TaskRecord:
    """Make a child, which may have ended."""
    record = pending(LINE)
    order = replace(record.order, parent=Parent(task=TASK, birth=BIRTH, step=CAR))
    record = told(replace(record, order=order), claimed())
    if state is ProcessState.PROCESSED:
        return told(record, *done("pick"), *done("send"))
    if state is ProcessState.ERROR:
        return told(record, started("pick"), failed("pick"))
    return told(record, cancellation(by_operator=True)) if state is ProcessState.COMPENSATED else record


def test_parent_is_handed_back_while_its_child_works() -> None:
    """From then on it is known that the child is there; each start has it reached anew."""
    held = renting()
    assert children_to_reach(held) == ("car",)
    waits = handed_back(held)
    assert (waits.task.is_handed_back, waits.task.due_at) == (True, after(HOUR))
    again = told(waits, cancellation(), claimed(SECOND))
    assert children_to_reach(told(held, *[])) == ("car",)
    assert children_to_reach(again) == ()
    assert children_to_reach(told(again, started("car", SECOND, complete_by=HOUR))) == ("car",)


def test_answer_of_the_child_is_the_result() -> None:
    """The next run goes on with it."""
    before = handed_back(renting())
    record = told(before, ended())
    assert (record.step(CAR).state, record.step(CAR).result) == (StepState.COMPLETED, b'{"car":7}')
    assert (record.task.run, record.task.epoch, starts_scheduler(before, record)) == (1, FIRST, True)
    assert told(record, ended()) is record
    # Scheduler that holds the parent is woken.
    before = renting()
    record = told(before, ended())
    assert (record.task.locked_by, wakes_scheduler(before, record)) == (before.task.locked_by, "car")
    assert ready_steps(record) == ("pay",)


def test_end_is_kept_while_nobody_holds_the_parent() -> None:
    """The claim of the next epoch finds it; nothing is asked for twice."""
    of = workflow(nested("car"), step("other"), remedy=Remedy.COMPENSATE)
    busy = told(pending(of), claimed(), started("car", complete_by=HOUR), started("other"))
    again = told(recovered(busy), ended())
    assert again.step(CAR).state is StepState.COMPLETED
    assert again.task.process_state is ProcessState.PENDING
    # Late decision is carried out with the end.
    of = workflow(step("pay", idempotent=False), nested("car"), remedy=Remedy.COMPENSATE)
    record = told(pending(of), claimed(), started("pay"), started("car", complete_by=HOUR), cancellation())
    decided = told(record, ended())
    assert decided.step(CAR).state is StepState.COMPLETED
    assert decided.task.decision is not None
    over = told(decided, completed("pay"))
    assert (over.history[-1].ended_by, over.task.direction) == (EpochEnd.CANCELLED, Direction.UNDO)


@pytest.mark.parametrize(
    ("on_failure", "direction", "state"),
    [
        (None, Direction.UNDO, ProcessState.PENDING),
        (Remedy.HOLD, Direction.DO, ProcessState.ERROR),
        (Remedy.CONTINUE, Direction.DO, ProcessState.PENDING),
    ],
)
def test_undone_child_is_a_step_that_failed(
    on_failure: Remedy | None, direction: Direction, state: ProcessState
) -> None:
    """With its reason; what follows, the parent's own definition says."""
    record = told(handed_back(renting(flow(on_failure=on_failure))), UNDONE)
    assert (record.task.direction, record.task.process_state) == (direction, state)
    assert (record.step(CAR).state, record.step(CAR).error) == (StepState.FAILED, "pay: no money")
    assert record.task.failure_count == 0


@pytest.mark.parametrize("in_error", [False, True])
def test_child_without_its_answer_needs_an_operator(in_error: bool) -> None:  # noqa: FBT001 - a case
    """It was done: nobody undoes it for that, and nobody begins it again."""
    record = handed_back(renting())
    if in_error:
        task = replace(record.task, process_state=ProcessState.ERROR, finished_at=after(0))
        record = replace(record, task=task)
    record = told(record, ended(StepState.UNRECORDED))
    assert record.task.process_state is ProcessState.ERROR
    assert record.step(CAR).error == "it was done, but its answer can't be given: x"
    assert refusal_of(record, resubmission()) is RefusalReason.KNOWN_DONE
    assert ready_steps(told(record, found_done("car"), claimed(SECOND))) == ("pay",)


def test_time_of_a_child_that_is_stuck_is_over() -> None:
    """Nobody knows what comes of it; the undo covers it, and it counts as no recovery."""
    record = after_the_end(handed_back(renting()), HOUR)
    assert record.step(CAR).error == OUTCOME_UNKNOWN
    assert (record.task.direction, record.task.failure_count) == (Direction.UNDO, 0)
    assert [each.name for each in record.steps if each.needs_undo] == ["fly", "car"]


def test_undo_waits_for_that_of_the_child() -> None:
    """Nobody holds the parent meanwhile, and no recovery is counted; then what came before is undone."""
    waits = told(undoing(), HandedBack(epoch=SECOND, scheduler=claimed(SECOND).scheduler))
    assert (waits.task.is_handed_back, waits.task.due_at) == (True, after(HOUR))
    assert told(waits, ended()) is waits
    record = told(waits, UNDONE)
    assert (record.step(CAR).state, record.task.run) == (StepState.UNDONE, 1)
    assert told(record, UNDONE) is record


@pytest.mark.parametrize("is_held", [True, False])
def test_parent_is_compensated_with_its_last_child(is_held: bool) -> None:  # noqa: FBT001 - a case
    """Also while nobody holds it."""
    of = workflow(nested("car"), remedy=Remedy.COMPENSATE)
    record = undoing(told(pending(of), claimed(), started("car", complete_by=HOUR)))
    if not is_held:
        record = told(record, HandedBack(epoch=SECOND, scheduler=claimed(SECOND).scheduler))
    assert told(record, UNDONE).task.process_state is ProcessState.COMPENSATED


def test_child_that_is_not_undone_in_time_is_an_operator_s() -> None:
    """Who has the undo go on, which hears of the child anew."""
    waits = told(undoing(), HandedBack(epoch=SECOND, scheduler=claimed(SECOND).scheduler))
    held = after_the_end(waits, HOUR)
    assert held.task.process_state is ProcessState.ERROR
    expected = f"undo of car: its task {held.child(CAR)} is not undone by 2026-11-21 11:00:00 UTC"
    assert held.task.last_error == expected
    assert told(held, UNDONE) is held
    again = told(held, resubmission(SECOND), claimed(SECOND + 1))  # type: ignore[arg-type]
    assert ready_steps(again) == ("car",)


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (ended(birth=Birth("another1")), RefusalReason.NO_SUCH_TASK),
        (ended(step="bus"), RefusalReason.NO_SUCH_STEP),
        (ended(step="fly"), RefusalReason.NO_SUCH_STEP),
    ],
)
def test_end_is_the_right_parent_s(event: ChildEnded, reason: RefusalReason) -> None:
    """An id used again is another task."""
    assert refusal_of(renting(), event) is reason


def test_only_operators_cancel_a_child() -> None:
    """Its caller is told to cancel the parent, whatever the child does."""
    for record in (child(), child(ProcessState.PROCESSED), child(ProcessState.COMPENSATED)):
        assert refusal_of(record, cancellation(by_operator=False)) is RefusalReason.CHILD


@pytest.mark.parametrize(
    ("state", "kinds"),
    [
        (ProcessState.PROCESSED, [AnnouncementKind.ENDED]),
        (ProcessState.COMPENSATED, [AnnouncementKind.ENDED]),
        (ProcessState.ERROR, [AnnouncementKind.ALERT]),
    ],
)
def test_end_of_a_child_is_announced_to_its_parent(
    state: ProcessState, kinds: list[AnnouncementKind]
) -> None:
    """In the transaction that ends it; in `Error`, the parent waits."""
    assert [each.kind for each in announcements(child(), child(state))] == kinds


def test_what_a_parent_hears() -> None:
    """The answer, `{}` without any; why it was undone; nothing before the end, and of nobody's child."""
    processed = child(ProcessState.PROCESSED)
    answered = replace(processed, task=replace(processed.task, answer=b'{"a":1}'))
    lacking = replace(processed, task=replace(processed.task, last_error="its answer can't be given: x"))
    heard = [end_of(each, after(30)) for each in (processed, answered, lacking)]
    assert [(each.state, each.result) for each in heard if each] == [
        (StepState.COMPLETED, b"{}"),
        (StepState.COMPLETED, b'{"a":1}'),
        (StepState.UNRECORDED, None),
    ]
    undone = end_of(child(ProcessState.COMPENSATED), after(30))
    assert (undone and undone.state, undone and undone.error) == (StepState.FAILED, "not needed")
    assert end_of(child(ProcessState.ERROR), after(30)) is None
    assert end_of(pending(LINE), after(30)) is None


def test_child_that_never_was_is_recorded_as_undone() -> None:
    """Without a definition: who would admit it finds it, and counts nothing."""
    record = undoing()
    never = tombstone(record, CAR, after(3), Birth("12345678"))
    assert never.order.task == record.child(CAR)
    assert (never.order.workflow, never.order.submitter, never.steps) == ("line", "tester", ())
    heard = end_of(never, after(30))
    assert heard is not None
    assert told(record, heard).step(CAR).state is StepState.UNDONE
    assert occurrences(None, never) == Occurrences("line")


def test_items_in_other_epochs_take_their_room() -> None:
    """A recovery has no more children at work than before."""
    each = replace(
        nested("car"),
        request=lambda *_: {"weight": 1},
        for_each=lambda parcel: list(range(parcel.weight)),
        at_once=1,
    )
    of = workflow(each, step("other"), remedy=Remedy.COMPENSATE)
    record = told(pending(of), claimed(), started("car.0", complete_by=HOUR), started("other"))
    assert ready_steps(told(recovered(record), claimed(SECOND))) == ("other",)


@pytest.mark.parametrize("state", [StepState.COMPLETED, StepState.UNRECORDED])
def test_child_undone_after_it_was_processed_is_noted(state: StepState) -> None:
    """By an operator, once: those of the parent are alerted, also before they gave its result."""
    before = told(renting(), ended(state))
    noted = told(before, UNDONE)
    assert noted.step(CAR).noted == "its task is undone by now"
    assert [each.kind for each in announcements(before, noted)] == [AnnouncementKind.ALERT]
    assert told(noted, UNDONE) is noted


def test_child_that_is_done_after_its_parent_went_on_without_it_is_noted() -> None:
    """It stands, and nobody uses it: operators are alerted; when they undo it, that is noted instead."""
    before = after_the_end(handed_back(renting(flow(on_failure=Remedy.CONTINUE))), HOUR)
    assert told(before, UNDONE) is before
    noted = told(before, ended())
    assert (noted.step(CAR).state, noted.step(CAR).noted) == (
        StepState.FAILED,
        "gone on without, but its task was done after all, and stands",
    )
    assert [each.kind for each in announcements(before, noted)] == [AnnouncementKind.ALERT]
    assert told(noted, ended()) is noted
    assert told(noted, UNDONE).step(CAR).noted == "its task is undone by now"
    # Child that is done although an operator gave its result is noted.
    held = after_the_end(handed_back(renting(flow(Remedy.HOLD))), HOUR)
    given = told(held, result_given("car"), now=after(HOUR + 9))
    assert told(given, UNDONE) is given
    noted = told(given, ended())
    assert noted.step(CAR).noted == "its result is an operator's, but its task was done, too, and stands"
    assert [each.kind for each in announcements(given, noted)] == [AnnouncementKind.ALERT]
    assert told(noted, ended()) is noted
    assert told(noted, UNDONE).step(CAR).noted == "its task is undone by now"


def _named(name: str, *steps: Step, version: int = 1) -> Workflow:
    return replace(workflow(*steps, name=name, resource=f"{name}s"), version=version)


def test_child_can_always_be_undone_and_its_workflow_is_recorded() -> None:
    """Shapes without one are written as before."""
    parent = replace(workflow(nested("car")), cancel_within=60)
    [shape] = read_shape(parent.shape.written).steps
    assert (shape.via, shape.undo, shape.workflow, shape.agent) == (Way.WORKFLOW, True, "line", "")
    assert b"workflow" not in TRIP.shape.written


def test_workflow_that_is_not_there_is_named_with_the_fix() -> None:
    """At the start of the application."""
    with pytest.raises(DefinitionError) as refusal:
        Registry((_named("trip", nested("car", of="cars")), LINE), {})
    expected = (
        "workflow 'trip': step 'car': there is no workflow 'cars': name one of line, trip, or register it"
    )
    assert str(refusal.value) == expected
    # Depth is bounded.
    chain = [_named(name, nested("next", of=of)) for name, of in ("ab", "bc", "cd")]
    Registry((*chain[1:], _named("d", step("end"))), {})
    with pytest.raises(DefinitionError) as refusal:
        Registry((*chain, _named("d", step("end"))), {})
    text = "workflow 'c': step 'next': more than 3 workflows in each other (a → b → c → d): take one out"
    assert str(refusal.value) == text


def test_circle_is_refused() -> None:
    """It would never end."""
    with pytest.raises(DefinitionError) as refusal:
        Registry((_named("trip", nested("car", of="car")), _named("car", nested("back", of="trip"))), {})
    text = "workflow 'car': step 'back': its workflow leads back to itself (trip → car → trip)"
    assert str(refusal.value) == f"{text}: break the circle"
    # Circle counts only among versions that children take.
    older = _named("trip", nested("car", of="car"))
    newer = _named("trip", step("walk"), version=2)
    assert len(list(Registry((older, newer, _named("car", nested("back", of="trip"))), {}))) == 3


def _child(task: str = "trip-1", birth: str = "3f9a0c27", step: str = "car") -> TaskId:
    return child_id(resource_id(TaskId(task), Birth(birth)), StepName(step))


def test_child_s_id_is_a_task_s_and_the_same_each_time() -> None:
    """Whoever admits the child, in whatever epoch, admits the same."""
    assert _child() == "c-c027f4254ce6fa52b7779b760a184b25d3b791c6"
    assert re.fullmatch(TASK_ID_PATTERN, _child())
    # Each step and item of each task has a child of its own.
    others = {_child("trip-2"), _child(birth="00000000"), _child(step="car.0"), _child(step="car.1")}
    assert len(others | {_child()}) == 5
