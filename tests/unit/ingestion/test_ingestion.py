"""Each event of a batch becomes a task or is set aside; only a service that fails holds its partition."""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import timedelta
from typing import Any

import pytest

from functions.ingestion.batch import MOST_EVENT_BYTES, HubEvent, events_of
from functions.messages.reading import content_of
from functions.pattern.errors import TransientError
from functions.pattern.identity import TaskId
from functions.pattern.rejected import Content
from tests.fakes.clock import START
from tests.fakes.hub_events import batch
from tests.fakes.tasks import FIRST, claimed, pending, told
from tests.fakes.workflows import DIAMOND
from tests.unit.ingestion.conftest import Bench, order


def _down() -> TransientError:
    return TransientError("Table Storage: ServiceRequestError")


async def test_batch_becomes_tasks_with_schedulers(bench: Bench) -> None:
    """Every event is one order."""
    await bench.take(batch(*(order(f"t-{number}") for number in range(100))))
    assert len(bench.store) == 100
    assert sorted(bench.schedulers.started) == sorted((TaskId(f"t-{n}"), FIRST) for n in range(100))
    assert bench.rejected.all == []


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "not JSON (EOF while parsing an object at line 1 column 1)"),
        (b"\xff\xfe", "not JSON"),
        (json.dumps({"task_id": "bad", "nothing": 1}).encode(), "workflow: Field required"),
        (order("bad", weight="x"), "weight: Input should be a valid integer"),
        (b"[" * MOST_EVENT_BYTES + b"]", "bytes is no order"),
    ],
)
async def test_poison_is_set_aside_and_its_neighbours_go_on(
    bench: Bench, place: int, body: bytes, reason: str
) -> None:
    """At each place of a batch; it is named by its place in the hub."""
    bodies = [order("a"), order("b")]
    bodies.insert(place, body)
    await bench.take(batch(*bodies, partition="7", first=40))
    [aside] = bench.rejected.all
    assert (aside.queue, aside.message_id, aside.body) == ("eventhub|order-events", f"7/{40 + place}", body)
    assert reason in aside.reason
    assert {task for task, _ in bench.schedulers.started} == {"a", "b"}
    assert bench.alerts == []


