"""A run that lacks a definition parks its task; a request that cannot be sent holds it."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from functions.pattern.agent_messages import done
from functions.pattern.announcements import announcements
from functions.pattern.definition import Registry, RequestMaker, Step, Workflow
from functions.pattern.errors import PermanentError
from functions.pattern.identity import Epoch
from functions.pattern.records import TaskRecord
from functions.pattern.states import AnnouncementKind, Direction, ProcessState, Remedy, StepState, Way
from functions.pattern.transitions import apply
from functions.scheduler.takers import ReplyTaker
from tests.fakes.agents import raising
from tests.fakes.interventions import undo_request
from tests.fakes.ports import fake_ports
from tests.fakes.queues import RecordedRejections, RecordedSchedulers
from tests.fakes.runners import limits, make_runs
from tests.fakes.tasks import claimed, completed, failed, pending, started, told
from tests.fakes.times import RecordedRefusals
from tests.fakes.workflows import LINE, TASK, step, trip, workflow
from tests.unit.pattern.test_parking import release
from tests.unit.scheduler.bench import Bench, over

PICK = LINE.steps[0]
FORK = workflow(step("pick"), step("sort"), step("send", "pick"), name="line", resource="lines")


class Deployed(Bench):
    """A bench on which other definitions are deployed than the task was submitted with."""

    def __init__(self, of: Workflow, *deployed: Workflow) -> None:
        super().__init__(of)
        self.deploy(*deployed)

    def deploy(self, *deployed: Workflow) -> None:
        """Start the application anew, with these definitions."""
        agents = {each.agent: self.agents for of in deployed for each in of.steps}
        registry = Registry(deployed, {})
        self.runs = make_runs(self.store, agents, registry, self.clock, requests=self.requests)

    @property
    def is_parked(self) -> bool:
        """Look at the task."""
        return self.store.record(TASK).task.is_parked

    async def go_on(self, *deployed: Workflow) -> None:
        """Deploy what the task waits for, and let it go on as the Supervisor and its Scheduler do."""
        self.deploy(*deployed)
        record = self.store.record(TASK)
        await self.store.change(TASK, release(record))
        await self.run(epoch=record.task.epoch + 1)


@pytest.mark.parametrize(
    "deployed",
    [(), (replace(LINE, version=2),), (workflow(step("take"), name="line", resource="lines"),)],
    ids=["workflow gone", "version gone", "step renamed"],
)
async def test_task_that_nobody_can_begin_is_parked_at_once(deployed: tuple[Workflow, ...]) -> None:
    """Its Agents are not called; its Scheduler has nothing more to do with it; it goes on uncounted."""
    bench = Deployed(LINE, *deployed)
    assert await bench.run() == over("Pending")
    assert (bench.is_parked, bench.agents.calls) == (True, [])
    assert await bench.run(number=2) == over("parked")
    await bench.go_on(LINE)
    task = bench.store.record(TASK).task
    assert (bench.state, task.failure_count, task.epoch) == (ProcessState.PROCESSED, 0, Epoch(2))


async def test_what_can_be_done_is_done_first() -> None:
    """Steps side by side, and what follows from them; the outcome and the parking are one change."""
    bench = Deployed(FORK, replace(FORK, steps=(FORK.steps[0], FORK.steps[1])))
    assert await bench.run() == over("Pending")
    assert sorted(bench.agents.steps) == ["pick", "sort"]
    assert bench.states == {"pick": "Completed", "sort": "Completed", "send": "NotStarted"}
    await bench.go_on(FORK)
    assert (bench.state, sorted(bench.agents.steps)) == (ProcessState.PROCESSED, ["pick", "send", "sort"])


async def test_task_waits_for_its_reply_before_it_is_parked() -> None:
    """What is asked for over a queue still counts, whoever knows the workflow by then."""
    queued = workflow(step("pick", via=Way.QUEUE), step("send", "pick"), name="line", resource="lines")
    bench = Deployed(queued)
    asked = started("pick", token="t" * 16, complete_by=200)
    bench.store.put(told(pending(queued), claimed(start_by=200), asked))
    progress = await bench.run(number=2)
    assert (progress["over"], list(progress["awaited"])) == (False, ["pick"])
    bench.store.put(told(bench.store.record(TASK), completed("pick", token="t" * 16)))
    assert await bench.run(number=3) == over("Pending")
    assert (bench.is_parked, bench.step("pick").state) == (True, StepState.COMPLETED)


async def test_undo_waits_for_its_definition() -> None:
    """A removed step can still be undone, once it is there again."""
    of = trip(remedy=Remedy.COMPENSATE)
    bench = Deployed(of, of)
    bench.agents.behaviours["car"] = raising(PermanentError("no car"))
    await bench.run()
    bench.agents.behaviours.clear()
    bench.deploy(replace(of, steps=of.steps[:1]))
    await bench.run(epoch=2)
    assert (bench.is_parked, bench.states["car"]) == (True, "Failed")
    await bench.go_on(of)
    assert bench.state is ProcessState.COMPENSATED
    assert bench.agents.steps[-2:] == ["car undo", "flight undo"]


async def test_defect_under_another_shape_parks() -> None:
    """The function was changed with the steps: no outcome of the task's own."""

    def broken(*_: object) -> dict[str, object]:
        raise KeyError("bin")

    bench = Deployed(LINE, replace(LINE, steps=(replace(PICK, request=broken),)))
    assert await bench.run() == over("Pending")
    in_place = "version 1 of 'line' as it is deployed here is not the recorded one"
    assert bench.store.record(TASK).task.last_error == f"{in_place}; step 'pick': KeyError: 'bin'"
    await bench.go_on(LINE)
    assert bench.state is ProcessState.PROCESSED


