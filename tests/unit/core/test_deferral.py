"""A step behind a closed gate waits uncounted, and a release chain resumes steps in waiting order."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from functions.core.derive import StepState, WaitingFor, derive, ready_steps, step_state
from functions.core.gate_rules import (
    Circuit,
    Gate,
    Hold,
    Served,
    count_overdue,
    end_hold,
    is_unreached,
    next_link,
    record_failure,
    record_lag,
    record_reply,
    record_success,
    start_hold,
)
from functions.core.record import Direction, FailurePolicy, OperationState, StepType, TaskRecord
from functions.core.task_events import Due, GateReleased, OutcomeKind, Rejection, StepDeferred
from tests.unit.core.builders import (
    DUE,
    NOW,
    RESUME,
    SETTINGS,
    SUSPEND,
    after,
    alerts,
    at,
    begin,
    cancel,
    end,
    new,
    payment,
    queue,
    rejection,
    resubmit,
    run,
    spec,
)

_BOUND = SETTINGS.defer_for.total_seconds()
_HELD = Hold(start=NOW, reason="maintenance", who="op")


def _deferred(**fields: object) -> TaskRecord:
    record = new(spec("a", agent="s", **fields))
    return after(record, StepDeferred(epoch=1, step="a"))


def test_step_behind_a_closed_gate_waits_uncounted() -> None:
    """It is released for the next start of a run."""
    record = _deferred()
    columns = derive(record)
    assert (columns.waiting_for, columns.due_at) == (WaitingFor.DEFERRED, at(1 + _BOUND))
    assert step_state(record, record.order.by_name["a"]) is StepState.DEFERRED
    assert rejection(record, StepDeferred(epoch=1, step="a")) is Rejection.NOT_READY
    assert rejection(record, DUE, 3_600) is Rejection.NOT_DUE
    released = after(record, GateReleased(gate="s", most=1), seconds=5)
    assert (ready_steps(released), derive(released).gates, released.failures) == (["a"], {}, 0)
    assert (released.run, derive(released).waiting_for) == (2, WaitingFor.PICK_UP)
    assert rejection(released, GateReleased(gate="s", most=1), 6) is Rejection.NOT_OPEN
    assert after(released, DUE, seconds=60).failures == 0  # the hosts carry less than is released


def test_release_keeps_the_order_of_waiting() -> None:
    """The rest stays behind the gate."""
    record = new(spec("a", agent="s"), spec("b", agent="s"))
    record = after(record, StepDeferred(epoch=1, step="b"), seconds=1)
    record = after(record, StepDeferred(epoch=1, step="a"), seconds=2)
    record = after(record, GateReleased(gate="s", most=1), seconds=3)
    assert (ready_steps(record), derive(record).gates) == (["b"], {"s": (at(2), 1)})
    earlier = GateReleased(gate="s", most=1, since=at(1.5))  # chosen before the step was deferred again
    assert rejection(record, earlier, 4) is Rejection.NOT_OPEN
    assert ready_steps(after(record, replace(earlier, since=at(2)), seconds=4)) == ["a", "b"]


def test_service_that_was_not_called_costs_no_recovery() -> None:
    """Deferrals end after `defer_for` in sum, and then count as overdue."""
    record, seconds = new(spec("a", agent="s")), 0.0
    while seconds < _BOUND:
        record = run(record, "a", OutcomeKind.NOT_BEGUN, seconds)
        assert rejection(record, DUE, seconds + 300) is Rejection.NOT_DUE
        record = after(record, GateReleased(gate="s", most=1), seconds=seconds + 300)
        seconds += 301
    record = run(record, "a", OutcomeKind.NOT_BEGUN, seconds)
    assert record.failures == 0
    assert rejection(record, Due(), seconds + 300) is Rejection.NOT_DUE
    assert after(record, DUE, seconds=seconds + 300).failures == 1


def test_optional_step_that_is_deferred_for_too_long_fails() -> None:
    """The task continues without it. While it waits for its recovery, the deferral is not due."""
    record = _deferred(on_failure=FailurePolicy.CONTINUE)
    assert derive(replace(record, resume_at=at(_BOUND + 60))).due_at == at(_BOUND + 60)
    record = after(record, DUE, seconds=_BOUND + 10)
    assert (record.do("a").error, record.failures) == ("deferred for too long", 0)
    assert derive(record).state == "Processed"


def test_hold_before_a_step_waits_does_not_extend_its_deadline() -> None:
    """An earlier step that waited behind the gate, or the step's request of an earlier epoch, has ended."""
    record = new(spec("a", agent="s", on_failure=FailurePolicy.CONTINUE), spec("b", "a", agent="s"))
    record = after(after(record, StepDeferred(epoch=1, step="a")), DUE, seconds=_BOUND + 10)
    record = after(record, StepDeferred(epoch=1, step="b"), seconds=_BOUND + 11)
    past = replace(_HELD, end=at(7_200))
    assert rejection(record, Due(holds={"s": (past,)}), _BOUND + 12) is Rejection.NOT_DUE
    record = replace(new(queue("q")), failures=3)
    look = Due(may_recover=True, queues={"queue:q": Gate(name="queue:q")})
    record = after(begin(record, "q"), look, seconds=40)
    record = after(after(record, Due(), seconds=2_000), StepDeferred(epoch=2, step="q"), seconds=2_001)
    past = replace(_HELD, start=at(100), end=at(1_900))
    assert rejection(record, Due(holds={"queue:q": (past,)}), 2_010) is Rejection.NOT_DUE


