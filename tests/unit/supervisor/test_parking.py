"""Tasks that lack their version are parked, uncounted, and released within a sweep."""

from __future__ import annotations

from dataclasses import replace
from itertools import count, pairwise

import pytest
from pydantic import BaseModel

from functions.pattern.announcements import announcements
from functions.pattern.definition import Workflow
from functions.pattern.errors import TransientError
from functions.pattern.events import Event, Parked, Released
from functions.pattern.identity import StepName, TaskId, scheduler_id
from functions.pattern.readiness import NotDeployedError, lack_of
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.states import AlertCause, Direction, ProcessState, Remedy, StepState
from functions.supervisor import releases
from tests.fakes.interventions import park_request
from tests.fakes.supervision import POLICY
from tests.fakes.tasks import FIRST, SECOND, after, claimed, pending, started, told
from tests.fakes.workflows import DIAMOND, LINE, TASK, step, workflow
from tests.unit.supervisor.conftest import Bench

FLOW = workflow(
    step("pick", undo=True),
    step("send", "pick", undo=True),
    name="shop",
    resource="shops",
    remedy=Remedy.COMPENSATE,
)
NEWER = replace(FLOW, version=2)
SHORTER = replace(FLOW, steps=(step("send", undo=True),))


class Stricter(BaseModel):
    """It asks for what no recorded payload has."""

    colour: str


#: More recoveries than the policy of the tests has.
USED_UP = 9


def _recovered_often(record: TaskRecord) -> TaskRecord:
    return replace(record, task=replace(record.task, failure_count=USED_UP))


@pytest.mark.parametrize(
    "events", [(), (claimed(),), (claimed(), started("pick"))], ids=["new", "held", "run"]
)
async def test_deployment_recovers_and_undoes_nothing(events: tuple[Event, ...]) -> None:
    """Its recoveries are used up, and its remedy is undo; it waits for its version, and then goes on."""
    bench = Bench(deployed=(NEWER,))
    bench.store.put(_recovered_often(told(pending(FLOW), *events)))
    bench.clock.advance(60)
    figures = await bench.sweep()
    task = bench.store.record(TASK).task
    assert (figures.parked, figures.recovered, figures.given_up) == (1, 0, 0)
    assert (task.is_parked, task.epoch, task.failure_count) == (True, FIRST, USED_UP)
    assert (task.direction, task.last_error) == (Direction.DO, "version 1 of 'shop' is not deployed here")
    bench.clock.advance(86_400)
    assert (await bench.sweep()).released == 0

    back = bench.rival("two", NEWER, FLOW)
    assert (await back.run()).released == 1
    task = bench.store.record(TASK).task
    assert (task.is_parked, task.epoch, task.failure_count) == (False, SECOND, USED_UP)


@pytest.mark.parametrize(
    "deployed",
    [(), (NEWER,), (replace(FLOW, payload=Stricter),), (SHORTER,)],
    ids=["nothing", "newer", "stricter", "shorter"],
)
async def test_task_that_nobody_has_claimed_costs_no_recovery(deployed: tuple[Workflow, ...]) -> None:
    """It was recorded, and the workflow went away before its Scheduler began: which comes too late then."""
    bench = Bench(deployed=deployed)
    bench.store.put(pending(FLOW))
    bench.clock.advance(POLICY.start_within.total_seconds() + 60)
    figures = await bench.sweep()
    record = bench.store.record(TASK)
    assert (figures.parked, figures.recovered) == (1, 0)
    assert (record.task.is_parked, record.task.epoch, record.task.failure_count) == (True, FIRST, 0)
    assert record.history == ()
    assert await bench.store.change(TASK, claimed()) == Refused(RefusalReason.PARKED)


NEWER_LINE = replace(LINE, version=2)
SHORTER_LINE = workflow(LINE.steps[0], name="line", resource="lines")


