"""The orchestrator, replayed by the real SDK: its activity, its client, and the requests that start it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from functions.pattern.errors import TransientError
from functions.pattern.events import StepNotTaken
from functions.pattern.identity import Epoch, Parent, StartId, StepName, TaskId
from functions.pattern.messages import SchedulerRequest
from functions.pattern.states import Remedy, StepState, Way
from functions.pattern.transitions import admit
from functions.pattern.wait_events import EventReceived, WaitsEnded
from functions.scheduler.blueprint import scheduler_blueprint
from functions.scheduler.orchestrator import DurableSchedulers
from functions.scheduler.progress import Progress
from functions.scheduler.takers import ReplyTaker, RequestTaker
from tests.fakes.clock import FakeClock
from tests.fakes.interventions import cancellation, recovered
from tests.fakes.ports import fake_ports
from tests.fakes.queues import RecordedRejections, RecordedSchedulers
from tests.fakes.runners import limits
from tests.fakes.store import MemoryStateStore
from tests.fakes.tasks import FIRST, SECOND, after, claimed, pending, started, told
from tests.fakes.times import RecordedRefusals
from tests.fakes.workflows import BIRTH, LINE, TASK, awaiting, nested, step, workflow
from tests.unit.scheduler.bench import Bench, going_on
from tests.unit.scheduler.replay import Instance

#: The SDK advises expected types once in a process; ours are plain JSON, for which it has none to name.
pytestmark = pytest.mark.filterwarnings("ignore:azure.functions df_loads was called:DeprecationWarning")

OVER = {"state": "Processed", "over": True}
IN_30_SECONDS, IN_A_MINUTE = "2026-11-21T10:00:30+00:00", "2026-11-21T10:01:00+00:00"


@pytest.fixture
def instance() -> Instance:
    """Make an instance without queue steps that has not begun."""
    return Instance()


def test_usual_task_is_one_run_and_eight_events(instance: Instance) -> None:
    """However many steps it has; the run gets the attempt that the instance was started with."""
    assert instance.begin() == [1]
    assert instance.inputs == [{"task": TASK, "epoch": 1, "number": 1, "share": False}]
    assert instance.end(1, **OVER) == []
    assert (instance.output, instance.events) == ("Processed", 8)


def test_run_that_needs_others_gets_them_at_once(instance: Instance) -> None:
    """Each has a number of its own, and its share."""
    instance.begin()
    assert instance.end(1, runs=3) == [2, 3, 4]
    assert [each["share"] for each in instance.inputs] == [False, True, True, True]
    instance.end_together({3: {}, 2: {"runs": 1}})
    assert instance.inputs[-1]["number"] == 5
    instance.end(4)
    assert instance.output is None
    instance.end(5, **OVER)
    assert instance.output == "Processed"


def test_task_that_is_over_has_no_further_runs(instance: Instance) -> None:
    """But those under way are waited for."""
    instance.begin()
    instance.end(1, runs=2)
    instance.end(2, **OVER)
    assert instance.output is None
    assert instance.end(3, runs=1) == []
    assert instance.output == "Processing"


def test_run_that_the_host_ends_is_left_to_the_supervisor(instance: Instance) -> None:
    """It comes back as an exception, not as a progress."""
    instance.begin()
    assert instance.fail(1) == []
    assert instance.output == "unknown"


def test_run_that_the_host_ends_does_not_end_the_others(instance: Instance) -> None:
    """What another run knows holds."""
    instance.begin()
    instance.end(1, runs=2)
    instance.fail(2)
    assert instance.output is None
    assert instance.end(3, runs=1) == [4]


@pytest.fixture
def requesting() -> Instance:
    """Make an instance of which one step is requested over a queue, and another may be."""
    instance = Instance(queued=("pay", "print"))
    instance.begin()
    instance.end(1, awaited={"pay": IN_30_SECONDS})
    return instance


def _times(instance: Instance) -> list[str]:
    """Give the times of the timers that are not cancelled."""
    return [timer["fireAt"][:19] for timer in instance.timers if not timer["isCanceled"]]


def test_reply_is_waited_for_until_a_moment_after_complete_by(requesting: Instance) -> None:
    """What is not asked for yet is not waited for."""
    assert _times(requesting) == ["2026-11-21T10:00:35"]
    assert requesting.output is None
    # Reply that ends the task cancels the timer.
    assert requesting.reply("reply:pay:1:1", **OVER) == []
    assert [timer["isCanceled"] for timer in requesting.timers] == [True]
    assert requesting.output == "Processed"


def test_reply_starts_what_it_makes_ready_whatever_still_runs() -> None:
    """A slow step holds up only what needs it."""
    instance = Instance(queued=("pay",))
    instance.begin()
    assert instance.reply("reply:pay:1:1", runs=1) == [2]
    instance.end(2)
    assert instance.output is None
    assert instance.end(1, **OVER) == []
    assert instance.output == "Processed"
    # Reply starts what it makes ready beside a run that began after another reply.
    instance = Instance(queued=("pay", "print"))
    instance.begin()
    assert instance.reply("reply:pay:1:1", runs=1) == [2]
    assert instance.reply("reply:print:1:1", runs=1) == [3]


@pytest.mark.parametrize(
    "waits", [{"awaited": {"pay": IN_30_SECONDS, "print": IN_A_MINUTE}}, {"again_at": IN_30_SECONDS}]
)
def test_reply_starts_what_it_makes_ready_whatever_else_is_awaited(waits: dict[str, Any]) -> None:
    """Another reply, or the end of a wait that is sat out."""
    instance = Instance(queued=("pay", "print"))
    instance.begin()
    instance.end(1, **waits)
    assert instance.reply("reply:pay:1:1", **waits, runs=1) == [2]


def test_guard_beside_a_run_keeps_no_instance() -> None:
    """It is cancelled with the run's end."""
    instance = Instance(queued=("pay", "print"))
    instance.begin()
    instance.end(1, runs=1)
    assert _times(instance) == ["2026-11-22T10:00:00"]
    instance.end(2, **OVER)
    assert (_times(instance), instance.output) == ([], "Processed")
    # A run without news of a reply does not wait again.
    instance = Instance(queued=("pay",))
    instance.begin()
    instance.reply("reply:pay:1:1")
    instance.end(1, awaited={"pay": IN_30_SECONDS})
    assert (instance.timers, instance.output) == ([], "Processing")
    # Replies can come from the first episode on.
    instance = Instance(queued=("pay", "print"))
    instance.begin()
    assert instance.awaited == ["reply:pay:1:1", "reply:print:1:1"]
    instance.end(1, **OVER)
    assert (instance.output, instance.events) == ("Processed", 8)