def test_hold_does_not_count() -> None:
    """It extends the deferrals and the task's own time limit once, also at two gates or while suspended."""
    limit = 2 * _BOUND
    record = new(spec("a", agent="s"), spec("b", agent="t"), complete_within=limit)
    record = after(record, StepDeferred(epoch=1, step="a"), StepDeferred(epoch=1, step="b"))
    recent = replace(_HELD, start=at(_BOUND + 9))
    held = after(record, Due(may_recover=True, holds={"s": (recent,), "t": (recent,)}), seconds=_BOUND + 10)
    longer = at(_BOUND + 10) + SETTINGS.longest_deferral
    assert (held.failures, held.do("a").defer_by) == (0, longer)
    past = replace(_HELD, end=at(7_200))
    moved = after(record, Due(may_recover=True, holds={"s": (past,)}), seconds=_BOUND + 10)
    assert (moved.failures, moved.do("b").defer_by) == (0, at(1 + _BOUND + 7_199))
    assert after(record, Due(holds={"s": (past,), "t": (past,)})).expires_at == moved.expires_at
    paused = after(after(record, SUSPEND), RESUME, seconds=6_000)
    assert after(paused, Due(holds={"t": (past,)}), seconds=7_200).expires_at == moved.expires_at
    released = after(record, GateReleased(gate="s", most=1, holds=(past,)), seconds=8_000)
    assert released.expires_at == moved.expires_at == at(limit + 7_199)
    asleep = after(record, SUSPEND, GateReleased(gate="s", most=1))
    later = after(asleep, GateReleased(gate="t", most=1), seconds=101)
    assert (asleep.expires_at, later.expires_at) == (at(limit), at(limit + 100))
    assert rejection(released, Due(holds={"t": (past,)}), 8_000) is Rejection.NOT_DUE
    again = after(released, StepDeferred(epoch=1, step="a"), seconds=8_001)
    assert again.do("a").defer_by == at(8_001 + 1 + _BOUND + 7_199 - 8_000)


def test_hold_delays_an_undo_without_bound() -> None:
    """It neither counts a failure nor ends as a refused undo."""
    record = after(run(new(spec("a", agent="s", undo=True), spec("b", "a")), "a"), cancel())
    record, seconds = after(record, StepDeferred(epoch=record.epoch, step="a")), 1.0
    for _ in range(9):
        seconds += 2 * _BOUND
        record = after(record, Due(may_recover=True, holds={"s": (_HELD,)}), seconds=seconds)
        assert (record.failures, record.step("a").undo.gate, record.finished_at) == (0, "s", None)
    record = after(record, GateReleased(gate="s", most=1), seconds=seconds)
    assert ready_steps(record) == ["a"]


def test_time_limit_waits_for_the_end_of_a_hold() -> None:
    """A task behind a held gate is examined again later."""
    record = new(spec("a", agent="s"), complete_within=600)
    record = after(record, StepDeferred(epoch=1, step="a"))
    recent = replace(_HELD, start=at(699))
    held = after(record, Due(may_recover=True, holds={"s": (recent,)}), seconds=700)
    assert (held.error, derive(held).due_at) == (None, at(700) + SETTINGS.longest_deferral)


