"""Tasks that are late together for one reason are no failures: more time, turns, one alert."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from functions.pattern.breaker import BreakerRecord, BreakerState
from functions.pattern.crowds import SCHEDULERS, CrowdCause
from functions.pattern.errors import TransientError
from functions.pattern.events import Event, Recovered, StepNotTaken
from functions.pattern.identity import Epoch, TaskId, start_of
from functions.pattern.known_crowds import Crowd
from functions.pattern.messages import requests_queue
from functions.pattern.records import Extension, TaskRecord
from functions.pattern.shared_rows import Chore, Occasion, StoredBreaker
from functions.pattern.shares import Share
from functions.pattern.silent_agents import SilentAgent, read_silences
from functions.pattern.states import ProcessState, Remedy, Way
from functions.pattern.step_records import MOST_DISPATCHES
from functions.pattern.supervision import judge
from functions.supervisor.crowds import CrowdControl, read_crowds, written_crowds
from functions.supervisor.sweeping import SweepReport
from functions.supervisor.swept_crowds import Late
from tests.fakes.clock import START
from tests.fakes.supervision import POLICY
from tests.fakes.tasks import FIRST, SECOND, after, claimed, completed, failed, pending, started, told
from tests.fakes.workflows import LINE, step, workflow
from tests.unit.supervisor.conftest import Bench

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


async def test_task_whose_extensions_are_used_up_is_recovered_and_counted() -> None:
    """The others of its crowd have more time."""
    bench = _bench("pay")
    spent = Extension(until=START, seconds=86_400, times=99, behind=BY_AGENT, cause="no reply", at=START)
    record = bench.store.record(_named(7))
    bench.store.put(replace(record, task=replace(record.task, extended=spent)))
    assert _eased(await bench.sweep()) == (MANY - 1 - PROBES, 0, PROBES, 1)


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


FEW = [TaskId(f"task-{number}") for number in range(3)]


async def test_few_tasks_that_nothing_explains_do_not_keep_a_crowd_alive() -> None:
    """Their Agent replies to others, and its queue is short: in minutes, they count as any."""
    bench = await _with_last_ones()
    assert await _sweeps_until_all_count(bench, replies=True) <= 6


async def test_task_that_no_scheduler_can_take_is_recovered_and_hides_no_other_crowd() -> None:
    """One of many was lost for good: it was asked for in its epoch for a day, and nobody heard of others."""
    bench, others = Bench(), [TaskId(f"other-{number}") for number in range(2 * POLICY.crowd.tasks)]
    stuck = TaskId("stuck")
    await _come_and_go(bench, [stuck, *others], but=stuck)
    assert len(bench.crowds.alerts) == 1
    hours = await _hours_until_it_counts(bench, stuck)
    assert 1 <= hours < 3
    await _come_and_go(bench, others)
    assert len(bench.crowds.alerts) == 2


async def test_row_with_times_without_a_zone_is_forgotten() -> None:
    """They can't be compared: no sweep would tell of a crowd any more."""
    bench = await _with_last_ones()
    row = bench.heartbeat.latest_of(Chore.CROWDS)["crowds"]
    assert len(read_crowds({"crowds": row})) == 1
    assert read_crowds({"crowds": row.replace(b'Z"', b'"')}) == ()


async def _come_and_go(bench: Bench, tasks: list[TaskId], but: TaskId | None = None) -> None:
    """Have tasks be late for their Schedulers in one sweep, and be done then."""
    for name in tasks:
        bench.store.put(told(pending(LINE, name), now=bench.clock.now()))
    bench.clock.advance(36)
    await bench.sweep()
    for name in set(tasks) - {but}:
        bench.store.remove(name)


async def _hours_until_it_counts(bench: Bench, task: TaskId) -> float:
    begun = bench.clock.now()
    while not bench.store.record(task).task.failure_count:
        bench.clock.advance(60)
        await bench.sweep()
        assert bench.clock.now() < begun + POLICY.crowd.longest
    return (bench.clock.now() - begun) / timedelta(hours=1)


async def _with_last_ones() -> Bench:
    bench = Bench(deployed=(PAYING,))
    for name in FEW:
        bench.store.put(pending(PAYING, name))
    crowd = Crowd(
        behind=BY_AGENT, cause=CrowdCause.NO_REPLY, since=START, tasks=60, found_at=START, until=after(120)
    )
    await bench.heartbeat.beat(Chore.CROWDS, written_crowds((crowd,)))
    return bench


async def _sweeps_until_all_count(bench: Bench, *, replies: bool = False) -> int:
    """Count the sweeps, a hundred at most, in each of which all are late."""
    for sweeps in range(100):
        if all(each.task.failure_count for each in bench.store.records()):
            return sweeps
        _run_schedulers(bench, "pay")
        bench.clock.advance(WITHIN + 6)
        if replies:
            await bench.times.note(Occasion.REPLIED, PAY, bench.clock.now(), timedelta())
        await bench.sweep()
    return 100