def test_one_timer_waits_for_the_latest_reply(requesting: Instance) -> None:
    """An earlier limit is left to it; a later one replaces it."""
    assert requesting.reply("reply:pay:1:1", runs=1) == [2]
    assert "2026-11-21T10:00:35" not in _times(requesting)
    requesting.end(2, awaited={"print": IN_A_MINUTE})
    assert _times(requesting) == ["2026-11-21T10:01:05"]
    requesting.fire_timer()
    assert requesting.output == "Processing"


def test_later_limit_replaces_the_timer() -> None:
    """Two replies are awaited, the second of them longer."""
    instance = Instance(queued=("pay", "print"))
    instance.begin()
    instance.end(1, runs=1, awaited={"pay": IN_30_SECONDS})
    instance.end(2, awaited={"pay": IN_30_SECONDS, "print": IN_A_MINUTE})
    assert _times(instance) == ["2026-11-21T10:01:05"]
    assert instance.output is None
    # Time limit does not end a run.
    instance = Instance(queued=("pay",))
    instance.begin()
    instance.end(1, runs=1, awaited={"pay": IN_30_SECONDS})
    instance.fire_timer()
    assert instance.output is None
    instance.end(2, **OVER)
    assert instance.output == "Processed"


def test_reply_that_does_not_come_ends_the_wait(requesting: Instance) -> None:
    """The Supervisor decides what happens next."""
    assert requesting.fire_timer() == []
    assert requesting.output == "Processing"


def test_doubled_reply_counts_once(requesting: Instance) -> None:
    """Its second delivery finds nobody that waits."""
    assert requesting.reply("reply:pay:1:1", runs=1) == [2]
    with pytest.warns(UserWarning, match="duplicate"):
        assert requesting.reply("reply:pay:1:1", runs=1) == []


