"""Each event of a batch becomes a task or is rejected; otherwise the batch is delivered again."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest

from functions.core.definition.workflow_definition import WorkflowRegistry
from functions.core.task_events import Cancelled, Canceller
from functions.messaging.rejected_messages import LostMessage, LostMessages
from functions.storage.table_contract import TransientStorageError
from functions.storage.table_maintenance import delete_finished
from functions.submission import event_batches
from functions.submission.admission import Admission
from functions.submission.event_batches import MOST_EVENT_BYTES, EventBatches, events_of
from tests.fakes.simulated_table import TableFault
from tests.fakes.storage_process import START
from tests.unit.api.scene import Priced
from tests.unit.submission.bench import Bench, body, workflow

HUB = "eventhub|order-events"

type Errors = dict[str, Exception]


@dataclass
class Event:
    """An event as the host hands it over."""

    content: bytes
    sequence_number: int | None
    enqueued_time: datetime | None
    metadata: dict[str, Any]

    def get_body(self) -> bytes:
        """Return the body."""
        return self.content


def batch(
    *bodies: bytes,
    partition: str = "3",
    first: int = 0,
    enqueued_at: datetime = START,
    properties: Sequence[dict[str, Any]] | None = None,
) -> list[Event]:
    """Return a batch of one partition, with its metadata as the host writes them."""
    metadata = {"PartitionContext": json.dumps({"PartitionId": partition})}
    if properties is not None:
        metadata["PropertiesArray"] = json.dumps(properties)
    time = enqueued_at.replace(tzinfo=None)
    return [Event(content, first + n, time, metadata) for n, content in enumerate(bodies)]


class HubBench(Bench):
    """The batches of one hub."""

    def __init__(self) -> None:
        super().__init__()
        self.alerts: list[LostMessage] = []

    def restart(self) -> None:
        """Begin another process."""
        super().restart()
        lost = LostMessages(self.rejected, self._alert)
        self.batches = EventBatches("order-events", self.admission, lost.lose)

    async def _alert(self, lost: LostMessage) -> None:
        self.alerts.append(lost)

    async def hand_over(self, events: Sequence[Event]) -> None:
        """Hand over a batch."""
        await self.batches.take(events_of(events))

    def tasks(self) -> set[str]:
        """Return the ids of the recorded tasks."""
        return {key.partition("|")[0] for key in self.table.keys("") if key.endswith("|task")}


@pytest.fixture
def bench() -> HubBench:
    """Return batches of which none was handed over."""
    return HubBench()


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "Invalid JSON"),
        (body(payload={"weight": "x"}), "weight: Input should be a valid integer"),
        (b"[" * MOST_EVENT_BYTES + b"]", f"the event has more than {MOST_EVENT_BYTES} bytes"),
    ],
    ids=["no JSON", "no order", "too large"],
)
async def test_unusable_event_is_kept_and_the_others_are_recorded(
    bench: HubBench, place: int, content: bytes, reason: str
) -> None:
    """It is named by its place in the hub, and a replay records it once."""
    bodies = [body("a"), body("b")]
    bodies.insert(place, content)
    for _ in range(2):
        await bench.hand_over(batch(*bodies, partition="7", first=40))
    [kept] = await bench.rejections()
    assert (kept.queue, kept.message_id, kept.size) == (HUB, f"7/{40 + place}", len(content))
    assert reason in kept.reason
    assert set(bench.runs) == {"a.1.1", "b.1.1"}
    assert bench.alerts == []


async def test_events_that_the_model_fails_on_do_not_block_their_partition(bench: HubBench) -> None:
    """They are most of a batch, and their error is no `ValueError`."""
    bench.registry = WorkflowRegistry([workflow(payload=Priced)])
    bench.restart()
    prices = enumerate(["1"] * 5 + ["free"] * 7)
    await bench.hand_over(batch(*(body(f"t-{number}", payload={"price": each}) for number, each in prices)))
    assert (len(bench.tasks()), len(await bench.rejections())) == (5, 7)


async def test_event_keeps_its_properties(bench: HubBench) -> None:
    """It has the trace of an older client. A property with half of a character is left out."""
    properties = {"tenant": "blue", "Diagnostic-Id": "00-ab-cd-01", "half": "a\ud800"}
    await bench.hand_over(batch(b"{", properties=[properties]))
    [kept] = await bench.rejections()
    resent = await bench.resent(kept)
    assert resent.properties == {
        "tenant": "blue",
        "Diagnostic-Id": "00-ab-cd-01",
        "traceparent": "00-ab-cd-01",
    }


@pytest.fixture
def errors(monkeypatch: pytest.MonkeyPatch) -> Errors:
    """Return the errors that the admission meets, by task."""
    errors, take = dict[str, Exception](), Admission.take

    async def failing(self: Admission, message: Any, **others: Any) -> Any:
        name = json.loads(message.body)["task_id"]
        if name in errors:
            raise errors[name]
        return await take(self, message, **others)

    monkeypatch.setattr(Admission, "take", failing)
    return errors


async def test_event_that_meets_a_defect_is_lost_alone(
    bench: HubBench, errors: Errors, caplog: pytest.LogCaptureFixture
) -> None:
    """It would block its partition. The log has the traceback, and the reason no text of the error."""
    errors |= {"b": RuntimeError("secret")}
    await bench.hand_over(batch(*map(body, "abc"), partition="1", first=10))
    [kept] = await bench.rejections()
    assert (kept.queue, kept.task, kept.reason) == (HUB, "b", "failed unexpectedly: RuntimeError")
    assert bench.alerts == [LostMessage(HUB, "1/11", "b", kept.reason)]
    assert any(each.exc_info and each.levelno == logging.ERROR for each in caplog.records)
    assert bench.tasks() == {"a", "c"}


@pytest.mark.parametrize(
    ("events", "failing", "is_ours"), [(10, 6, True), (10, 5, False), (9, 9, False), (40, 21, True)]
)
async def test_error_of_most_events_is_a_defect_of_the_application(
    bench: HubBench, errors: Errors, events: int, failing: int, *, is_ours: bool
) -> None:
    """Then the batch is delivered again and nothing is lost. A small batch proves nothing."""
    names = [f"t-{number}" for number in range(events)]
    errors |= {name: RuntimeError("bug") for name in names[:failing]}
    events_again = batch(*map(body, names))
    if not is_ours:
        await bench.hand_over(events_again)
        assert len(await bench.rejections()) == failing
        return
    with pytest.raises(ExceptionGroup):
        await bench.hand_over(events_again)
    assert (await bench.rejections(), len(bench.tasks())) == ([], events - failing)
    errors.clear()
    await bench.hand_over(events_again)
    assert bench.tasks() == set(names)


async def test_batch_waits_for_a_service_that_fails(bench: HubBench, errors: Errors) -> None:
    """The others are recorded. A defect in the same batch is not alerted at each retry."""
    errors |= {"b": TransientStorageError("HTTP 503"), "bug": RuntimeError()}
    events = batch(*map(body, ("a", "b", "bug")))
    for _ in range(3):
        with pytest.raises(ExceptionGroup) as raised:
            await bench.hand_over(events)
        assert {type(each) for each in raised.value.exceptions} == {TransientStorageError, RuntimeError}
    assert (bench.alerts, await bench.rejections(), bench.tasks()) == ([], [], {"a"})
    del errors["b"]
    await bench.hand_over(events)
    assert (len(bench.alerts), bench.tasks()) == (1, {"a", "b"})


async def test_batch_waits_while_an_event_cannot_be_kept(bench: HubBench, errors: Errors) -> None:
    """The checkpoint of the host must not pass it."""
    bench.rejected_table.fault = lambda: TableFault.NOT_SENT
    errors |= {"bug": RuntimeError()}
    for content in (b'{"task_id":"x"}', body("bug")):
        with pytest.raises(ExceptionGroup):
            await bench.hand_over(batch(body("a"), content))
    bench.rejected_table.fault = lambda: None
    await bench.hand_over(batch(body("a"), b'{"task_id":"x"}', body("bug")))
    assert len(await bench.rejections()) == 2


async def test_one_id_twice_is_one_task_in_the_order_of_the_batch(bench: HubBench) -> None:
    """Another order under the id is rejected."""
    weights = (1, 2, 1)
    await bench.hand_over(batch(*(body("a", payload={"weight": weight}) for weight in weights)))
    assert (await bench.record("a")).order.payload == '{"weight":1}'
    [kept] = await bench.rejections()
    assert (kept.message_id, kept.reason) == ("3/1", "another order is recorded as a")


async def test_event_older_than_the_retention_is_rejected(bench: HubBench) -> None:
    """Its task may have been deleted. A recorded one is known."""
    old = START - timedelta(days=31)
    await bench.hand_over(batch(body("recorded"), body("third")))
    bench.restart()
    submitted = body("third-party", submitted_at=old.isoformat())
    await bench.hand_over(batch(body("late"), body("recorded"), first=10, enqueued_at=old))
    await bench.hand_over(batch(submitted, first=20))
    assert sorted(each.message_id for each in await bench.rejections()) == ["3/10", "3/20"]
    assert {each.reason for each in await bench.rejections()} == {
        "older than the retention of tasks: its task may have been deleted"
    }


async def test_replay_after_the_retention_creates_no_second_task(bench: HubBench) -> None:
    """The task ended and is deleted in another process; this one has its first record in the cache."""
    await bench.hand_over(batch(body("a")))
    outdated, storage, load = bench.batches, bench.storage, bench.storage.load
    bench.restart()
    cancelled = Cancelled(by=Canceller.CALLER, who="ann", reason="x")
    await bench.storage.change("a", cancelled, until=bench.now + timedelta(seconds=20))
    bench.now += timedelta(days=31)

    async def load_and_delete(task: str) -> Any:
        record = await load(task)
        await delete_finished(bench.storage, 0, bench.now - timedelta(days=30))
        return record

    storage.load = load_and_delete  # type: ignore[method-assign]
    for _ in range(2):
        await outdated.take(events_of(batch(body("a"))))
        assert bench.tasks() == set()
    assert {each.message_id for each in await bench.rejections()} == {"3/0"}
    await bench.take(body("a"), "m-2")  # an operator sends it again
    assert bench.tasks() == {"a"}


async def test_replay_writes_nothing(bench: HubBench) -> None:
    """A task whose run was not picked up gets its run again, also if its version was removed."""
    events = batch(body("a"), body("b"))
    await bench.hand_over(events)
    rows = dict(bench.table.rows)
    for version in (1, 2):
        bench.registry = WorkflowRegistry([workflow(version=version)])
        bench.restart()
        await bench.hand_over(events)
    assert bench.table.rows == rows
    assert sorted(bench.runs) == ["a.1.1"] * 3 + ["b.1.1"] * 3
    assert (bench.put_back, await bench.rejections()) == ([], [])


@pytest.mark.parametrize("is_missing", [False, True])
@pytest.mark.parametrize("events", [1, 7])
async def test_corrupt_row_delays_no_other_order(bench: HubBench, events: int, *, is_missing: bool) -> None:
    """A batch that fails is retried forever, also if most of its events are for the corrupt task."""
    await bench.hand_over(batch(body("a")))
    if is_missing:
        del bench.table.rows["000", "a|task"]
    else:
        bench.table.rows["000", "a|order"]["Facts"] = "{"
    bench.restart()
    await bench.hand_over(batch(*map(body, ["a"] * events + [*"bcdef"])))
    assert bench.tasks() | {"a"} == {*"abcdef"}
    reasons = [each.reason for each in await bench.rejections()]
    assert reasons == ["failed unexpectedly: CorruptRowError"] * events


async def test_batch_ends_when_its_runs_are_requested(
    bench: HubBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the host takes no more than the backend starts."""
    started, start = asyncio.Event(), bench._start

    async def slow(run: Any) -> None:
        await started.wait()
        await start(run)

    monkeypatch.setattr(bench, "_start", slow)
    bench.restart()
    taking = asyncio.create_task(bench.hand_over(batch(body("a"), body("b"))))
    while len(bench.tasks()) < 2:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not taking.done()
    started.set()
    await taking
    assert sorted(bench.runs) == ["a.1.1", "b.1.1"]