ONCE = workflow(step("pay", idempotent=False, via=Way.QUEUE, complete_within=100), name="shop")


def _broken(_payload: object, _results: object) -> Any:
    raise KeyError("colour")


def _too_large(_payload: object, _results: object) -> Any:
    return {"text": "x" * 65_536}


async def _asked_and_redeployed(request: RequestMaker = _broken) -> Deployed:
    """Give a task whose request has left, and whose activity runs again with a defect in `request`."""
    bench = Deployed(ONCE, ONCE)
    await bench.run()
    bench.deploy(replace(ONCE, steps=(replace(ONCE.steps[0], request=request),)))
    await bench.run()
    return bench


@pytest.mark.parametrize("request_", [_broken, _too_large])
async def test_payment_stays_running_when_its_definition_breaks_after_it_was_sent(
    request_: RequestMaker,
) -> None:
    """Its outcome is unknown: an operator answers before anything is sent again."""
    bench = await _asked_and_redeployed(request_)
    assert len(bench.requests.sent) == 1
    assert bench.step("pay").state is StepState.RUNNING


async def test_reply_to_what_was_sent_before_the_defect_counts() -> None:
    """The Agent had the request, and answers in time."""
    bench = await _asked_and_redeployed()
    [(_, request)] = bench.requests.sent
    ports = fake_ports(store=bench.store, clock=bench.clock, rejected=RecordedRejections())
    reply = done(request, {"receipt": 1}).model_dump_json().encode()
    await ReplyTaker(ports, limits(), RecordedRefusals().alert).take("m", reply, RecordedSchedulers())
    assert bench.step("pay").state is StepState.COMPLETED


@pytest.mark.parametrize("via", [Way.ACTIVITY, Way.QUEUE])
async def test_defect_after_a_deployment_holds_nothing_that_was_under_way(via: Way) -> None:
    """A step is taken up again under another shape of the same version: the next epoch parks the task."""
    flow = workflow(step("pick", via=via, complete_within=100), step("send", "pick"), name="shop")
    bench = Deployed(flow, flow)
    token = "t" * 16 if via is Way.QUEUE else None
    bench.store.put(told(pending(flow), claimed(), started("pick", complete_by=100, token=token)))
    bench.deploy(replace(flow, steps=(replace(flow.steps[0], request=_broken),)))
    await bench.run()
    assert bench.state is not ProcessState.ERROR, bench.store.record(TASK).task.last_error


TOO_LONG = {"text": "x" * 65_536}