def test_scheduler_goes_on_when_a_wait_is_over_that_it_sits_out() -> None:
    """Another run looks at the task; no reply is awaited meanwhile."""
    instance = Instance()
    instance.begin()
    assert instance.end(1, again_at="2026-11-21T10:00:30+00:00") == []
    assert instance.output is None
    assert len(instance.timers) == 1
    assert instance.fire_timer() == [2]
    assert instance.end(2, state="Processed", over=True) == []
    assert instance.output == "Processed"
    # Reply from before a wait does not end its scheduler.
    instance = Instance(queued=("pay",))
    instance.begin()
    instance.end(1, again_at=IN_30_SECONDS)
    assert instance.reply("reply:pay:1:1") == []
    assert instance.output is None
    assert instance.fire_timer() == [2]


def test_scheduler_ends_when_the_task_is_handed_back() -> None:
    """No timer keeps it."""
    instance = Instance(queued=("approve",))
    instance.begin()
    instance.end(1, again_at="2026-11-24T10:00:00+00:00", awaited={})
    assert instance.reply("reply:approve:1:1", runs=1) == [2]
    instance.end(2, state="Pending", over=True)
    assert instance.output == "Pending"
    # A lost run ends the wait.
    instance = Instance()
    instance.begin()
    assert instance.end(1, again_at="2027-11-21T10:00:00+00:00", runs=1) == [2]
    instance.fail(2)
    assert instance.output == "unknown"


def test_timer_beside_a_long_step_lasts_a_day_at_most() -> None:
    """Then a run looks, and says again until when the task waits."""
    instance = Instance(queued=("pick",))
    instance.begin()
    instance.end(1, again_at="2027-11-21T10:00:00+00:00", awaited={"pick": "2026-11-24T10:00:00+00:00"})
    assert min(each["fireAt"] for each in instance.timers).startswith("2026-11-22T10:00:00")
    # Wait that ends before those that are known is not sat out beyond its end.
    instance = Instance(queued=("pick", "send"))
    days = {"awaited": {"send": "2026-11-24T10:00:00+00:00"}, "again_at": "2026-11-24T10:00:00+00:00"}
    instance.begin()
    instance.end(1, **days)
    assert instance.reply("reply:pick:1:1", **days, runs=1) == [2]
    instance.end(2, **days | {"again_at": IN_30_SECONDS})
    assert instance.timers[-1]["fireAt"][:19] == IN_30_SECONDS[:19]
    assert instance.fire_timer() == [3]


def test_wait_beside_a_long_step_is_not_forgotten_for_a_run_that_knows_nothing_of_it() -> None:
    """It failed, or had read the task before: without the timer, the wait would end with the long step."""
    instance = Instance(queued=("pick", "send"))
    instance.begin()
    days = {"pick": "2026-11-24T10:00:00+00:00"}
    assert instance.end(1, again_at=IN_A_MINUTE, awaited=days, runs=1) == [2]
    instance.fail(2)
    instance.reply("reply:send:1:1", awaited=days)
    assert IN_A_MINUTE[:19] in _times(instance)
    assert instance.fire_timer() == [3]


def test_wait_beside_a_run_is_not_forgotten_for_another_that_is_lost(instance: Instance) -> None:
    """It would end with the run's step; when no run is left that may know of the task, nobody sits it out."""
    instance.begin()
    assert instance.end(1, runs=2) == [2, 3]
    assert instance.end(2, again_at=IN_30_SECONDS, runs=1) == [4]
    assert instance.fail(4) == []
    assert _times(instance) == ["2026-11-21T10:00:30"]
    instance.fail(3)
    assert instance.output == "unknown"


def test_what_a_lost_run_left_undone_beside_a_long_step_is_looked_at_again() -> None:
    """The Supervisor would come when the long step is overdue; each time that fails, it takes longer."""
    instance = Instance(queued=("pick", "send"))
    days = {"awaited": {"send": "2026-11-24T10:00:00+00:00"}}
    instance.begin()
    instance.end(1, awaited={"pick": IN_A_MINUTE} | days["awaited"])
    assert instance.reply("reply:pick:1:1", **days, runs=1) == [2]
    assert instance.fail(2) == []
    assert instance.timers[-1]["fireAt"][:19] == "2026-11-21T10:01:00"
    assert instance.fire_timer() == [3]
    instance.fail(3)
    assert instance.timers[-1]["fireAt"][:19] == "2026-11-21T10:02:00"
    assert instance.fire_timer() == [4]
    instance.end(4, **days)
    assert instance.timers[-1]["fireAt"][:10] == "2026-11-24"


