"""A request for a Scheduler starts it, and says which replies it may have to take."""

from __future__ import annotations

from dataclasses import replace

from functions.pattern.events import StepNotTaken
from functions.pattern.identity import Parent, StartId, StepName, TaskId
from functions.pattern.messages import SchedulerRequest
from functions.pattern.states import Remedy, StepState, Way
from functions.pattern.transitions import admit
from functions.pattern.wait_events import EventReceived, WaitsEnded
from functions.scheduler.takers import RequestTaker
from tests.fakes.clock import FakeClock
from tests.fakes.interventions import cancellation, recovered
from tests.fakes.ports import fake_ports
from tests.fakes.queues import RecordedRejections, RecordedSchedulers
from tests.fakes.runners import limits
from tests.fakes.store import MemoryStateStore
from tests.fakes.tasks import FIRST, SECOND, after, claimed, pending, started, told
from tests.fakes.workflows import BIRTH, LINE, TASK, awaiting, nested, step, workflow
from tests.unit.scheduler.bench import going_on

CAR = StepName("car")
QUEUED = workflow(step("pick", via=Way.QUEUE), step("send", "pick"))


class Bench:
    """A taker of requests, and a recovered task with a step behind a queue."""

    def __init__(self) -> None:
        self.store = MemoryStateStore(FakeClock())
        self.store.put(recovered(pending(QUEUED)))
        self.schedulers = RecordedSchedulers()
        self.rejections = RecordedRejections()
        self._taker = RequestTaker(fake_ports(store=self.store, rejected=self.rejections), limits())

    async def take(self, body: bytes) -> None:
        """Take one message."""
        await self._taker.take("m-1", body, self.schedulers)


async def test_request_starts_its_scheduler_without_a_read() -> None:
    """The message names the steps."""
    bench = Bench()
    bench.store.failure = AssertionError("it reads")
    await bench.take(
        SchedulerRequest(task_id=TASK, epoch=SECOND, queued=("pick",)).model_dump_json().encode()
    )
    assert (bench.schedulers.started, bench.schedulers.queued) == ([(TASK, SECOND)], [("pick",)])
    # Request names the run.
    bench = Bench()
    request = SchedulerRequest(task_id=TASK, epoch=SECOND, queued=(), run=3)
    await bench.take(request.model_dump_json().encode())
    assert (bench.schedulers.started, bench.schedulers.runs) == ([(TASK, SECOND)], [3])


async def test_message_that_is_no_request_is_kept_aside() -> None:
    """It is no reason to lose any other."""
    bench = Bench()
    await bench.take(b"{}")
    [rejection] = bench.rejections.all
    assert (rejection.queue, rejection.reason) == (
        "scheduler-requests",
        "task_id: Field required; epoch: Field required",
    )


async def test_scheduler_that_holds_the_task_is_woken_by_an_event() -> None:
    """It hears that something can start; of a task that is gone, nobody does."""
    bench = Bench()
    waiting = told(
        pending(workflow(awaiting("approve"), step("other"), step("send", "approve"))),
        claimed(),
        started("approve"),
        started("other"),
    )
    event = EventReceived(step=StepName("approve"), body=b"{}", who="anna", start_by=after(30))
    bench.store.put(told(waiting, event))
    for task in (TASK, TaskId("gone")):
        request = SchedulerRequest(task_id=task, epoch=FIRST, wake=StepName("approve"))
        await bench.take(request.model_dump_json().encode())
    assert bench.schedulers.woken == [(TASK, FIRST, "approve", going_on(runs=1))]
    assert bench.schedulers.started == []
    # Scheduler lets go when only a long wait is left.
    bench = Bench()
    waiting = told(
        pending(workflow(awaiting("approve"), nested("car"))),
        claimed(),
        started("approve", complete_by=30),
        started("car", complete_by=3_600),
    )
    event = EventReceived(step=StepName("approve"), body=b"{}", who="anna", start_by=after(30))
    bench.store.put(told(waiting, event))
    await bench.take(
        SchedulerRequest(task_id=TASK, epoch=FIRST, wake=StepName("approve")).model_dump_json().encode()
    )
    assert [woken[3]["runs"] for woken in bench.schedulers.woken] == [1]


async def test_scheduler_is_woken_by_the_dispatch_that_it_waits_for() -> None:
    """The first request was not taken, which it has heard of; of the second one, no reply came in time."""
    bench = Bench()
    mail = step("mail", via=Way.QUEUE, on_failure=Remedy.CONTINUE)
    again = told(
        pending(workflow(mail, step("other"), step("send", "mail"))),
        claimed(),
        started("other", complete_by=3_600),
        started("mail", token="1" * 32, start_id=StartId("s-1")),
        StepNotTaken(
            epoch=FIRST,
            scheduler=claimed().scheduler,
            step=StepName("mail"),
            start_by=after(30),
            start_id=StartId("s-1"),
            token="1" * 32,
        ),
        started("mail", token="2" * 32, start_id=StartId("s-2"), complete_by=60),
    )
    bench.store.put(told(again, WaitsEnded(epoch=FIRST, scheduler=None, start_by=after(90)), now=after(60)))
    request = SchedulerRequest(task_id=TASK, epoch=FIRST, wake=StepName("mail"))
    await bench.take(request.model_dump_json().encode())
    assert bench.schedulers.woken == [(TASK, FIRST, "mail", going_on(runs=1))]
    assert bench.schedulers.dispatches == [2]


async def test_parent_hears_of_the_end_of_its_child() -> None:
    """Once; of what has gone on since, is gone, or is nobody's child, it hears nothing."""
    bench = Bench()
    parent = told(pending(workflow(nested("car"))), claimed(), started("car", complete_by=3_600))
    bench.store.put(parent)
    child = replace(pending(LINE, parent.child(CAR)).order, parent=Parent(task=TASK, birth=BIRTH, step=CAR))
    record = admit(child, pick_up_by=after(30))
    ended = SchedulerRequest(task_id=child.task, epoch=FIRST, ended=True).model_dump_json().encode()
    for stored in (record, told(record, cancellation(by_operator=True))):
        assert bench.store.record(TASK) == parent
        bench.store.put(stored)
        await bench.take(ended)
    assert bench.store.record(TASK).step(CAR).state is StepState.FAILED
    for task in (TASK, "gone"):
        await bench.take(SchedulerRequest(task_id=task, epoch=FIRST, ended=True).model_dump_json().encode())
    bench.store.remove(TASK)
    await bench.take(ended)
    assert (bench.schedulers.started, bench.schedulers.woken) == ([], [])
