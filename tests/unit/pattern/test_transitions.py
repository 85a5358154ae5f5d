"""The state table: each event and its transition, its refusal, or its repetition."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.pattern.errors import IllegalTransitionError
from functions.pattern.events import Event, SchedulerEvent, StepCompleted, StepFailed
from functions.pattern.folding import Told, fold
from functions.pattern.identity import (
    TASK_ID_PATTERN,
    Epoch,
    SchedulerId,
    StartId,
    StepName,
    TaskId,
    effect_key,
    new_birth,
    resource_id,
    resource_of,
    scheduler_id,
)
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.states import Direction, ProcessState, StepState, Way
from functions.pattern.transitions import apply
from tests.fakes.clock import START
from tests.fakes.interventions import UNDOING, cancellation, done, recovered, refused
from tests.fakes.tasks import (
    FIRST,
    SECOND,
    after,
    claimed,
    completed,
    failed,
    pending,
    skipped,
    started,
    told,
    unrecorded,
)
from tests.fakes.workflows import BIRTH, DIAMOND, LINE, TASK, TRIP, step, workflow

PICK, SEND = StepName("pick"), StepName("send")


def _picked() -> TaskRecord:
    return told(pending(LINE), claimed(), started("pick"), completed("pick", result=b'{"bin":7}'))


def test_new_task_waits_for_its_scheduler() -> None:
    """`Pending`, held by nobody, in the first epoch, due at the pick-up limit."""
    record = pending(LINE)
    task = record.task
    assert (task.order_id, task.process_state, task.locked_by) == (TASK, ProcessState.PENDING, None)
    assert (task.complete_by, task.failure_count, task.epoch) == (None, 0, FIRST)
    assert (task.direction, task.due_at, task.updated_at) == (Direction.DO, after(30), START)
    assert [(step.name, step.state) for step in record.steps] == [
        ("pick", StepState.NOT_STARTED),
        ("send", StepState.NOT_STARTED),
    ]


def test_claim_locks_the_task() -> None:
    """`LockedBy` is the Scheduler's instance id, and `CompleteBy` is set."""
    task = told(pending(LINE), claimed(start_by=25), now=after(1)).task
    assert (task.process_state, task.locked_by) == (ProcessState.PROCESSING, "task-1.1")
    assert (task.complete_by, task.due_at, task.updated_at) == (after(25), after(25), after(1))
    # Claim in time does not move the due row.
    task = told(pending(LINE), claimed(start_by=40)).task
    assert (task.complete_by, task.due_at) == (after(40), after(30))


def test_started_step_runs_until_its_complete_by() -> None:
    """The step is `Running`, and the task is due when the step is."""
    record = told(pending(LINE), claimed(), started("pick", complete_by=12), now=after(2))
    step = record.step(PICK)
    assert (step.state, step.started_at, step.complete_by, step.epoch) == (
        StepState.RUNNING,
        after(2),
        after(12),
        FIRST,
    )
    assert (record.task.complete_by, record.task.due_at) == (after(12), after(12))
    # Task is due with the earliest running step.
    ready = told(pending(), claimed(), started("open", complete_by=8), completed("open"))
    for first, second in ((12, 18), (18, 12)):
        record = told(ready, started("left", complete_by=first), started("right", complete_by=second))
        assert record.task.complete_by == after(12)
        assert record.task.due_at == after(8)


def test_last_step_finishes_the_task() -> None:
    """`Processed`, held by nobody."""
    task = told(_picked(), started("send"), completed("send"), now=after(3)).task
    assert (task.process_state, task.locked_by, task.complete_by) == (ProcessState.PROCESSED, None, None)
    assert (task.finished_at, task.updated_at, task.last_error) == (after(3), after(3), None)
    # Completed step keeps its result.
    record = _picked()
    step = record.step(PICK)
    assert (step.state, step.result, step.finished_at) == (StepState.COMPLETED, b'{"bin":7}', START)
    assert (record.task.process_state, record.task.complete_by) == (ProcessState.PROCESSING, after(30))


CLAIMED = told(pending(LINE), claimed())
RUNNING = told(CLAIMED, started("pick", complete_by=20))
PICKED = told(RUNNING, completed("pick"))
PROCESSED = told(PICKED, started("send"), completed("send"))
ERROR = told(PICKED, started("send"), failed("send"))
RECOVERED = told(recovered(RUNNING), claimed(SECOND))

EVENTS: list[SchedulerEvent] = [claimed(), started("pick"), completed("pick"), failed("pick")]
STEP_EVENTS = EVENTS[1:]
OUTCOMES: list[SchedulerEvent] = [completed("pick"), failed("pick")]


