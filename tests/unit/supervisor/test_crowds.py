"""Many tasks that are late together are no failures: they get more time, their turns, and one alert."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from functions.pattern.breaker import BreakerRecord, BreakerState
from functions.pattern.crowds import SCHEDULERS, CrowdCause
from functions.pattern.errors import TransientError
from functions.pattern.events import Event, Recovered, StepNotTaken
from functions.pattern.identity import Epoch, TaskId, start_of
from functions.pattern.messages import requests_queue
from functions.pattern.records import Extension, TaskRecord
from functions.pattern.shared_rows import Chore, Occasion, StoredBreaker
from functions.pattern.shares import Share
from functions.pattern.states import ProcessState, Way
from functions.pattern.step_records import MOST_DISPATCHES
from functions.pattern.supervision import judge
from functions.supervisor.crowds import CrowdControl, read_crowds
from functions.supervisor.sweeping import SweepReport
from functions.supervisor.swept_crowds import Late
from tests.fakes.clock import START
from tests.fakes.supervision import POLICY
from tests.fakes.tasks import FIRST, SECOND, after, claimed, completed, pending, started, told
from tests.fakes.workflows import LINE, step, workflow
from tests.unit.supervisor.bench import Bench

PAYING = workflow(step("pay", via=Way.QUEUE, complete_within=60), name="paying")
PAY = PAYING.steps[0].agent
BY_AGENT = f"Agent {PAY}"
SENDING = workflow(step("send", complete_within=60), name="sending")
SEND = SENDING.steps[0].agent
WITHIN = PAYING.steps[0].complete_within
MANY = 60
PROBES = 5  # tasks that may try, in one sweep, what is down


def _named(number: int) -> TaskId:
    return TaskId(f"task-{number:03}")


def _bench(*events: str, tasks: int = MANY) -> Bench:
    """Let tasks be late: of no step if none is named, or of one that was asked for at once."""
    of = {"": LINE, "pay": PAYING, "send": SENDING}[events[0] if events else ""]
    bench = Bench(deployed=(of,))
    for number in range(tasks):
        name = _named(number)
        begun: list[Event] = [claimed(task=name)] if events else []
        begun += [started(each, task=name, complete_by=WITHIN) for each in events]
        bench.store.put(told(pending(of, name), *begun))
    bench.clock.advance(max(30.0, WITHIN) + 6)
    return bench


def _eased(report: SweepReport) -> tuple[int, int, int, int]:
    return report.extended, report.asked_again, report.resumed, report.recovered


def _failure_counts(bench: Bench) -> set[int]:
    return {record.task.failure_count for record in bench.store.records()}


def _epochs(bench: Bench) -> set[Epoch]:
    return {record.task.epoch for record in bench.store.records()}


def _run_schedulers(bench: Bench, name: str) -> None:
    """Let the Schedulers that were asked for begin a step, which nobody answers."""
    for record in bench.store.records():
        task, epoch = record.order.task, record.task.epoch
        if record.task.process_state is ProcessState.PENDING:
            until = (bench.clock.now() - START).total_seconds() + WITHIN
            begun = claimed(epoch, task=task), started(name, epoch, task=task, complete_by=until)
            bench.store.put(told(record, *begun, now=bench.clock.now()))


async def _replied(bench: Bench) -> None:
    await bench.times.note(Occasion.REPLIED, PAY, bench.clock.now(), POLICY.skew)


async def test_few_late_tasks_are_recovered_and_counted_as_ever() -> None:
    """One below the number that makes a crowd."""
    bench = _bench("pay", tasks=POLICY.crowd.tasks - 1)
    assert _eased(await bench.sweep()) == (0, 0, 0, POLICY.crowd.tasks - 1)
    assert (_failure_counts(bench), bench.crowds.alerts) == ({1}, [])


async def test_crowd_before_a_silent_agent_waits_for_it_and_the_silence_is_its_alert() -> None:
    """A few try, in each sweep; nothing counts, and nobody is told twice."""
    bench = _bench("pay")
    assert _eased(await bench.sweep()) == (MANY - PROBES, 0, PROBES, 0)
    assert (_failure_counts(bench), _epochs(bench)) == ({0}, {FIRST, SECOND})
    assert [each.tasks for each in bench.silences.begun] == [MANY]
    assert bench.crowds.alerts == []


async def test_they_come_back_at_a_bounded_rate_when_it_replies_again() -> None:
    """In another epoch, since their Schedulers still hold them; and not all at once."""
    bench, tasks = _bench("pay", tasks=450), 450
    turns = [(await bench.sweep()).resumed]
    await _replied(bench)
    for _ in range(6):
        bench.clock.advance(30)
        turns.append((await bench.sweep()).resumed)
        for record in bench.store.records():
            if record.task.process_state is ProcessState.PENDING:
                bench.store.remove(record.order.task)  # another Scheduler takes it
    assert (turns[0], max(turns), sum(turns)) == (PROBES, 300, tasks), "ten a second, for thirty seconds"
    assert all(record.task.failure_count == 0 for record in bench.store.records())


async def test_those_that_have_their_turn_together_come_back_one_after_the_other() -> None:
    """At the rate that is set, ten a second here: a service that is back gets no burst with each sweep."""
    bench = _bench("send")
    _set_circuit(bench, BreakerState.CLOSED, after(30))
    assert (await bench.sweep()).resumed == MANY
    waits = [
        (each.task.not_before or bench.clock.now()) - bench.clock.now() for each in bench.store.records()
    ]
    assert sorted(waits) == [timedelta(seconds=number / 10) for number in range(MANY)]


async def test_agent_that_fell_silent_while_they_waited_is_silent_for_all_of_them() -> None:
    """Its last reply came when some had been asked for already: one alert, and the one that there is."""
    bench = _bench("pay")
    bench.times.kept[Occasion.REPLIED, PAY] = after(5)
    await bench.sweep()
    assert ([each.tasks for each in bench.silences.begun], bench.crowds.alerts) == ([MANY], [])


async def test_open_circuit_makes_a_crowd_with_one_alert() -> None:
    """However many sweeps find it, by whichever Supervisor."""
    bench = _bench("send")
    _set_circuit(bench, BreakerState.OPEN, after(3))
    assert _eased(await bench.sweep()) == (MANY - PROBES, 0, PROBES, 0)
    _run_schedulers(bench, "send")
    bench.clock.advance(100)
    await bench.rival("two").run()
    [alert] = bench.crowds.alerts
    assert (alert.behind, alert.cause, alert.tasks) == (f"Agent {SEND}", CrowdCause.CIRCUIT_OPEN, MANY)
    assert (alert.since, alert.blocked) == (after(WITHIN), True)
    assert (_failure_counts(bench), bench.silences.begun) == ({0}, [])


def _set_circuit(bench: Bench, state: BreakerState, since: datetime) -> None:
    record = BreakerRecord(service=SEND, state=state, since=since)
    bench.breakers.there[SEND] = StoredBreaker(record, "1")


async def test_crowd_that_nobody_has_claimed_is_asked_for_again_in_its_epoch() -> None:
    """The request is sent again for so many as the rate allows; the others stand in line for theirs."""
    bench = _bench(tasks=400)
    assert _eased(await bench.sweep()) == (100, 300, 0, 0), "ten a second, for thirty seconds"
    assert (_epochs(bench), _failure_counts(bench)) == ({FIRST}, {0})
    [alert] = bench.crowds.alerts
    assert (alert.behind, alert.cause, alert.blocked) == (SCHEDULERS, CrowdCause.NOT_PICKED_UP, False)
    bench.clock.advance(30)
    assert (await bench.sweep()).asked_again == 100


async def test_tasks_of_a_dead_host_are_recovered_as_ever() -> None:
    """Nothing explains them: their circuit is closed, and the process that called is gone."""
    bench = _bench("send")
    assert _eased(await bench.sweep()) == (0, 0, 0, MANY)
    assert _failure_counts(bench) == {1}


@pytest.mark.parametrize(("wanted", "is_crowd"), [(11, True), (10, False)])
async def test_reached_limit_of_a_service_makes_a_crowd(wanted: int, *, is_crowd: bool) -> None:
    """Its Agent replies, and nobody has failed: requests wait for places, of which all are in use."""
    bench = _bench("pay")
    await _replied(bench)
    later = bench.clock.now() + timedelta(seconds=20)
    share = Share(holder="one", places=10, wanted=wanted, in_flight=10, until=later)
    record = BreakerRecord(
        service=PAY, state=BreakerState.CLOSED, since=after(-600), at_once=10, shares=(share,)
    )
    bench.breakers.there[PAY] = StoredBreaker(record, "1")
    assert (await bench.sweep()).resumed == (MANY if is_crowd else 0)
    assert [each.cause for each in bench.crowds.alerts] == ([CrowdCause.LIMIT_REACHED] if is_crowd else [])
    assert _failure_counts(bench) == ({0} if is_crowd else {1})


@pytest.mark.parametrize(("waited", "is_crowd"), [(WITHIN, True), (1, False)])
async def test_long_queue_before_an_agent_that_replies_makes_a_crowd(
    waited: float, *, is_crowd: bool
) -> None:
    """It is looked at once in a sweep, and only if many wait."""
    bench = _bench("pay")
    await _replied(bench)
    bench.depths.oldest = {requests_queue(PAY): bench.clock.now() - timedelta(seconds=waited)}
    assert (await bench.sweep()).resumed == (MANY if is_crowd else 0)
    assert [each.cause for each in bench.crowds.alerts] == ([CrowdCause.QUEUE_LONG] if is_crowd else [])
    assert bench.depths.looks == 1


async def test_no_more_tasks_are_kept_in_mind_than_make_a_crowd() -> None:
    """However many are late before a queue that is short: a task can hold megabytes."""
    bench = _bench("pay")
    await _replied(bench)
    report = SweepReport()
    swept = await CrowdControl(bench.ports, POLICY, bench.crowds.alert).begin(None, report)
    acted = 0
    for number in range(MANY):
        stored = await bench.store.load(_named(number))
        assert stored is not None
        judged = judge(stored.record, bench.clock.now(), POLICY)
        assert isinstance(judged, Recovered)
        acted += await swept.sort_in(Late(stored, judged)) is not None
    assert len(swept.rest()) == MANY - acted < POLICY.crowd.tasks


async def test_tasks_whose_requests_were_never_taken_in_time_are_a_crowd() -> None:
    """Their Agent, which is busy, has said so of each dispatch: waiting for it counts nothing."""
    bench = Bench(deployed=(PAYING,))
    for number in range(MANY):
        bench.store.put(_never_taken(_named(number)))
    await _replied(bench)
    bench.clock.advance(200)
    assert _eased(await bench.sweep()) == (0, 0, MANY, 0)
    assert (_failure_counts(bench), _epochs(bench)) == ({0}, {SECOND})
    assert [each.cause for each in bench.crowds.alerts] == [CrowdCause.QUEUE_LONG]


def _never_taken(name: TaskId) -> TaskRecord:
    record = told(pending(PAYING, name), claimed(task=name))
    for dispatch in range(MOST_DISPATCHES):
        token = f"{dispatch:032}"
        begun = started("pay", task=name, complete_by=100, token=token, start_id=start_of(token))
        said = completed("pay", task=name, token=token)
        reply = StepNotTaken(
            epoch=FIRST,
            scheduler=said.scheduler,
            step=said.step,
            start_id=begun.start_id,
            token=token,
            start_by=said.start_by,
        )
        record = told(record, begun, reply)
    return record


async def test_last_ones_of_a_crowd_go_on_uncounted_once() -> None:
    """The crowd is forgotten by then; what is late after that is late by itself."""
    bench = _bench("pay")
    await bench.sweep()
    await bench.heartbeat.beat(Chore.CROWDS, {})
    for number in range(3, MANY):
        bench.store.remove(_named(number))
    await _replied(bench)
    bench.clock.advance(100)
    assert (await bench.sweep()).recovered == 0
    assert _failure_counts(bench) == {0}
    bench.clock.advance(100)
    assert ((await bench.sweep()).recovered, _failure_counts(bench)) == (3, {1})


async def test_what_was_extended_for_a_day_is_overdue_like_any_other() -> None:
    """The Agent never comes back: recovered, counted, and given up in the end."""
    bench = _bench("pay")
    day = Extension(until=after(WITHIN), seconds=86_400, times=99, behind=BY_AGENT, cause="no", at=START)
    record = bench.store.record(_named(7))
    bench.store.put(replace(record, task=replace(record.task, extended=day)))
    assert _eased(await bench.sweep()) == (MANY - 1 - PROBES, 0, PROBES, 1)
    assert bench.store.record(_named(7)).task.failure_count == 1


async def test_crowd_that_is_over_can_be_told_again() -> None:
    """Another day, another crowd."""
    bench = _bench()
    await bench.sweep()
    for number in range(MANY):
        bench.store.remove(_named(number))
    bench.clock.advance(400)
    await bench.sweep()
    assert read_crowds(bench.heartbeat.latest_of(Chore.CROWDS)) == ()
    assert len(bench.crowds.alerts) == 1


async def test_row_of_crowds_comes_back_and_a_damaged_one_is_forgotten() -> None:
    """At worst, an alert comes once more."""
    bench = _bench()
    await bench.sweep()
    assert bench.crowds.alerts == [*read_crowds(bench.heartbeat.latest_of(Chore.CROWDS))]
    assert read_crowds({"crowds": b"{"}) == read_crowds(None) == ()


async def test_signs_that_cannot_be_read_leave_late_tasks_to_the_next_sweep() -> None:
    """None is counted for want of knowledge."""
    bench = _bench()
    bench.breakers.failure = TransientError("no store")
    assert (await bench.sweep()).failures == MANY
    assert {each.task.process_state for each in bench.store.records()} == {ProcessState.PENDING}
    bench.breakers.failure = None
    bench.clock.advance(30)
    assert (await bench.sweep()).asked_again == MANY