PAY = StepName("pay")
PROGRESS = Progress(state="Processing", over=False, runs=1, awaited={})


class DurableClient:
    """Keeps what was started, or refuses with the SDK's kind of error."""

    def __init__(self, refusal: str | None = None) -> None:
        self.started: list[tuple[str, str, Any]] = []
        self.raised: list[tuple[str, str, Any]] = []
        self._refusal = refusal

    async def start_new(self, name: str, instance: str, client_input: Any) -> str:
        """Start an instance."""
        if self._refusal is not None:
            raise Exception(self._refusal)  # noqa: TRY002 - the SDK raises nothing more telling
        self.started.append((name, instance, client_input))
        return instance

    async def raise_event(self, instance: str, event: str, data: Any) -> None:
        """Raise an event."""
        if self._refusal is not None:
            raise Exception(self._refusal)  # noqa: TRY002 - the SDK raises nothing more telling
        self.raised.append((instance, event, data))


async def test_instance_is_named_by_task_and_epoch() -> None:
    """A new attempt never meets an old one."""
    client = DurableClient()
    await DurableSchedulers(client).start(TASK, SECOND, [PAY])
    given = {"task": "task-1", "epoch": 2, "queued": ["pay"]}
    assert client.started == [("scheduler", "task-1.2", given)]
    # Event is named by step and epoch.
    client = DurableClient()
    await DurableSchedulers(client).wake(TASK, SECOND, PAY, PROGRESS)
    assert client.raised == [("task-1.2", "reply:pay:2:1", PROGRESS)]
    # Instance that runs already is left to run.
    refusal = "An Orchestration instance with the status Running already exists."
    await DurableSchedulers(DurableClient(refusal)).start(TASK, SECOND, ())


async def test_any_other_failure_is_transient() -> None:
    """The start is tried again, and at last the message is delivered again."""
    with pytest.raises(TransientError, match=r"did not start task-1\.2"):
        await DurableSchedulers(DurableClient("no storage")).start(TASK, SECOND, ())
    # Scheduler that cannot be woken now is woken later.
    with pytest.raises(TransientError, match=r"did not wake task-1\.2"):
        await DurableSchedulers(DurableClient("no storage")).wake(TASK, SECOND, PAY, PROGRESS)


@pytest.mark.parametrize(
    "refusal",
    ["Instance with ID task-1.2 is gone: either completed or failed", "No instance with ID task-1.2 found."],
)
async def test_scheduler_that_has_ended_is_not_woken(refusal: str) -> None:
    """What the reply brought is recorded; nobody needs to hear of it."""
    await DurableSchedulers(DurableClient(refusal)).wake(TASK, SECOND, PAY, PROGRESS)


Activity = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
GIVEN = {"task": TASK, "epoch": 1, "number": 1, "share": False}
UNKNOWN = {"state": "unknown", "over": False, "runs": 0, "awaited": {}}


@pytest.fixture
def bench() -> Bench:
    """Make a bench on which a task waits for its Scheduler."""
    return Bench(LINE)


@pytest.fixture
def run_steps(bench: Bench) -> Activity:
    """Give the function that the host calls."""
    ports = fake_ports(store=bench.store, rejected=RecordedRejections())
    replies = ReplyTaker(ports, limits(), RecordedRefusals().alert)
    blueprint = scheduler_blueprint(bench.runs, RequestTaker(ports, limits()), replies)
    functions = [builder.build() for builder in blueprint._function_builders]
    found: Activity = {each.get_function_name(): each.get_user_function() for each in functions}["run_steps"]
    return found


async def test_activity_tells_the_orchestrator_how_the_task_stands(run_steps: Activity) -> None:
    """Plain JSON: a state, and what happens next."""
    assert await run_steps(GIVEN) == {"state": "Processed", "over": True, "runs": 0, "awaited": {}}