def _by_a_stranger(event: SchedulerEvent) -> SchedulerEvent:
    return replace(event, scheduler=SchedulerId("task-1.1-stranger"))


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_older_epoch_may_write_nothing(event: SchedulerEvent) -> None:
    """The task was recovered since: whatever the old attempt says counts for nothing."""
    assert apply(RECOVERED, event, START) == Refused(RefusalReason.STALE_EPOCH)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_only_the_holder_may_write(event: SchedulerEvent) -> None:
    """Of two Schedulers of one epoch the second is refused."""
    assert apply(RUNNING, _by_a_stranger(event), START) == Refused(RefusalReason.NOT_HOLDER)


@pytest.mark.parametrize("event", OUTCOMES, ids=lambda event: type(event).__name__)
def test_late_outcome_is_refused(event: SchedulerEvent) -> None:
    """At complete-by it still counts; a moment later it does not."""
    assert not isinstance(apply(RUNNING, event, after(20)), Refused)
    assert apply(RUNNING, event, after(20.000001)) == Refused(RefusalReason.LATE)


_BOTH = told(pending(), claimed(), *done("open"), started("left"), started("right"))
_HOTEL_REFUSED = told(pending(TRIP), claimed(), *done("flight"), *refused("hotel"), claimed(SECOND))
_CAR_UNDONE = told(UNDOING, *done("car", epoch=SECOND))


@pytest.mark.parametrize(
    ("record", "event", "reason"),
    [
        *((pending(LINE), event, RefusalReason.NOT_HOLDER) for event in STEP_EVENTS),
        *((end, claimed(), RefusalReason.FINISHED) for end in (PROCESSED, ERROR)),
        *((end, started("send"), RefusalReason.FINISHED) for end in (PROCESSED, ERROR)),
        *((end, failed("send"), RefusalReason.FINISHED) for end in (PROCESSED, ERROR)),
        (told(_BOTH, failed("left")), completed("right"), RefusalReason.FINISHED),
        (PROCESSED, skipped("pick"), RefusalReason.FINISHED),
        (UNDOING, completed("flight"), RefusalReason.STALE_EPOCH),
        (UNDOING, failed("flight"), RefusalReason.STALE_EPOCH),
        (told(RUNNING, cancellation()), completed("pick"), RefusalReason.STALE_EPOCH),
        (told(UNDOING, started("car", SECOND, complete_by=12)), completed("car", SECOND), RefusalReason.LATE),
    ],
)
def test_event_is_refused(record: TaskRecord, event: Event, reason: RefusalReason) -> None:
    """Before the claim, after the end, after the turn of the task, and after complete-by."""
    at = after(12.1) if reason is RefusalReason.LATE else START
    assert apply(record, event, at) == Refused(reason)


@pytest.mark.parametrize(
    ("record", "event"),
    [
        pytest.param(CLAIMED, claimed(start_by=99), id="claim"),
        pytest.param(RUNNING, started("pick", complete_by=99), id="start"),
        pytest.param(PICKED, started("pick", complete_by=99), id="start of a completed step"),
        pytest.param(PICKED, completed("pick", result=b'{"another":1}'), id="outcome"),
        pytest.param(PROCESSED, completed("send"), id="last outcome"),
        pytest.param(ERROR, completed("pick"), id="outcome before an Error"),
        pytest.param(told(CLAIMED, skipped("pick")), skipped("pick"), id="skip"),
        pytest.param(told(CLAIMED, skipped("pick"), skipped("send")), skipped("send"), id="last skip"),
        pytest.param(_CAR_UNDONE, completed("car", SECOND), id="undo"),
        pytest.param(
            told(_CAR_UNDONE, *done("flight", epoch=SECOND)), completed("flight", SECOND), id="last undo"
        ),
    ],
)
def test_what_is_told_again_changes_nothing(record: TaskRecord, event: Event) -> None:
    """The very same record comes back, so that nothing is written; first results and times stand."""
    assert apply(record, event, after(99)) is record


@pytest.mark.parametrize(
    ("record", "event"),
    [
        pytest.param(CLAIMED, completed("pick"), id="completed, never started"),
        pytest.param(CLAIMED, failed("pick"), id="failed, never started"),
        pytest.param(PICKED, failed("pick"), id="failed after it was completed"),
        pytest.param(RECOVERED, completed("pick", SECOND), id="completed, not started in this epoch"),
        pytest.param(RECOVERED, failed("pick", SECOND), id="failed, not started in this epoch"),
        pytest.param(
            RUNNING.with_step(replace(RUNNING.steps[0], complete_by=None)),
            completed("pick"),
            id="running without complete-by",
        ),
        pytest.param(RUNNING, skipped("pick"), id="skipped after its start"),
        pytest.param(_HOTEL_REFUSED, skipped("car", SECOND), id="skipped during an undo"),
        pytest.param(_HOTEL_REFUSED, started("car", SECOND), id="undo of a step that was never started"),
        pytest.param(_HOTEL_REFUSED, started("hotel", SECOND), id="undo of a step without undo"),
        pytest.param(
            told(UNDOING, started("car", SECOND)), unrecorded("car", SECOND), id="result of an undo"
        ),
    ],
)
def test_impossible_event_is_a_defect(record: TaskRecord, event: Event) -> None:
    """An event that the application cannot send raises, and is never written."""
    with pytest.raises(IllegalTransitionError):
        apply(record, event, START)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_epoch_from_the_future_is_a_defect(event: SchedulerEvent) -> None:
    """An epoch that the store never gave out can't come from a Scheduler of ours."""
    with pytest.raises(IllegalTransitionError, match=r"task task-1 \(Processing, epoch 1\) can't take"):
        apply(RUNNING, replace(event, epoch=Epoch(2)), START)