def test_failed_tasks_keep_their_place_when_they_are_resubmitted() -> None:
    """The bound of the deferral starts again, also that of a released step."""
    record = new(spec("a", agent="s"), spec("b"), on_failure=FailurePolicy.KEEP)
    record = after(record, StepDeferred(epoch=1, step="a"))
    record = run(record, "b", OutcomeKind.REFUSED)
    record = after(record, resubmit(record), seconds=100)
    assert (record.do("a").defer_by, record.do("a").deferred_since) == (at(100 + _BOUND), at(1))
    record = after(record, GateReleased(gate="s", most=1), seconds=_BOUND)
    record = run(record, "b", OutcomeKind.REFUSED, _BOUND)
    record = after(record, resubmit(record), StepDeferred(epoch=3, step="a"), seconds=_BOUND + 1)
    assert record.do("a").defer_by == at(2 * _BOUND + 1)


@pytest.mark.parametrize("kind", [OutcomeKind.NOT_BEGUN, OutcomeKind.DONE_WITHOUT_RESULT])
@pytest.mark.parametrize("up_to", [at(-99), NOW])
def test_optional_payment_that_failed_is_not_started_again(kind: OutcomeKind, up_to: datetime) -> None:
    """Its outcome arrives after the task has continued without it, and does not stop the task either."""
    pay = payment(type=StepType.QUEUE, on_failure=FailurePolicy.CONTINUE)
    gate = Gate(name=pay.gate, served=(Served(at=at(25), up_to=up_to),))
    record = new(pay, spec("b", "pay"), spec("c", "b"))
    record = after(begin(record, "pay"), Due(queues={pay.gate: gate}), seconds=40)
    record = run(record, "b", seconds=41)
    record = after(record, end(record, "pay", kind), seconds=42)
    columns = derive(record)
    assert (columns.state, ready_steps(record), columns.gates) == ("Pending", ["c"], {})


def test_optional_payment_that_was_done_is_not_rebuilt() -> None:
    """Its result came after the task had continued, and cannot be used. Its effect exists."""
    pay = payment(on_failure=FailurePolicy.CONTINUE, undo=False)
    record = new(pay, spec("b", "pay"), on_failure=FailurePolicy.KEEP)
    record = after(begin(record, "pay"), DUE, seconds=40)
    record = after(record, end(record, "pay", OutcomeKind.DONE_WITHOUT_RESULT), seconds=41)
    assert alerts(record) == ["noted"]  # operators see it
    record = run(record, "b", OutcomeKind.REFUSED, seconds=42)
    assert rejection(record, resubmit(record, "pay"), 43) is Rejection.NOT_OPEN


def test_request_that_its_agent_had_not_reached_is_deferred() -> None:
    """A request that hangs counts. Only the gate of its queue decides."""
    record = begin(new(queue("q")), "q")
    well = Gate(name="queue:q")
    behind = replace(well, served=(Served(at=at(55), up_to=NOW),))
    for gate in (replace(well, circuit=Circuit.OPEN), behind):
        look = Due(may_recover=True, queues={"queue:q": gate})
        later = after(record, look, seconds=60)
        assert (later.failures, later.epoch, list(derive(later).gates)) == (0, 1, ["queue:q"])
        assert (derive(later).gates["queue:q"][0], later.do("q").defer_by) == (at(1), at(60 + _BOUND))
        assert after(later, look, seconds=_BOUND + 70).failures == 1
    reached = replace(behind, served=(Served(at=at(55), up_to=at(3)),))
    outdated = replace(behind, served=(Served(at=at(-31), up_to=NOW),))
    for gate in (well, reached, outdated):
        assert after(record, Due(may_recover=True, queues={"queue:q": gate}), seconds=60).failures == 1
    assert rejection(record, DUE, 60) is Rejection.NOT_DUE
    record = new(payment(type=StepType.QUEUE, can_find=True))
    assert rejection(begin(record, "pay"), Due(), 60) is Rejection.NOT_DUE


# Gates


