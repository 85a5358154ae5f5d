"""Alerts of silent Agents that are not silent."""

from __future__ import annotations

import json
from dataclasses import replace

from functions.pattern.identity import StepName, TaskId
from functions.pattern.shared_rows import Chore
from functions.pattern.silent_agents import read_silences
from functions.pattern.states import Outcome, Remedy, Way
from functions.scheduler.takers import ReplyTaker
from tests.fakes.queues import RecordedRejections, RecordedSchedulers
from tests.fakes.runners import limits
from tests.fakes.tasks import after, claimed, pending, started, told
from tests.fakes.times import RecordedRefusals
from tests.fakes.workflows import step, workflow
from tests.unit.supervisor.bench import Bench

OF = workflow(step("pay", via=Way.QUEUE, undo=True), name="paying", remedy=Remedy.COMPENSATE)
SECONDS = OF.steps[0].complete_within
TOKEN = "token-of-this-request"


def _ask(bench: Bench, task: str) -> None:
    """Ask the Agent now."""
    at = (bench.clock.now() - after(0)).total_seconds()
    asked = started("pay", task=TaskId(task), token=f"{TOKEN}-{task}", complete_by=at + SECONDS)
    bench.store.put(told(pending(OF, TaskId(task)), claimed(task=TaskId(task)), asked))


async def _reply(taker: ReplyTaker, task: str, **changes: object) -> None:
    right = {
        "schema_version": 2,
        "task_id": task,
        "step": StepName("pay"),
        "epoch": 1,
        "token": f"{TOKEN}-{task}",
        "outcome": Outcome.COMPLETED,
    }
    await taker.take("m", json.dumps(right | changes).encode(), RecordedSchedulers())


async def test_agent_that_answered_a_neighbour_is_not_silent() -> None:
    """Issue, point 4: the overdue tasks "of an Agent that answered none since their requests were sent".

    It replies at 0 s and at 3 s; the second is not noted, since the first is less than ten seconds old. The task
    that was asked for at 1 s is overdue (its service timed out: rule 3 has the Agent be silent).
    """
    bench = Bench(deployed=(OF,))
    taker = ReplyTaker(bench.ports, limits(), RecordedRefusals().alert)
    _ask(bench, "first")
    await _reply(taker, "first")
    bench.clock.advance(1)
    _ask(bench, "timed-out")
    _ask(bench, "third")
    bench.clock.advance(2)
    await _reply(taker, "third")
    bench.clock.advance(SECONDS + 6)
    await bench.sweep()
    assert [str(each) for each in bench.silences.begun] == []


async def test_agent_whose_replies_are_refused_is_not_silent() -> None:
    """Issue, point 3: "so a misspelt field looks like a silent Agent". It still does."""
    bench = Bench(deployed=(OF,))
    refusals = RecordedRefusals()
    ports = replace(bench.ports, rejected=RecordedRejections())
    taker = ReplyTaker(ports, limits(), refusals.alert)
    for number in range(5):
        _ask(bench, f"task-{number}")
    bench.clock.advance(2)
    for number in range(5):
        await _reply(taker, f"task-{number}", reslut={"a": 1})
    assert len(refusals.alerts) == 1
    bench.clock.advance(SECONDS + 6)
    await bench.sweep()
    assert [str(each) for each in bench.silences.begun] == []


async def test_silence_that_nobody_waits_for_is_not_shown_for_ever() -> None:
    """Its tasks are all over, and its Agent is asked nothing more: 3 tasks do not wait."""
    bench = Bench(deployed=(OF,))
    for number in range(3):
        _ask(bench, f"task-{number}")
    bench.clock.advance(SECONDS + 6)
    await bench.sweep()
    assert len(bench.silences.begun) == 1
    for number in range(3):
        del bench.store._tasks[TaskId(f"task-{number}")]  # noqa: SLF001 - past its retention
    for _ in range(20):
        bench.clock.advance(3_600)
        await bench.sweep()
    assert [each.tasks for each in read_silences(bench.heartbeat.latest_of(Chore.SILENCE)) if each.tasks] == []
