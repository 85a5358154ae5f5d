"""Every row of the state table: which event leads where."""

from __future__ import annotations

from functions.pattern.identity import StepName
from functions.pattern.records import TaskRecord
from functions.pattern.states import Direction, ProcessState, StepState
from tests.fakes.clock import START
from tests.fakes.interventions import recovered
from tests.fakes.tasks import FIRST, after, claimed, completed, failed, pending, started, told
from tests.fakes.workflows import LINE, TASK

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


def test_claim_in_time_does_not_move_the_due_row() -> None:
    """A due time that is early enough stays: the row need not be written."""
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


def test_task_is_due_with_the_earliest_running_step() -> None:
    """Of two steps side by side the shorter one counts, in whatever order they started."""
    ready = told(pending(), claimed(), started("open", complete_by=8), completed("open"))
    for first, second in ((12, 18), (18, 12)):
        record = told(ready, started("left", complete_by=first), started("right", complete_by=second))
        assert record.task.complete_by == after(12)
        assert record.task.due_at == after(8)


def test_completed_step_keeps_its_result() -> None:
    """Its result is recorded, and the next step must start in time."""
    record = _picked()
    step = record.step(PICK)
    assert (step.state, step.result, step.finished_at) == (StepState.COMPLETED, b'{"bin":7}', START)
    assert (record.task.process_state, record.task.complete_by) == (ProcessState.PROCESSING, after(30))


def test_last_step_finishes_the_task() -> None:
    """`Processed`, held by nobody."""
    task = told(_picked(), started("send"), completed("send"), now=after(3)).task
    assert (task.process_state, task.locked_by, task.complete_by) == (ProcessState.PROCESSED, None, None)
    assert (task.finished_at, task.updated_at, task.last_error) == (after(3), after(3), None)


def test_refusal_by_the_service_makes_an_error() -> None:
    """`Error` with the reason; the operator decides."""
    record = told(_picked(), started("send"), failed("send", error="no such address"), now=after(3))
    assert record.step(SEND).state is StepState.FAILED
    assert record.step(SEND).error == "no such address"
    task = record.task
    assert (task.process_state, task.last_error) == (ProcessState.ERROR, "send: no such address")
    assert (task.locked_by, task.complete_by, task.finished_at) == (None, None, after(3))


def test_next_epoch_resumes_after_the_completed_steps() -> None:
    """A recovered task keeps its results, and its running step starts anew."""
    lost = told(_picked(), started("send", complete_by=20))
    again = told(recovered(lost), claimed(recovered(lost).task.epoch), now=after(40))
    assert again.step(PICK).result == b'{"bin":7}'
    restarted = told(again, started("send", again.task.epoch, complete_by=60), now=after(41)).step(SEND)
    assert (restarted.epoch, restarted.started_at, restarted.complete_by) == (2, after(41), after(60))