def test_circuit_of_a_service_opens_and_half_opens() -> None:
    """The wait doubles with each opening; a call from before the last change counts for nothing."""
    opened = record_failure(Gate(name="s"), NOW, at(1), SETTINGS)
    assert (opened.circuit, opened.next_at, opened.blocks(is_released=True)) == (Circuit.OPEN, at(6), True)
    assert record_failure(opened, at(2), at(2), SETTINGS) is opened
    assert next_link(opened, at(3), SETTINGS, is_waiting=True) is opened
    half_open = next_link(opened, at(6), SETTINGS, is_waiting=True)
    assert (half_open.amount, half_open.next_at) == (1, at(7))
    assert (half_open.blocks(is_released=False), half_open.blocks(is_released=True)) == (True, False)
    assert record_failure(half_open, NOW, at(7), SETTINGS) is half_open
    again = record_failure(half_open, at(6), at(7), SETTINGS)
    assert (again.next_at, again.away_from, again.openings) == (at(17), at(1), 2)
    well = record_success(half_open, at(6))
    assert (well.has_succeeded, record_success(well, at(7)), record_success(half_open, NOW)) == (
        True,
        well,
        half_open,
    )
    doubled = next_link(well, at(7), SETTINGS, is_waiting=True)
    assert (doubled.amount, doubled.changed_at) == (2, at(6))
    closed = next_link(well, at(7), SETTINGS, is_waiting=False)
    assert (closed.circuit, closed.next_at, closed.blocks(is_released=False)) == (Circuit.CLOSED, None, False)


def test_hold_closes_a_gate_until_an_operator_ends_it() -> None:
    """An open circuit stays open at the end of the hold."""
    held = start_hold(Gate(name="s"), "maintenance", "op", NOW)
    assert (held.blocks(is_released=True), start_hold(held, "again", "op", at(1))) == (True, held)
    ended = end_hold(held, at(9))
    assert (ended.circuit, ended.next_at, ended.holds[0].end) == (Circuit.HALF_OPEN, at(9), at(9))
    assert (end_hold(ended, at(10)), ended.hold) == (ended, None)
    opened = start_hold(record_failure(Gate(name="s"), NOW, NOW, SETTINGS), "maintenance", "op", at(1))
    assert (end_hold(opened, at(2)).circuit, end_hold(opened, at(2)).changed_at) == (Circuit.OPEN, NOW)


def test_circuit_of_a_queue_opens_after_failures_and_closes_after_a_reply() -> None:
    """While it is open, overdue requests count for nothing, and one probe is sent per interval."""
    gate, ends = Gate(name="queue:q"), at(30)
    now = at(35)
    once = count_overdue(gate, NOW, ends, now, SETTINGS)
    assert (once.failures, record_reply(once, NOW, now).failures) == (1, 0)
    assert record_reply(gate, NOW, now) is gate  # a reply without failures before it writes no row
    for _ in range(SETTINGS.open_after):
        gate = count_overdue(gate, NOW, ends, now, SETTINGS)
    assert (gate.circuit, count_overdue(gate, NOW, ends, now, SETTINGS)) == (Circuit.OPEN, gate)
    now = at(45)
    probing = next_link(gate, now, SETTINGS, is_waiting=True)
    assert (probing.amount, probing.next_at) == (1, now + SETTINGS.probe_interval)
    idle = next_link(probing, now, SETTINGS, is_waiting=False)
    assert (idle.circuit, idle.next_at, record_reply(idle, now, now).next_at) == (
        Circuit.HALF_OPEN,
        None,
        now,
    )
    assert count_overdue(probing, now, now, now, SETTINGS).circuit is Circuit.OPEN
    back = record_reply(probing, now, now)
    assert next_link(back, now, SETTINGS, is_waiting=True).amount == 2
    assert next_link(back, now, SETTINGS, is_waiting=False).circuit is Circuit.CLOSED
    assert is_unreached(back, NOW, now, SETTINGS)  # its deadline passed while the circuit was open
    assert is_unreached(back, NOW, ends, SETTINGS)  # it was overdue with the first failure
    assert is_unreached(back, NOW, now + timedelta(seconds=30), SETTINGS)  # it was sent before the reply
    assert count_overdue(back, NOW, now, now, SETTINGS) is back
    later = now + timedelta(seconds=1)
    assert not is_unreached(back, later, later + timedelta(seconds=30), SETTINGS)
    assert record_reply(back, None, later) is not None