UNSENDABLE = [
    ({"amount": float("nan")}, "its request can't be written as JSON: request.amount is nan"),
    ({"tags": {"a"}}, "its request can't be written as JSON: request.tags is of type set"),
    ({"amount": Decimal(5)}, "its request can't be written as JSON: request.amount is of type Decimal"),
    ({1: "a"}, "its request can't be written as JSON: a field's name is of type int, not str"),
    (TOO_LONG, "its request has 65548 bytes; at most 65536 can be sent"),
    (None, "its request is of type NoneType, not a dict"),
    ([1], "its request is of type list, not a dict"),
    ("pay", "its request is of type str, not a dict"),
]


def _gives(made: Any) -> RequestMaker:
    return lambda _payload, _results: made


def _pay(made: Any, via: Way = Way.ACTIVITY) -> Step:
    return replace(step("pay", "pick", undo=True, via=via), request=_gives(made))


@pytest.mark.parametrize("via", [Way.ACTIVITY, Way.QUEUE])
@pytest.mark.parametrize(("made", "reason"), UNSENDABLE, ids=lambda each: type(each).__name__)
async def test_request_that_cannot_be_sent_holds_the_task_at_once(made: Any, reason: str, via: Way) -> None:
    """Nothing was sent, so nothing is undone, whatever the remedy; operators are alerted with the cause."""
    of = workflow(step("pick", undo=True), _pay(made, via), remedy=Remedy.COMPENSATE)
    bench = Bench(of)
    assert await bench.run() == over("Error")
    assert (bench.agents.steps, bench.requests.sent) == (["pick"], [])
    assert (bench.step("pay").state, bench.step("pay").error) == (StepState.FAILED, reason)
    record = bench.store.record(TASK)
    assert record.task.last_error == f"pay: {reason}"
    before = told(pending(of), claimed(), started("pick"), completed("pick"))
    [alert] = announcements(before, record)
    assert (alert.kind, alert.reason) == (AnnouncementKind.ALERT, f"pay: {reason}")


async def test_step_whose_request_was_never_sent_is_not_undone_either() -> None:
    """An operator who gives up has undone what was done, and nothing more."""
    bench = Bench(workflow(step("pick", undo=True), _pay(None), remedy=Remedy.COMPENSATE))
    await bench.run()
    undoing = apply(bench.store.record(TASK), undo_request(), bench.clock.now())
    assert isinstance(undoing, TaskRecord)
    bench.store.put(undoing)
    assert await bench.run(epoch=2) == over("Compensated")
    assert bench.agents.steps == ["pick", "pick undo"]


@pytest.mark.parametrize("via", [Way.ACTIVITY, Way.QUEUE])
async def test_under_another_shape_it_parks(via: Way) -> None:
    """The definition was changed under the task, which waits for its own."""
    sound = workflow(step("pick"), _pay({}, via))
    bench = Deployed(sound, replace(sound, steps=(step("pick"), _pay(None, via), step("send"))))
    assert await bench.run() == over("Pending")
    assert bench.is_parked
    assert bench.store.record(TASK).task.last_error == (
        "version 1 of 'parcels' as it is deployed here is not the recorded one;"
        " step 'pay': its request is of type NoneType, not a dict"
    )


@pytest.mark.parametrize("via", [Way.ACTIVITY, Way.QUEUE])
@pytest.mark.parametrize(("made", "reason"), UNSENDABLE, ids=lambda each: type(each).__name__)
async def test_undo_that_cannot_be_sent_is_held_as_a_refused_undo_is(
    made: Any, reason: str, via: Way
) -> None:
    """What is left undone stays to be undone."""
    pick = replace(step("pick", undo=True, via=via), undo_request=_gives(made))
    of = workflow(pick, step("pay"), remedy=Remedy.COMPENSATE)
    bench = Bench(of)
    done = (started("pick"), completed("pick"))
    bench.store.put(told(pending(of), claimed(), *done, started("pay"), failed("pay")))
    assert bench.store.record(TASK).task.direction is Direction.UNDO
    assert await bench.run(epoch=2) == over("Error")
    assert (bench.agents.calls, bench.requests.sent) == ([], [])
    assert bench.store.record(TASK).task.last_error == f"undo of pick: {reason}"
    assert bench.step("pick").needs_undo