@pytest.mark.parametrize("idempotent", [True, False])
def test_other_outcome_of_a_start_that_ran_twice_is_refused(idempotent: bool) -> None:  # noqa: FBT001 - a table
    """Two lives of one activity may be told different things; that is no defect of ours."""
    flow = workflow(step("pick", idempotent=idempotent), step("send", "pick"))
    running = told(pending(flow), claimed(), started("pick", start_id="one"))
    done, refused = (replace(event, start_id=StartId("one")) for event in (completed("pick"), failed("pick")))
    assert apply(told(running, done), refused, after(1)) == Refused(RefusalReason.LATE)
    beside = workflow(step("pick", idempotent=idempotent), step("pay", idempotent=False))
    waiting = told(pending(beside), claimed(), started("pick", start_id="one"), started("pay"), refused)
    again = apply(waiting, done, after(1))
    assert again == Refused(RefusalReason.LATE) if idempotent else not isinstance(again, Refused)


TOKEN, OTHER = "token-of-this-request", "token-of-another-one"

Outcome = Callable[[str | None], StepCompleted | StepFailed]
OUTCOMES_WITH: list[Outcome] = [
    lambda token: completed("pick", token=token),
    lambda token: failed("pick", token=token),
]
WRONG = Refused(RefusalReason.WRONG_TOKEN)
REQUESTED = told(pending(LINE), claimed(), started("pick", token=TOKEN))


@pytest.mark.parametrize("outcome", OUTCOMES_WITH, ids=["completed", "failed"])
@pytest.mark.parametrize("token", [None, "", OTHER, TOKEN[:-1]])
def test_outcome_without_the_token_is_refused(outcome: Outcome, token: str | None) -> None:
    """Whoever forges a reply does not know it."""
    assert apply(REQUESTED, outcome(token), after(1)) == WRONG


def test_outcome_with_the_token_counts() -> None:
    """It came from whoever got the request."""
    record = told(REQUESTED, completed("pick", token=TOKEN))
    assert record.step(PICK).state is StepState.COMPLETED
    # Doubled outcome changes nothing.
    assert apply(record, completed("pick", token=TOKEN), after(1)) is record
    # Dispatch told again keeps the first token.
    assert apply(REQUESTED, started("pick", token=OTHER), after(1)) is REQUESTED


def test_forged_outcome_of_a_completed_step_is_refused() -> None:
    """Also when the task ended by it."""
    done = told(REQUESTED, completed("pick", token=TOKEN))
    assert apply(done, completed("pick", token=OTHER), after(1)) == WRONG
    ended = told(done, started("send", token=TOKEN), completed("send", token=TOKEN))
    assert ended.task.process_state is ProcessState.PROCESSED
    assert apply(ended, completed("send", token=OTHER), after(1)) == Refused(RefusalReason.FINISHED)
    assert apply(ended, completed("send", token=TOKEN), after(1)) is ended
    # Step that was never dispatched takes no outcome with a token.
    assert apply(REQUESTED, completed("send", token=TOKEN), after(1)) == WRONG
    # Closed epoch and texts keep no token.
    again = recovered(REQUESTED)
    assert TOKEN not in str(asdict(again.history[0]))
    assert TOKEN not in repr(REQUESTED)


def test_token_of_an_older_epoch_is_refused() -> None:
    """Each dispatch has its own."""
    again = told(recovered(REQUESTED), claimed(SECOND), started("pick", SECOND, token=OTHER))
    assert apply(again, completed("pick", SECOND, token=TOKEN), after(1)) == WRONG
    assert apply(again, completed("pick", token=TOKEN), after(1)) == Refused(RefusalReason.STALE_EPOCH)


SIDES = told(pending(), claimed(), started("open"), completed("open"), started("left"), started("right"))


def _starts_close(record: TaskRecord, _: datetime) -> list[Event]:
    """Start the step that both sides lead to, as any runner would."""
    return [started("close", start_id="mine")] if record.step(DIAMOND.steps[2].name).settled else []