def test_lag_at_the_deadline_decides_after_the_agent_has_caught_up() -> None:
    """A request that expired was not reached. One that the Agent had passed by its deadline hangs."""
    gate = Gate(name="queue:q")
    for number in range(30):  # the lag is 40 s, and shrinks by a second each second
        gate = record_lag(gate, at(2 * number), at(40 + number))
    assert is_unreached(gate, at(30), at(54), SETTINGS)
    assert not is_unreached(gate, at(10), at(54), SETTINGS)
    assert count_overdue(gate, at(30), at(54), at(80), SETTINGS).failures == 0
    assert count_overdue(gate, at(10), at(54), at(80), SETTINGS).failures == 1
    before = Served(at=at(51), up_to=at(29))
    assert is_unreached(replace(gate, served=(before,)), at(28), at(53), SETTINGS)
    assert not is_unreached(replace(gate, served=(before,)), at(27), at(53), SETTINGS)
    after_it = replace(gate, served=(replace(before, at=at(52)), Served(at=at(60), up_to=at(12))))
    assert not is_unreached(after_it, at(27), at(53), SETTINGS)


def test_lag_is_kept_for_three_minutes_each_five_seconds() -> None:
    """The newest one is exact, and the row stays small."""
    gate = Gate(name="queue:q")
    for number in range(400):
        gate = record_lag(gate, at(number), at(number + 20))
    times = [(each.at - NOW).total_seconds() for each in gate.served]
    assert times[-1] == 419
    assert 239 <= times[0] < 244
    assert {later - earlier for earlier, later in pairwise(times[:-1])} == {5}


def test_time_limit_does_not_run_while_a_request_is_in_a_held_queue() -> None:
    """Neither during the hold nor after it. That of a request that must not be repeated waits for the end."""
    for ended_at, seconds in ((None, 610), (at(890), 910)):
        record = begin(new(queue("q"), complete_within=600 if ended_at is None else 900), "q", by=900)
        holds = (Hold(start=at(60), end=ended_at, reason="m", who="op"),)
        gates = {"queue:q": Gate(name="queue:q", holds=holds)}
        held = after(record, Due(may_recover=True, holds={"queue:q": holds}, queues=gates), seconds=seconds)
        assert (held.direction, held.epoch, held.error) == (Direction.DO, 1, None)
    record = begin(new(pay := payment(type=StepType.QUEUE, can_find=True)), "pay")
    held = after(record, Due(holds={pay.gate: (_HELD,)}), seconds=40)
    assert (held.finished_at, derive(held).due_at) == (None, at(40 + 30) + SETTINGS.longest_deferral)
    gate = Gate(name=pay.gate, holds=(replace(_HELD, end=at(50)),))
    unknown = after(held, Due(holds={pay.gate: gate.holds}, queues={pay.gate: gate}), seconds=375)
    found = after(unknown, end(unknown, "pay", OutcomeKind.NOT_BEGUN, is_look_up=True), seconds=376)
    assert (list(derive(found).gates), found.failures) == ([pay.gate], 0)
    record = new(payment(type=StepType.QUEUE, complete_within=3_600))
    past = replace(_HELD, start=at(60), end=at(3_590))
    look = Due(holds={pay.gate: (past,)}, queues=DUE.queues)
    record = begin(record, "pay", by=3_600)
    assert after(record, look, seconds=3_605).do("pay").complete_by == at(3_601 + 3_530)
    for start_at, state in ((7_130, OperationState.RUNNING), (7_132, OperationState.UNKNOWN)):
        again = replace(look, holds={pay.gate: (past, replace(_HELD, start=at(start_at)))})
        assert after(record, again, seconds=7_140).do("pay").state is state


def test_time_limit_does_not_count_an_unseen_hold() -> None:
    """The reply came after the hold. One that ended before a resubmission extends no later limit."""
    record = new(queue("q"), spec("b", "q"), complete_within=600, on_failure=FailurePolicy.KEEP)
    record = begin(record, "q", by=900)
    record = after(record, end(record, "q"), seconds=500)
    for end_at, expires_at in ((None, at(1_040)), (at(460), at(1_000))):
        look = Due(may_recover=True, holds={"queue:q": (replace(_HELD, start=at(60), end=end_at),)})
        moved = after(after(record, StepDeferred(epoch=1, step="b"), seconds=501), look, seconds=610)
        assert (moved.decision, moved.expires_at) == (None, expires_at)
        assert moved.do("b").defer_by == at(501 + _BOUND)
    record = run(record, "b", OutcomeKind.REFUSED, seconds=600)
    record = after(record, resubmit(record), seconds=700)
    assert rejection(record, look, 710) is Rejection.NOT_DUE