async def test_others_have_their_turn_between_large_events(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events of 64 KiB in all are read in one turn of the event loop."""
    turns = [0]

    async def other_work() -> None:
        while True:
            await asyncio.sleep(0)
            turns.append(0)

    def read(event: HubEvent) -> Content:
        turns[-1] += len(event.body)
        return content_of(event)

    monkeypatch.setattr("functions.ingestion.batch.content_of", read)
    others = asyncio.create_task(other_work())
    await bench.take(batch(*(order(f"t-{number}").ljust(24 * 1024) for number in range(30))))
    others.cancel()
    assert (max(turns), sum(turns)) == (72 * 1024, 720 * 1024)


async def test_set_aside_twice_is_one_message(bench: Bench) -> None:
    """A replay names it just so: the table's row is the same."""
    for _ in range(2):
        await bench.take(batch(b"{", first=5))
    first, second = bench.rejected.all
    assert first == second


async def test_what_an_event_carries_is_kept_with_it(bench: Bench) -> None:
    """So that it can be sent again."""
    await bench.take(batch(b"{", properties=[{"tenant": "blue", "Diagnostic-Id": "00-ab-cd-01"}]))
    [labels] = bench.rejected.labels
    assert labels is not None
    assert labels.properties == {
        "tenant": "blue",
        "Diagnostic-Id": "00-ab-cd-01",
        "traceparent": "00-ab-cd-01",
    }


async def test_unforeseen_fault_of_one_event_is_set_aside_and_alerted(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """It would hold its partition for ever; the log has the trace, and no text that may quote the order."""
    bench.store.admit_faults[TaskId("b")] = RuntimeError("secret")
    await bench.take(batch(*map(order, "abc"), partition="1", first=10))
    [aside] = bench.rejected.all
    assert (aside.message_id, aside.reason) == ("1/11", "failed unforeseen: RuntimeError")
    [alert] = bench.alerts
    assert alert.event == "message lost"
    assert (alert.facts["message_id"], alert.facts["task"]) == ("1/11", None)
    assert [each for each in caplog.records if each.exc_info and each.levelno == logging.ERROR]
    assert {task for task, _ in bench.schedulers.started} == {"a", "c"}


async def test_fault_of_most_events_is_ours(bench: Bench) -> None:
    """Nothing is set aside: the batch comes again, and what is sound is recorded meanwhile."""
    tasks = [TaskId(f"t-{number}") for number in range(10)]
    bench.store.admit_faults = {task: RuntimeError("bug") for task in tasks[:6]}
    events = batch(*map(order, tasks))
    with pytest.raises(ExceptionGroup):
        await bench.take(events)
    assert bench.rejected.all == []
    bench.store.admit_faults = {}
    await bench.take(events)
    assert len(bench.store) == 10


async def test_half_of_a_batch_is_not_most_of_it(bench: Bench) -> None:
    """Neither is all of a small one the proof of a fault of ours."""
    tasks = [TaskId(f"t-{number}") for number in range(19)]
    bench.store.admit_faults = {task: RuntimeError("bug") for task in (*tasks[:5], *tasks[10:])}
    await bench.take(batch(*map(order, tasks[:10])))
    assert len(bench.rejected.all) == 5
    await bench.take(batch(*map(order, tasks[10:]), first=10))
    assert len(bench.rejected.all) == 14


@pytest.mark.usefixtures("impatient")
async def test_service_that_fails_holds_the_batch(bench: Bench) -> None:
    """The others of the batch are recorded; when it comes again, that one is."""
    bench.store.admit_faults[TaskId("b")] = _down()
    events = batch(*map(order, "abc"))
    with pytest.raises(ExceptionGroup) as raised:
        await bench.take(events)
    assert [type(each) for each in raised.value.exceptions] == [TransientError]
    assert len(bench.store) == 2
    bench.store.admit_faults = {}
    await bench.take(events)
    assert len(bench.store) == 3
    assert bench.rejected.all == []


async def test_defect_in_a_batch_that_comes_again_is_alerted_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes again as well: an outage of hours would alert it each minute."""
    bench.store.admit_faults = {TaskId("b"): _down(), TaskId("bug"): RuntimeError()}
    events = batch(*map(order, ("a", "b", "bug")))
    with monkeypatch.context() as impatient:  # only here: all of it takes its time on a busy machine
        impatient.setattr("functions.ingestion.batch._PATIENCE_SECONDS", 0.05)
        for _ in range(3):
            with pytest.raises(ExceptionGroup):
                await bench.take(events)
    assert (bench.alerts, bench.rejected.all) == ([], [])
    del bench.store.admit_faults[TaskId("b")]
    await bench.take(events)
    assert (len(bench.alerts), len(bench.rejected.all)) == (1, 1)


@pytest.mark.usefixtures("impatient")
async def test_batch_waits_while_nothing_can_be_set_aside(bench: Bench) -> None:
    """What is set aside must be durable before the host's checkpoint."""
    bench.rejected.failing = True
    bench.store.admit_faults[TaskId("bug")] = RuntimeError()
    for body in (b"{", order("bug")):
        with pytest.raises(ExceptionGroup):
            await bench.take(batch(order("a"), body))
    bench.rejected.failing = False
    await bench.take(batch(order("a"), b"{"))
    assert len(bench.rejected.all) == 1


@pytest.mark.usefixtures("impatient")
async def test_scheduler_that_does_not_start_holds_the_batch(bench: Bench) -> None:
    """When it comes again, its order is known, and the Scheduler is started."""
    bench.schedulers.fault = TransientError("Durable Functions did not start a.1")
    with pytest.raises(ExceptionGroup):
        await bench.take(batch(order("a")))
    bench.schedulers.fault = None
    await bench.take(batch(order("a")))
    assert bench.schedulers.started == [("a", FIRST)]
    assert bench.store.writes == 1


async def test_one_id_twice_is_one_task_in_the_order_of_the_batch(bench: Bench) -> None:
    """The first is recorded; other content under its id is set aside."""
    await bench.take(batch(order("a", weight=1), order("a", weight=2), order("a", weight=1)))
    assert bench.store.record(TaskId("a")).order.payload == b'{"weight":1}'
    [aside] = bench.rejected.all
    assert (aside.message_id, aside.reason) == ("3/1", "other content is known as a")


async def test_event_that_is_older_than_what_is_kept_is_set_aside(bench: Bench) -> None:
    """Its task may have been deleted: it could be done twice. One that is known is not."""
    old = START - timedelta(days=31)
    bench.store.put(told(pending(DIAMOND, TaskId("known")), claimed(task=TaskId("known"))))
    await bench.take(batch(order("late"), order("known"), enqueued_at=old))
    assert [(each.message_id, each.reason) for each in bench.rejected.all] == [
        ("3/0", "too old to know whether it was done: such tasks are deleted")
    ]


async def test_order_that_was_submitted_too_long_ago_is_set_aside(bench: Bench) -> None:
    """Its producer has sent it again."""
    late = json.loads(order("late")) | {"submitted_at": (START - timedelta(days=31)).isoformat()}
    await bench.take(batch(json.dumps(late).encode()))
    assert len(bench.rejected.all) == 1
    assert len(bench.store) == 0


async def test_order_of_a_version_that_is_not_here_waits_on_the_queue(bench: Bench) -> None:
    """During a deployment another host may have it: the partition must not wait for that."""
    body = json.dumps(json.loads(order("new")) | {"version": 9}).encode()
    await bench.take(batch(body, order("a")))
    [(queue, _, content, not_before)] = bench.postbox.sent
    assert (queue, content.body) == ("submissions", body)
    assert not_before is not None
    assert bench.rejected.all == []


async def test_order_waits_on_the_queue_without_properties_that_it_would_not_take(bench: Bench) -> None:
    """A hub takes a megabyte of them: the queue's refusal would hold the partition for ever."""
    body = json.dumps(json.loads(order("new")) | {"version": 9}).encode()
    await bench.take(batch(body, body, properties=[{"note": "é" * 16_000}, {"note": "é" * 17_000}]))
    kept, without = (content.labels.properties for _, _, content, _ in bench.postbox.sent)
    assert set(kept) == {"note", "counted.put_back"}
    assert set(without) == {"counted.put_back"}


def test_function_is_bound_as_the_host_needs_it(bench: Bench) -> None:
    """Whole batches of bytes, and a policy that never ends: a batch that failed would be lost without it."""
    function = bench.built[0]
    assert function.get_function_name() == "ingestion"
    [trigger] = [each for each in function.get_dict_repr()["bindings"] if each["type"] == "eventHubTrigger"]
    wanted = {
        "eventHubName": "order-events",
        "connection": "EventHubConnection",
        "consumerGroup": "ingestion",
        "cardinality": "MANY",
        "dataType": "BINARY",
    }
    assert {name: str(getattr(trigger[name], "name", trigger[name])) for name in wanted} == wanted
    retry = function.get_settings_dict("retry_policy")
    assert (retry["strategy"], retry["max_retry_count"]) == ("exponential_backoff", "-1")


async def test_bounded_number_of_orders_is_recorded_at_a_time(bench: Bench) -> None:
    """Of all partitions: the writes of running tasks must not wait behind thousands of new orders."""
    batches = [batch(*(order(f"{p}-{n}") for n in range(60)), partition=f"{p}") for p in range(12)]
    await asyncio.gather(*map(bench.take, batches))
    assert (len(bench.store), bench.store.most) == (720, 400)
    assert bench.schedulers.most <= 400


async def test_batch_without_a_slot_is_retried(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time ends inside the function's time limit."""
    bench.store.hold = asyncio.Event()
    bodies = [order(f"t-{number}") for number in range(400)]
    with monkeypatch.context() as impatient:
        impatient.setattr("functions.ingestion.batch._PATIENCE_SECONDS", 0.2)
        holding = asyncio.create_task(bench.take(batch(*bodies)))
        while bench.store.now < 400:
            await asyncio.sleep(0)
        with pytest.raises(ExceptionGroup):
            await bench.take(batch(order("late"), partition="9"))
        with pytest.raises(ExceptionGroup):
            await holding
    bench.store.hold = None
    await bench.take(batch(order("late"), partition="9"))
    assert len(bench.store) == 1


async def test_batch_ends_when_its_schedulers_are_started(bench: Bench) -> None:
    """Then the host takes the partition's next batch: it takes no more than the backend starts."""
    started = asyncio.Event()
    start = bench.schedulers.start

    async def slowly(*arguments: Any, **named: Any) -> None:
        await started.wait()
        await start(*arguments, **named)

    bench.schedulers.start = slowly  # type: ignore[method-assign] # the backend is slow
    taking = asyncio.create_task(bench.take(batch(order("a"), order("b"))))
    while len(bench.store) < 2:
        await asyncio.sleep(0)
    assert not taking.done()
    started.set()
    await taking
    assert len(bench.schedulers.started) == 2


_TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_event_knows_its_place_and_its_time() -> None:
    """By partition and number; the worker's times have no zone."""
    enqueued_at = START + timedelta(seconds=5)
    first, second = events_of(batch(b"a", b"b", partition="7", first=41, enqueued_at=enqueued_at))
    assert [each.message_id for each in (first, second)] == ["7/41", "7/42"]
    assert (first.enqueued_at, first.get_body(), second.get_body()) == (enqueued_at, b"a", b"b")
    assert (first.subject, first.correlation_id) == (None, None)


@pytest.mark.parametrize("name", ["traceparent", "Diagnostic-Id"])
def test_event_carries_its_own_properties(name: str) -> None:
    """The trace of its sender among them, by its name of today or of before."""
    [first, second] = events_of(batch(b"a", b"b", properties=[{name: _TRACE, "tenant": "blue"}, {}]))
    assert first.application_properties["traceparent"] == _TRACE
    assert first.application_properties["tenant"] == "blue"
    assert second.application_properties == {}


def test_events_without_told_properties_have_none() -> None:
    """As many of them as there are; what is told beyond is no event."""
    assert [each.application_properties for each in events_of(batch(b"a", b"b", properties=[{"x": 1}]))] == [
        {"x": 1},
        {},
    ]
    assert len(events_of(batch(b"a", properties=[{}, {"x": 1}]))) == 1


def _begin(bench: Bench, *tasks: str) -> None:
    """Have Schedulers claim tasks."""
    for each in map(TaskId, tasks):
        bench.store.put(told(bench.store.record(each), claimed(task=each)))


async def test_replay_writes_and_starts_nothing(bench: Bench) -> None:
    """All of them have begun."""
    events = [batch(order("a"), order("b")), batch(order("c"), first=2)]
    for each in events:
        await bench.take(each)
    _begin(bench, "a", "b", "c")
    bench.restart()
    writes, starts = bench.store.writes, [*bench.schedulers.started]
    for each in events:
        await bench.take(each)
    assert (bench.store.writes, bench.schedulers.started) == (writes, starts)


async def test_known_order_that_nobody_began_gets_its_scheduler(bench: Bench) -> None:
    """A crash may have kept it from being started; the start of an instance that is there does nothing."""
    sent = batch(order("a"), enqueued_at=bench.clock.now() - timedelta(hours=5))
    for starts in (1, 2):
        bench.restart()
        await bench.take(sent)
        assert bench.schedulers.started == [("a", FIRST)] * starts


async def test_order_whose_row_cannot_be_read_holds_up_no_other(bench: Bench) -> None:
    """A batch that fails is tried again for ever: its partition would stand still."""
    await bench.take(batch(order("a")))
    bench.restart()
    bench.store.damaged = {TaskId("a")}
    await bench.take(batch(order("a"), order("b"), first=0))
    assert bench.store.record(TaskId("b")).task.epoch == FIRST