async def test_what_is_in_question_is_held() -> None:
    """No deployment tells what came of it; the other step's does not matter."""
    once = workflow(step("pick", idempotent=False), step("send"), name="shop", resource="shops")
    bench = Bench(deployed=())
    bench.store.put(told(pending(once), claimed(), started("pick"), started("send")))
    bench.clock.advance(60)
    assert (await bench.sweep()).given_up == 1
    assert bench.store.record(TASK).task.process_state is ProcessState.ERROR


class Coloured(BaseModel):
    """It asks for what no recorded payload has."""

    colour: str


def _parked(name: str = TASK, version: int = 1) -> TaskRecord:
    task = TaskId(name)
    record = told(pending(replace(LINE, version=version), task), claimed(task=task))
    return told(record, Parked(epoch=FIRST, scheduler=scheduler_id(task, FIRST), reason="not here"))


async def test_parked_task_goes_on_when_its_version_is_here() -> None:
    """In the next epoch, as no recovery."""
    bench = Bench(deployed=(NEWER_LINE, LINE))
    bench.store.put(_parked())
    figures = await bench.sweep()
    task = bench.store.record(TASK).task
    assert (figures.released, figures.recovered, figures.overdue) == (1, 0, 0)
    assert (task.process_state, task.epoch, task.failure_count) == (ProcessState.PENDING, SECOND, 0)
    assert (await bench.sweep()).released == 0