def test_hold_is_credited_to_each_request_that_was_in_its_queue() -> None:
    """Also to one that started again after a suspension; a hold after the end of a request is not."""
    record = begin(new(queue("q"), complete_within=1_000), "q", by=900)
    record = after(after(record, SUSPEND, seconds=470), RESUME, seconds=1_000)
    record = begin(record, "q", by=1_900, seconds=1_001)
    look = Due(may_recover=True, holds={"queue:q": (replace(_HELD, start=at(60), end=at(460)),)})
    assert after(record, look, seconds=1_535).expires_at == at(1_000 + 530 + 400)
    pay = payment(type=StepType.QUEUE, on_failure=FailurePolicy.CONTINUE)
    record = new(pay, spec("b", "pay", type=StepType.EVENT), complete_within=600)
    record = after(begin(record, "pay"), DUE, seconds=40)
    record = begin(record, "b", by=9_000, seconds=41)
    look = Due(may_recover=True, holds={pay.gate: (replace(_HELD, start=at(100)),)})
    assert derive(after(record, look, seconds=610)).state == "Error"


@pytest.mark.parametrize("is_look_up", [True, False])
def test_slow_agent_defers_a_payment_up_to_the_bound(*, is_look_up: bool) -> None:
    """Each request is not taken, or is looked up as not done. After the bound, the step counts a failure."""
    record, seconds = new(pay := payment(type=StepType.QUEUE, can_find=True)), 0.0
    while seconds < _BOUND:
        record = begin(record, "pay", by=seconds + 60, seconds=seconds)
        gate = Gate(name=pay.gate, served=(Served(at=at(seconds + 55), up_to=at(seconds - 99)),))
        record = after(record, Due(queues={pay.gate: gate}), seconds=seconds + 65)
        not_done = end(record, "pay", OutcomeKind.NOT_BEGUN, is_look_up=is_look_up)
        record = after(record, not_done, seconds=seconds + 66)
        assert record.failures == 0
        seconds += 600
        released = after(record, GateReleased(gate=pay.gate, most=1), seconds=seconds)
        record = released if seconds < _BOUND else record
    assert after(record, DUE, seconds=seconds + 70).failures == 1


def test_hold_does_not_use_up_the_bound_of_a_request_in_its_queue() -> None:
    """The request is deferred at its deadline after a hold of seven hours; `DEFER_HOURS` is six."""
    record = new(queue("q", complete_within=28_800))
    spans = [(60, 25_200), *((25_200 + 60 * n, 25_201 + 60 * n) for n in range(1, 51))]
    holds = tuple(replace(_HELD, start=at(since), end=at(until)) for since, until in spans)
    gate = Gate(name="queue:q", holds=holds)
    due = Due(may_recover=True, holds={gate.name: holds}, queues={gate.name: gate})
    later = after(begin(record, "q", by=28_800), due, seconds=28_810)
    assert (later.epoch, later.do("q").defer_by) == (1, at(28_810 + _BOUND))  # it is longer than the bound


def test_long_hold_counts_after_many_short_ones() -> None:
    """A look that comes after all of them extends the deadlines by each one."""
    gate, pay = Gate(name="queue:pay"), new(payment(type=StepType.QUEUE, complete_within=14_400))
    for since, until in ((60, 18_000), *((18_000 + 60 * n, 18_030 + 60 * n) for n in range(1, 21))):
        gate = end_hold(start_hold(gate, "maintenance", "op", at(since)), at(until))
    due = Due(may_recover=True, holds=dict.fromkeys(("s", gate.name), gate.holds), queues={gate.name: gate})
    for record, seconds in ((_deferred(), 28_800), (begin(pay, "pay", by=14_400), 21_600)):
        looked = after(record, due, seconds=seconds)
        assert (looked.epoch, looked.error) == (1, None)
