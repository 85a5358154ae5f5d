"""Nobody serves an Agent's queue: one alert for however many tasks wait, until its first reply."""

from __future__ import annotations

from datetime import timedelta

import pytest

from functions.pattern.errors import TransientError
from functions.pattern.identity import TaskId
from functions.pattern.shared_rows import Chore, Occasion
from functions.pattern.silent_agents import SilentAgent, read_silences
from functions.pattern.states import Remedy, Way
from tests.fakes.tasks import SECOND, after, claimed, failed, pending, started, told
from tests.fakes.workflows import step, workflow
from tests.unit.supervisor.bench import Bench

OF = workflow(step("pay", via=Way.QUEUE, undo=True), name="paying", remedy=Remedy.COMPENSATE)
AGENT = OF.steps[0].agent


def _bench(tasks: int = 1) -> Bench:
    """Let tasks wait for one Agent, which was asked at once."""
    bench = Bench(deployed=(OF,))
    seconds = OF.steps[0].complete_within
    for number in range(tasks):
        task = TaskId(f"task-{number}")
        asked = started("pay", task=task, complete_by=seconds)
        bench.store.put(told(pending(OF, task), claimed(task=task), asked))
    bench.clock.advance(seconds + 6)
    return bench


async def _replied(bench: Bench, seconds: float) -> None:
    await bench.times.note(Occasion.REPLIED, AGENT, after(seconds), timedelta(0))


def _known(bench: Bench) -> tuple[SilentAgent, ...]:
    return read_silences(bench.heartbeat.latest_of(Chore.SILENCE))


async def test_one_alert_for_two_hundred_waiting_tasks_ends_with_the_first_reply() -> None:
    """However many sweeps there are meanwhile, by whichever Supervisor."""
    bench = _bench(200)
    await _replied(bench, -60)
    await bench.sweep()
    silent = SilentAgent(agent=AGENT, since=after(-60), tasks=200, found_at=bench.clock.now())
    assert (bench.silences.begun, _known(bench)) == ([silent], (silent,))
    for number in range(3):
        bench.clock.advance(40)
        await bench.rival(f"rival-{number}").run()
    assert (bench.silences.begun, bench.silences.ended) == ([silent], [])
    await _replied(bench, 200)
    for _ in range(2):
        await bench.sweep()
    assert (*map(str, bench.silences.ended), _known(bench)) == (str(silent), ())


async def test_agent_that_never_replied_is_silent_too() -> None:
    """Its alert has no time."""
    bench = _bench(2)
    await bench.sweep()
    [silent] = bench.silences.begun
    assert str(silent) == f"no reply of Agent {AGENT}; 2 tasks wait"
    assert str(SilentAgent(agent="payment", since=after(0), tasks=40, found_at=after(9))) == (
        "no reply of Agent payment since 2026-11-21 10:00 UTC; 40 tasks wait"
    )
    assert str(SilentAgent(agent="payment", since=None, tasks=1, found_at=after(9))).endswith(
        "; 1 task waits"
    )


async def test_agent_that_replied_since_is_not_silent() -> None:
    """It let one task's time pass, as it does when its service fails."""
    bench = _bench()
    await _replied(bench, 1)
    report = await bench.sweep()
    assert (report.overdue, bench.silences.begun) == (1, [])


@pytest.mark.parametrize(("asked_after", "is_silent"), [(9.9, False), (10, True)])
async def test_reply_that_was_not_kept_is_allowed_for(asked_after: float, *, is_silent: bool) -> None:
    """Of the replies of ten seconds, the first one's time is kept."""
    bench = _bench()
    await _replied(bench, -asked_after)
    await bench.sweep()
    assert bool(bench.silences.begun) is is_silent


async def test_silence_that_nobody_waits_for_is_forgotten() -> None:
    """Half a day after a task was last found to wait: its tasks are over, and no other asks its Agent."""
    bench, shown = _bench(), list[int]()
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
    bench = _bench()

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