def test_outcomes_that_wait_together_are_one_change_with_an_answer_each() -> None:
    """The last of them makes the next step ready."""
    told_ = [Told(completed("left"), _starts_close), Told(completed("right"), _starts_close)]
    folded = fold(SIDES, told_, START)
    first, second = folded.answers
    assert [type(event) for event in first.events] == [StepCompleted]
    assert second.events[1:] == (started("close", start_id="mine"),)
    assert folded.record is second.record
    assert len(folded.changes) == 3


def test_each_change_begins_where_the_one_before_ended() -> None:
    """So that what is counted for a change is counted once."""
    folded = fold(SIDES, [Told(completed("left")), Told(completed("right"))], START)
    first, second = folded.changes
    assert first.before is SIDES
    assert first.after is second.before
    assert second.after is folded.record
    # Repeat changes nothing and is answered.
    folded = fold(SIDES, [Told(completed("left")), Told(completed("left"))], START)
    assert [len(answer.changes) for answer in folded.answers] == [1, 0]
    assert folded.answers[1].fault is None


def test_step_is_started_by_one_runner_only() -> None:
    """The other's start is refused, and it gets no such event."""

    def other(_: TaskRecord, __: datetime) -> list[Event]:
        return [started("close", start_id="other")]

    both = told(SIDES, completed("left"), completed("right"))
    folded = fold(both, [Told(claimed(), _starts_close), Told(claimed(), other)], START)
    mine, theirs = folded.answers
    assert mine.events == (started("close", start_id="mine"),)
    assert theirs.events == ()


def test_refused_event_leaves_the_others_as_they_are() -> None:
    """And nothing follows it."""
    folded = fold(SIDES, [Told(claimed(SECOND), _starts_close), Told(completed("left"))], START)
    illegal, taken = folded.answers
    assert isinstance(illegal.fault, IllegalTransitionError)
    assert illegal.changes == ()
    assert taken.record.step(DIAMOND.steps[1].name).state is StepState.COMPLETED
    # Outcome holds when what follows is refused.
    late = [Told(completed("left"), lambda _, __: [started("right", start_id="another"), claimed(SECOND)])]
    folded = fold(SIDES, late, START)
    assert [type(event) for event in folded.answers[0].events] == [StepCompleted]
    # Events after the end of an epoch are refused.
    line = told(pending(TRIP), claimed(), started("flight"))
    folded = fold(line, [Told(failed("flight")), Told(completed("flight"))], START)
    assert folded.answers[0].record.task.process_state is ProcessState.PENDING
    assert folded.answers[1].fault == Refused(RefusalReason.STALE_EPOCH)


_ATTEMPTS = st.tuples(st.from_regex(TASK_ID_PATTERN, fullmatch=True), st.integers(1, 1_000))


def test_changed_step_takes_its_own_place() -> None:
    """The other steps stay what they were."""
    before = pending()
    after = before.with_step(replace(before.step(StepName("left")), state=StepState.RUNNING))
    assert after.step(StepName("left")).state is StepState.RUNNING
    assert [step.name for step in after.steps] == [step.name for step in before.steps]
    assert [old is new for old, new in zip(before.steps, after.steps, strict=True)].count(False) == 1
    # Unknown step is an error.
    with pytest.raises(KeyError, match="middle"):
        pending().step(StepName("middle"))


@given(st.lists(_ATTEMPTS, min_size=2, max_size=2, unique=True))
def test_two_attempts_never_share_an_instance(attempts: list[tuple[str, int]]) -> None:
    """Neither two tasks nor two epochs of one task."""
    first, second = (scheduler_id(TaskId(task), Epoch(epoch)) for task, epoch in attempts)
    assert first != second


def test_effect_key_is_the_same_in_every_epoch() -> None:
    """It names the effect, not the attempt; doing and undoing are two effects."""
    resource = resource_id(TASK, BIRTH)
    assert effect_key(resource, StepName("pay"), Direction.DO) == "task-1.0a1b2c3d/pay/do"
    assert effect_key(resource, StepName("pay"), Direction.UNDO) == "task-1.0a1b2c3d/pay/undo"


def test_id_that_is_used_again_has_other_effects() -> None:
    """Each admission gives its task a birth of its own: 8 characters of a new id."""
    births = [new_birth(uuid.uuid4().hex) for _ in range(2)]
    first, second = (effect_key(resource_id(TASK, birth), StepName("pay"), Direction.DO) for birth in births)
    assert first != second
    assert {len(birth) for birth in births} == {8}
    assert resource_of(first) == resource_id(TASK, births[0])


def test_steps_behind_queues_are_known_without_the_definition() -> None:
    """So that whoever asks for a Scheduler can say whose replies it awaits."""
    assert pending(workflow(step("a"), step("b", via=Way.QUEUE))).queued == ("b",)