OF = workflow(step("pay", via=Way.QUEUE, undo=True), name="paying", remedy=Remedy.COMPENSATE)
AGENT = OF.steps[0].agent


def _waiting(tasks: int = 1) -> Bench:
    """Let tasks wait for one Agent, which was asked at once."""
    bench = Bench(deployed=(OF,))
    seconds = OF.steps[0].complete_within
    for number in range(tasks):
        task = TaskId(f"task-{number}")
        asked = started("pay", task=task, complete_by=seconds)
        bench.store.put(told(pending(OF, task), claimed(task=task), asked))
    bench.clock.advance(seconds + 6)
    return bench


async def _replied_at(bench: Bench, seconds: float) -> None:
    await bench.times.note(Occasion.REPLIED, AGENT, after(seconds), timedelta(0))


def _known(bench: Bench) -> tuple[SilentAgent, ...]:
    return read_silences(bench.heartbeat.latest_of(Chore.SILENCE))


async def test_one_alert_for_two_hundred_waiting_tasks_ends_with_the_first_reply() -> None:
    """However many sweeps there are meanwhile, by whichever Supervisor."""
    bench = _waiting(200)
    await _replied_at(bench, -60)
    await bench.sweep()
    silent = SilentAgent(agent=AGENT, since=after(-60), tasks=200, found_at=bench.clock.now())
    assert (bench.silences.begun, _known(bench)) == ([silent], (silent,))
    for number in range(3):
        bench.clock.advance(40)
        await bench.rival(f"rival-{number}").run()
    assert (bench.silences.begun, bench.silences.ended) == ([silent], [])
    await _replied_at(bench, 200)
    for _ in range(2):
        await bench.sweep()
    assert (*map(str, bench.silences.ended), _known(bench)) == (str(silent), ())


async def test_agent_that_never_replied_is_silent_too() -> None:
    """Its alert has no time."""
    bench = _waiting(2)
    await bench.sweep()
    [silent] = bench.silences.begun
    assert str(silent) == f"no reply of Agent {AGENT}; 2 tasks wait"
    assert str(SilentAgent(agent="payment", since=after(0), tasks=40, found_at=after(9))) == (
        "no reply of Agent payment since 2026-11-21 10:00 UTC; 40 tasks wait"
    )
    assert str(SilentAgent(agent="payment", since=None, tasks=1, found_at=after(9))).endswith(
        "; 1 task waits"
    )


@pytest.mark.parametrize(("asked_after", "is_silent"), [(-1, False), (9.9, False), (10, True)])
async def test_reply_that_was_not_kept_is_allowed_for(asked_after: float, *, is_silent: bool) -> None:
    """A later reply ends the silence; of the replies of ten seconds, the first one's time is kept."""
    bench = _waiting()
    await _replied_at(bench, -asked_after)
    assert (await bench.sweep()).overdue == 1
    assert bool(bench.silences.begun) is is_silent


async def test_silence_that_nobody_waits_for_is_forgotten() -> None:
    """Half a day after a task was last found to wait: its tasks are over, and no other asks its Agent."""
    bench, shown = _waiting(), list[int]()
    await bench.sweep()
    for hours in (11, 11, 2):
        if len(shown) == 1:
            bench.store.remove(TaskId("task-0"))
        bench.clock.advance(hours * 3_600)
        await bench.sweep()
        shown.append(len(_known(bench)))
    assert (shown, bench.silences.ended) == ([1, 1, 0], [])


async def test_undo_is_waited_for_as_well() -> None:
    """Its request was sent later than the step's."""
    bench = Bench(deployed=(OF,))
    seconds = OF.steps[0].complete_within
    undoing = told(pending(OF), claimed(), started("pay"), failed("pay"), claimed(SECOND))
    bench.store.put(told(undoing, started("pay", SECOND, complete_by=seconds)))
    bench.clock.advance(seconds + 6)
    await bench.sweep()
    assert [each.agent for each in bench.silences.begun] == [AGENT]


async def test_what_is_not_overdue_or_not_behind_a_queue_is_not_counted() -> None:
    """A claimed task whose Scheduler died asked nobody."""
    bench = Bench(deployed=(OF,))
    bench.store.put(told(pending(OF), claimed()))
    bench.clock.advance(36)
    report = await bench.sweep()
    assert (report.overdue, report.asked) == (1, {})


async def test_alert_that_fails_leaves_it_to_the_next_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweep goes on."""
    bench = _waiting()

    async def fail(_: Occasion) -> None:
        raise TransientError("no store")

    with monkeypatch.context() as patch:
        patch.setattr(bench.times, "latest", fail)
        assert (await bench.sweep()).failures == 1
    assert bench.silences.begun == []


def test_damaged_row_is_forgotten() -> None:
    """At worst, an alert comes once more."""
    assert read_silences({"agents": b"{"}) == ()
    naive = b'[{"agent": "pay", "since": null, "found_at": "2026-11-21T10:00:00", "tasks": 1}]'
    assert read_silences({"agents": naive}) == ()
    assert read_silences(None) == ()