async def test_bounded_number_of_orders_is_recorded_at_once(
    bench: HubBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over all partitions. A batch without a slot is delivered again, within the function's time limit."""
    monkeypatch.setattr(event_batches, "_EVENTS_AT_ONCE", 4)
    bench.restart()
    under_way, release = list[int](), asyncio.Event()
    take = Admission.take

    async def held(self: Any, message: Any, **others: Any) -> Any:
        under_way.append(1)
        await release.wait()
        return await take(self, message, **others)

    monkeypatch.setattr(Admission, "take", held)
    batches = [batch(*(body(f"{p}-{n}") for n in range(3)), partition=f"{p}") for p in range(3)]
    results = await asyncio.gather(*map(bench.hand_over, batches), return_exceptions=True)
    assert len(under_way) == 4
    assert [type(each) for each in results] == [ExceptionGroup] * 3
    assert asyncio.get_running_loop().time() < 60
    release.set()
    await asyncio.gather(*map(bench.hand_over, batches))
    assert len(bench.tasks()) == 9


async def test_other_work_runs_between_large_events(bench: HubBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most about 64 KiB of events are parsed in one round of the event loop."""
    rounds = [0]

    async def other_work() -> None:
        while True:
            await asyncio.sleep(0)
            rounds.append(0)

    async def parse(_self: Any, message: Any, **_others: Any) -> Any:
        rounds[-1] += len(message.body)

    monkeypatch.setattr(Admission, "take", parse)
    others = asyncio.create_task(other_work())
    await bench.hand_over(batch(*(body(f"t-{number}").ljust(24 * 1024) for number in range(30))))
    others.cancel()
    assert (max(rounds), sum(rounds)) == (72 * 1024, 720 * 1024)


TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize("name", ["traceparent", "Diagnostic-Id"])
def test_events_have_their_place_time_and_trace(name: str) -> None:
    """As many as there are bodies, whatever the metadata hold."""
    received_at = START + timedelta(seconds=5)
    properties: list[dict[str, Any]] = [{name: TRACE, "odd": [1]}, {}, {"beyond": 1}]
    first, second = events_of(batch(b"a", b"b", first=41, enqueued_at=received_at, properties=properties))
    assert [each.message.message_id for each in (first, second)] == ["3/41", "3/42"]
    assert (first.enqueued_at, first.message.body) == (received_at, b"a")
    assert (first.message.properties["traceparent"], second.message.properties) == (TRACE, {})
    assert [each.message.properties for each in events_of(batch(b"a", b"b", properties=[{"x": 1}]))] == [
        {"x": 1},
        {},
    ]
    [unnumbered] = batch(b"a")
    unnumbered.sequence_number = None
    with pytest.raises(ValueError, match="no number"):
        events_of([unnumbered])