@pytest.mark.parametrize("failure", [OSError("no store"), TransientError("503")])
async def test_failing_run_is_left_to_the_supervisor(
    bench: Bench, run_steps: Activity, failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task stays due, and is found."""

    async def fail(*_: object, **__: object) -> None:
        raise failure

    monkeypatch.setattr(bench.store, "change", fail)
    assert await run_steps(GIVEN) == UNKNOWN


async def test_defect_of_the_store_is_not_tried_again(bench: Bench, run_steps: Activity) -> None:
    """Only what may pass is."""
    bench.store.failure = OSError("no store")
    assert await run_steps(GIVEN) == UNKNOWN


CAR = StepName("car")
QUEUED = workflow(step("pick", via=Way.QUEUE), step("send", "pick"))


class RequestBench:
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

    async def ask(self, task: str = TASK, epoch: Epoch = FIRST, **more: Any) -> None:
        """Take a request for a Scheduler."""
        request = SchedulerRequest(task_id=TaskId(task), epoch=epoch, **more)
        await self.take(request.model_dump_json().encode())


async def test_request_starts_its_scheduler_without_a_read() -> None:
    """The message names the steps."""
    bench = RequestBench()
    bench.store.failure = AssertionError("it reads")
    await bench.ask(epoch=SECOND, queued=("pick",))
    assert (bench.schedulers.started, bench.schedulers.queued) == ([(TASK, SECOND)], [("pick",)])
    # Request names the run.
    bench = RequestBench()
    await bench.ask(epoch=SECOND, queued=(), run=3)
    assert (bench.schedulers.started, bench.schedulers.runs) == ([(TASK, SECOND)], [3])


async def test_message_that_is_no_request_is_kept_aside() -> None:
    """It is no reason to lose any other."""
    bench = RequestBench()
    await bench.take(b"{}")
    [rejection] = bench.rejections.all
    assert (rejection.queue, rejection.reason) == (
        "scheduler-requests",
        "task_id: Field required; epoch: Field required",
    )


async def test_scheduler_that_holds_the_task_is_woken_by_an_event() -> None:
    """It hears that something can start; of a task that is gone, nobody does."""
    bench = RequestBench()
    waiting = told(
        pending(workflow(awaiting("approve"), step("other"), step("send", "approve"))),
        claimed(),
        started("approve"),
        started("other"),
    )
    event = EventReceived(step=StepName("approve"), body=b"{}", who="anna", start_by=after(30))
    bench.store.put(told(waiting, event))
    for task in (TASK, "gone"):
        await bench.ask(task, wake=StepName("approve"))
    assert bench.schedulers.woken == [(TASK, FIRST, "approve", going_on(runs=1))]
    assert bench.schedulers.started == []
    # Scheduler lets go when only a long wait is left.
    bench = RequestBench()
    waiting = told(
        pending(workflow(awaiting("approve"), nested("car"))),
        claimed(),
        started("approve", complete_by=30),
        started("car", complete_by=3_600),
    )
    bench.store.put(told(waiting, event))
    await bench.ask(wake=StepName("approve"))
    assert [woken[3]["runs"] for woken in bench.schedulers.woken] == [1]


async def test_scheduler_is_woken_by_the_dispatch_that_it_waits_for() -> None:
    """The first request was not taken, which it has heard of; of the second one, no reply came in time."""
    bench = RequestBench()
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
    await bench.ask(wake=StepName("mail"))
    assert bench.schedulers.woken == [(TASK, FIRST, "mail", going_on(runs=1))]
    assert bench.schedulers.dispatches == [2]


async def test_parent_hears_of_the_end_of_its_child() -> None:
    """Once; of what has gone on since, is gone, or is nobody's child, it hears nothing."""
    bench = RequestBench()
    parent = told(pending(workflow(nested("car"))), claimed(), started("car", complete_by=3_600))
    bench.store.put(parent)
    child = replace(pending(LINE, parent.child(CAR)).order, parent=Parent(task=TASK, birth=BIRTH, step=CAR))
    record = admit(child, pick_up_by=after(30))
    for stored in (record, told(record, cancellation(by_operator=True))):
        assert bench.store.record(TASK) == parent
        bench.store.put(stored)
        await bench.ask(child.task, ended=True)
    assert bench.store.record(TASK).step(CAR).state is StepState.FAILED
    for task in (TASK, "gone"):
        await bench.ask(task, ended=True)
    bench.store.remove(TASK)
    await bench.ask(child.task, ended=True)
    assert (bench.schedulers.started, bench.schedulers.woken) == ([], [])