@pytest.mark.parametrize("deployed", [(), (NEWER_LINE,), (DIAMOND,)], ids=["nothing", "newer", "another"])
async def test_task_of_another_version_is_not_even_read(
    deployed: tuple[Workflow, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often the Supervisor sweeps, and however long it takes: nothing is written, nothing counted."""
    bench = Bench(deployed=deployed)
    bench.store.put(_parked())

    async def read(_task: TaskId) -> None:
        raise AssertionError("a parked task was read")

    monkeypatch.setattr(bench.store, "load", read)
    for _ in range(5):
        bench.clock.advance(86_400)
        assert (await bench.sweep()).released == 0
    assert bench.store.writes == 1


async def test_what_operators_parked_costs_a_sweep_no_more_reads_than_nothing() -> None:
    """It is released by no deployment, however many versions are here."""
    bench = Bench(deployed=(NEWER_LINE, LINE, DIAMOND))
    await bench.sweep()
    of_nothing = bench.index.requests
    for number in range(20):
        task = TaskId(f"t-{number}")
        bench.store.put(told(pending(LINE, task), claimed(task=task), park_request()))
    assert (await bench.sweep()).released == 0
    assert bench.index.requests == 2 * of_nothing


async def test_task_that_waits_for_a_deployment_is_found_beside_those_that_operators_parked() -> None:
    """Whatever their ids."""
    bench = Bench(deployed=(LINE,))
    bench.store.put(told(pending(LINE, TaskId("a")), park_request()))
    bench.store.put(_parked("z"))
    bench.store.put(_parked("b"))
    assert (await bench.sweep()).released == 2


async def test_parked_task_says_what_it_lacks_by_now() -> None:
    """Its version is here, and then another payload model: changed once, not in each sweep."""
    bench = Bench(deployed=(SHORTER_LINE,))
    pick = replace(_parked().step(StepName("pick")), state=StepState.COMPLETED, result=b"{}")
    bench.store.put(_parked().with_step(pick))
    reasons: list[tuple[str | None, int]] = []
    for deployed in (SHORTER_LINE, replace(LINE, payload=Coloured)):
        for _ in range(2):
            assert (await bench.rival("now", deployed).run()).released == 0
            reasons.append((bench.store.record(TASK).task.last_error, bench.store.writes))
    step = "step 'send' of version 1 of 'line' is not deployed here"
    payload = "the payload does not fit version 1 of 'line' as it is deployed here: colour: Field required"
    assert reasons == [(step, 2), (step, 2), (payload, 3), (payload, 3)]
    assert (await bench.rival("at last", LINE).run()).released == 1


async def test_defect_that_words_itself_anew_each_time_is_told_once() -> None:
    """An address, a time, a number in an exception's text is no other reason: no write, and no alert."""
    said = count()

    def broken(*_: object) -> dict[str, object]:
        raise RuntimeError(f"no connection {next(said)}")

    bench = Bench(deployed=(replace(SHORTER_LINE, steps=(replace(LINE.steps[0], request=broken),)),))
    bench.store.put(_parked())
    await bench.sweep()
    told = bench.store.record(TASK)
    assert "RuntimeError" in (told.task.last_error or "")
    for _ in range(3):
        bench.clock.advance(60)
        await bench.sweep()
    assert next(said) > 2
    assert bench.store.record(TASK) is told


async def test_what_cannot_go_on_does_not_hide_what_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """One page of it is looked at in each sweep, and the next sweep goes on behind it."""
    monkeypatch.setattr(releases, "_PAGE", 2)
    bench = Bench(shards=1, deployed=(SHORTER_LINE,))
    for number in range(6):
        record = _parked(f"task-{number}")
        done = replace(record.step(StepName("pick")), state=StepState.COMPLETED, result=b"{}")
        bench.store.put(record.with_step(done) if number < 4 else record)
    assert [(await bench.sweep()).released for _ in range(4)] == [0, 0, 2, 0]


async def test_many_tasks_go_on_in_one_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Page by page, as long as they can."""
    monkeypatch.setattr(releases, "_PAGE", 3)
    bench = Bench()
    for number in range(20):
        bench.store.put(_parked(f"task-{number}"))
    assert (await bench.sweep()).released == 20


async def test_task_that_two_kinds_of_hosts_pass_to_each_other_is_released_ever_more_seldom() -> None:
    """The Supervisor's host has its version, the one that takes it up lacks it; for an hour, then no more."""
    bench = Bench()
    bench.store.put(_parked())
    released: list[int] = []
    for second in range(0, 3600, 5):
        if (await bench.sweep()).released:
            released.append(second)
            epoch = bench.store.record(TASK).task.epoch
            scheduler = scheduler_id(TASK, epoch)
            await bench.store.change(TASK, claimed(epoch))
            await bench.store.change(TASK, Parked(epoch=epoch, scheduler=scheduler, reason="not here"))
        bench.clock.advance(5)
    pauses = [later - earlier for earlier, later in pairwise(released)]
    assert pauses[:6] == [10, 20, 40, 80, 160, 300]
    assert set(pauses[6:]) == {300}
    bench.clock.advance(300)
    assert (await bench.sweep()).released == 1


async def test_task_that_cannot_be_released_now_is_released_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store fails for one of them; the others go on."""
    bench = Bench()
    for name in ("task-1", "task-2"):
        bench.store.put(_parked(name))
    load = bench.store.load

    async def fail_once(_task: TaskId) -> object:
        monkeypatch.undo()
        raise TransientError("503")

    monkeypatch.setattr(bench.store, "load", fail_once)
    first = await bench.sweep()
    assert (first.released, first.failures) == (1, 1)
    assert bench.store.load == load
    assert (await bench.sweep()).released == 1


async def test_task_that_is_released_in_vain_is_told_once_whatever_the_exception_says() -> None:
    """The Supervisor's host can go on with it; the one that takes it up can't, in other words each time."""
    record = told(pending(LINE), claimed())
    alerts = []
    for number in range(1, 13):
        epoch = record.task.epoch
        lack = NotDeployedError(f"the payload does not fit: KeyError: {number}", KeyError(number))
        reason, lasting = str(lack), lack_of(lack).lasting
        scheduler = scheduler_id(TASK, epoch)
        parked = told(record, Parked(epoch=epoch, scheduler=scheduler, reason=reason, lasting=lasting))
        alerts += [each for each in announcements(record, parked) if each.cause is AlertCause.PARKED]
        released = told(parked, Released(epoch=epoch, start_by=after(30)), now=after(number))
        record = told(released, claimed(released.task.epoch), now=after(number))
    assert len(alerts) == 1
