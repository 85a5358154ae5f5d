"""Submissions become tasks with a Scheduler, or are rejected, each separately."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from inspect import unwrap
from typing import Annotated, Any
from unittest.mock import AsyncMock

import azure.functions as func
import pytest
from pydantic import BaseModel, Field, SecretStr

from functions.messages.batch import Batches
from functions.pattern.definition import Registry, Workflow
from functions.pattern.errors import TransientError
from functions.pattern.identity import TaskId
from functions.pattern.records import TaskRecord
from functions.pattern.rejected import Content, Labels
from functions.pattern.sent_again import Counts, resent
from functions.pattern.states import ProcessState, Way
from functions.pattern.store_ports import Admitted
from functions.pattern.submission_groups import MOST_IN_GROUP
from functions.submission.blueprint import submission_blueprint
from functions.submission.intake import Intake
from tests.fakes.clock import FakeClock
from tests.fakes.interventions import recovered
from tests.fakes.messages import RecordedPostbox, received
from tests.fakes.ports import fake_ports
from tests.fakes.queues import RecordedRejections, RecordedSchedulers, Rejection
from tests.fakes.store import MemoryStateStore
from tests.fakes.tasks import FIRST, after, claimed, pending, told
from tests.fakes.workflows import DIAMOND, TASK, each, step, submission, workflow

LABELS = Labels(subject="line", correlation_id="c-1", properties={"tenant": "blue"})


class Bench:
    """An intake with all that it works on."""

    def __init__(self, *workflows: Workflow) -> None:
        clock = FakeClock()
        self.postbox = RecordedPostbox()
        self.store = MemoryStateStore(clock)
        self.rejections = RecordedRejections()
        self.schedulers = RecordedSchedulers()
        self.intake = Intake(
            fake_ports(store=self.store, rejected=self.rejections, clock=clock, postbox=self.postbox),
            Registry(workflows or (DIAMOND,), {}),
            {"notices-demo"},
            pick_up_within=30,
            retention_days=30,
        )

    async def take(self, body: bytes, message_id: str = "m-1") -> None:
        """Take one message that is sent for the first time."""
        await self.take_again(message_id, Content(body, LABELS))

    async def take_again(self, message_id: str, content: Content) -> None:
        """Take one message with all that it carries."""
        await self.intake.take(message_id, content, self.schedulers)


@pytest.fixture
def bench() -> Bench:
    """Make an intake that has taken nothing."""
    return Bench()


def _body(**changes: Any) -> bytes:
    return json.dumps(submission().model_dump(mode="json") | changes).encode()


async def test_order_becomes_a_task_with_a_scheduler(bench: Bench) -> None:
    """`Pending` until a Scheduler claims it, which must be in time."""
    await bench.take(_body(reply_to="notices-demo"))
    record = bench.store.record(TASK)
    assert (record.task.process_state, record.task.due_at) == (ProcessState.PENDING, after(30))
    assert (record.order.payload, record.order.reply_to) == (b'{"weight":3}', "notices-demo")
    assert bench.schedulers.started == [(TASK, FIRST)]
    assert bench.rejections.all == []


async def test_scheduler_is_told_which_replies_it_may_have_to_take() -> None:
    """The steps whose Agents are behind queues."""
    bench = Bench(workflow(step("pick"), step("pay", via=Way.QUEUE), name="diamond"))
    await bench.take(_body())
    assert bench.schedulers.queued == [("pay",)]


async def test_task_has_a_step_for_each_item() -> None:
    """Its Scheduler is told of each that may get a reply."""
    bench = Bench(workflow(step("pick"), each("send", via=Way.QUEUE), name="diamond"))
    await bench.take(_body(payload={"weight": 2}))
    assert [step.name for step in bench.store.record(TASK).steps] == ["pick", "send.0", "send.1"]
    assert bench.schedulers.queued == [("send.0", "send.1")]


async def test_doubled_order_is_one_task(bench: Bench) -> None:
    """The Scheduler is started again: a crash may have kept the first start from happening."""
    await bench.take(_body())
    await bench.take(_body(), "m-2")
    assert (len(bench.store), bench.store.writes) == (1, 1)
    assert bench.schedulers.started == [(TASK, FIRST)] * 2
    assert bench.rejections.all == []


@pytest.mark.parametrize("record", [told(pending(), claimed()), recovered(pending())])
async def test_doubled_order_that_is_under_way_is_left_alone(bench: Bench, record: TaskRecord) -> None:
    """Its Scheduler runs, or a later epoch waits, whose own message starts one."""
    bench.store.put(record)
    await bench.take(_body())
    assert bench.schedulers.started == []


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "not JSON (EOF while parsing an object at line 1 column 1)"),
        (b"\xff", "not JSON"),
        (b"[]", "Input should be an object"),
        (_body().replace(b": 3", b": NaN"), "not a finite number"),
        (_body(priority=1), "priority: Extra inputs are not permitted"),
        (_body(schema_version=2), "schema_version: Input should be 1"),
        (_body(task_id="a|b"), "task_id: String should match pattern"),
        (_body(version=0), "version: Input should be greater than or equal to 1"),
        (_body(task_id="c-mine"), "id: what begins with c- is the application's own"),
        (_body(reply_to="elsewhere"), "reply_to: not a queue that replies may go to"),
        (_body(payload={"weight": "heavy"}), "weight: Input should be a valid integer"),
        (_body(payload={"weight": 1, "size": 2}), "size: Extra inputs are not permitted"),
    ],
)
async def test_message_that_cannot_be_used_is_kept_with_the_reason(
    bench: Bench, body: bytes, reason: str
) -> None:
    """It is completed, not delivered again: the next time it would be no better."""
    await bench.take(body)
    [kept] = bench.rejections.all
    assert (kept.queue, kept.message_id, kept.body) == ("submissions", "m-1", body)
    assert kept.reason.startswith(reason)
    assert (len(bench.store), bench.schedulers.started) == (0, [])


class Letter(BaseModel):
    """A payload of any size."""

    text: str


async def test_payload_that_is_too_large_is_rejected() -> None:
    """48 KiB are kept in a row; the API would not have let it through."""
    bench = Bench(replace(DIAMOND, payload=Letter))
    await bench.take(_body(payload={"text": "x" * (48 * 1024)}))
    assert bench.rejections.all[0].reason == "payload: more than 49152 bytes"
    assert len(bench.store) == 0


async def test_order_with_too_many_items_is_rejected() -> None:
    """Who has put it on the queue, did not ask the API."""
    bench = Bench(workflow(each("send"), name="diamond"))
    await bench.take(_body(payload={"weight": 91}))
    assert [rejection.reason for rejection in bench.rejections.all] == [
        "It has too many items: with a step for each, more than 90 steps."
    ]


class Checked(BaseModel):
    """Has secret fields that are validated."""

    card: Annotated[SecretStr, Field(min_length=12)]
    doors: dict[SecretStr, int] = {}


async def test_reason_does_not_repeat_the_value(caplog: pytest.LogCaptureFixture) -> None:
    """The reason and its log line name the field and its fault only."""
    bench = Bench(replace(DIAMOND, payload=Checked))
    await bench.take(_body(payload={"card": "c4n4ry"}))
    assert (
        bench.rejections.all[0].reason == "card: Value should have at least 12 items after validation, not 6"
    )
    await bench.take(_body(payload={"card": "x" * 12, "doors": {"c4n4ry": "x"}}), "m-2")
    assert bench.rejections.all[1].reason.startswith("doors: Input should be a valid integer")
    assert "c4n4ry" not in caplog.text


async def test_order_is_recorded_under_its_own_version() -> None:
    """One that names no version takes the newest."""
    newer = replace(DIAMOND, version=2, steps=DIAMOND.steps[:1])
    bench = Bench(newer, DIAMOND)
    await bench.take(_body(version=1))
    await bench.take(_body(version=None, task_id="task-2"))
    first, second = (bench.store.record(task).order for task in (TASK, TaskId("task-2")))
    assert (first.workflow_version, first.shape) == (1, DIAMOND.shape)
    assert (second.workflow_version, second.shape) == (2, newer.shape)


@pytest.mark.parametrize("changes", [{"workflow": "journey"}, {"version": 7}])
async def test_order_of_what_is_not_deployed_comes_again_later(bench: Bench, changes: dict[str, Any]) -> None:
    """Each time later, for a day; the message is the same, under a new id, and counts."""
    body, message_id = _body(**changes), "m-1"
    content = Content(body, LABELS)
    while not bench.rejections.all:
        await bench.take_again(message_id, content)
        _, message_id, content, _ = bench.postbox.sent[-1]
    delays = [(each[3] - after(0)).total_seconds() for each in bench.postbox.sent if each[3] is not None]
    assert delays[:4] == [10, 20, 40, 80]
    assert max(delays) == delays[-1] == 1800
    assert 86_400 <= sum(delays) < 90_000
    assert len({"m-1", *(each[1] for each in bench.postbox.sent)}) == len(delays) + 1
    assert {(each[0], each[2].body) for each in bench.postbox.sent} == {("submissions", body)}
    assert resent("m-1", bench.postbox.sent[-1][2], 1)[1].labels == LABELS
    assert bench.rejections.all[0].reason.startswith("workflow: no '")
    assert bench.rejections.all[0].reason.endswith("was deployed for a day")
    assert (len(bench.store), bench.schedulers.started) == (0, [])


async def test_what_waited_for_a_day_waits_again_when_it_is_sent_again() -> None:
    """Its workflow is being deployed at last, beside hosts that lack it: no queue may drop it."""
    bench = Bench(workflow(step("pick"), name="journey"))
    message_id, content = Counts(put_back=55).sent_with("m-1", Content(_body(), LABELS))
    await bench.take_again(message_id, content)
    assert bench.rejections.all[0].reason.endswith("was deployed for a day")
    await bench.take_again(*resent(message_id, content, 1))
    assert Counts.of(bench.postbox.sent[-1][2]) == Counts(put_back=1)
    assert (len(bench.postbox.sent), len(bench.rejections.all)) == (1, 1)


async def test_order_that_is_found_by_too_much_is_rejected() -> None:
    """The queue is no trust boundary: the API has refused it."""
    bench = Bench(workflow(step("pick"), name="diamond", find_by=lambda _: map(str, range(9))))
    await bench.take(_body())
    [kept] = bench.rejections.all
    assert kept.reason == "It is found by 9 texts; at most 8 are possible."
    assert len(bench.store) == 0


async def test_other_order_under_a_known_id_is_rejected(bench: Bench) -> None:
    """The first one stands."""
    await bench.take(_body())
    other = _body(payload={"weight": 4})
    await bench.take(other, "m-2")
    assert bench.rejections.all == [
        Rejection("submissions", "m-2", other, "other content is known as task-1")
    ]
    assert bench.store.record(TASK).order.payload == b'{"weight":3}'


async def test_failing_store_has_the_message_delivered_again(bench: Bench) -> None:
    """It is neither lost nor rejected."""
    bench.store.failure = TransientError("Table Storage: ServiceRequestError")
    with pytest.raises(TransientError):
        await bench.take(_body())
    assert (bench.rejections.all, bench.schedulers.started) == ([], [])
    bench.store.failure = None
    await bench.take(_body())
    assert bench.schedulers.started == [(TASK, FIRST)]


async def test_rejected_submission_is_kept_whole_and_found_by_its_task() -> None:
    """Sent again, it has all that its sender gave it; what can't be read names no task."""
    bench = Bench()
    await bench.take(_body())
    await bench.take(_body(payload={"weight": 4}), "m-2")
    await bench.take(b"{", "m-3")
    assert bench.rejections.labels == [LABELS, LABELS]
    assert [each.task for each in bench.rejections.about] == [TASK, None]


SLOW, QUICK = TaskId("slow"), TaskId("quick")


class SlowForOne(MemoryStateStore):
    """Records one task when the test lets it."""

    def __init__(self) -> None:
        super().__init__(FakeClock())
        self.let_go = asyncio.Event()

    async def admit(self, record: TaskRecord) -> Admitted:
        """Record a new task, at once or later."""
        if record.order.task == SLOW:
            await self.let_go.wait()
        return await super().admit(record)


def _message(task: TaskId) -> func.ServiceBusMessage:
    """Make a message of the batch, as the host hands it over."""
    order = submission(task=task).model_dump(mode="json")
    return received(json.dumps(order).encode(), f"m-{task}")


class Desk:
    """The submission function, with all that it works on."""

    def __init__(self) -> None:
        self.store, self.schedulers = SlowForOne(), RecordedSchedulers()
        self.rejected, self.postbox = RecordedRejections(), RecordedPostbox()
        ports = fake_ports(
            store=self.store,
            rejected=self.rejected,
            clock=FakeClock(),
            postbox=self.postbox,
            new_id=lambda: "0" * 32,
        )
        intake = Intake(ports, Registry((DIAMOND,), {}), (), pick_up_within=30, retention_days=30)
        batches = Batches("submissions", self.postbox, ports.clock, AsyncMock())
        blueprint = submission_blueprint(intake, lambda _: self.schedulers, batches)
        [take] = [unwrap(each.build().get_user_function()) for each in blueprint._function_builders]
        self.take = take


async def test_start_of_an_order_waits_for_no_other() -> None:
    """The one behind it is recorded late; it starts all the same."""
    desk = Desk()
    batch = asyncio.create_task(desk.take([_message(SLOW), _message(QUICK)], None))
    while not (desk.schedulers.started or batch.done()):
        await asyncio.sleep(0)
    assert desk.schedulers.started == [(QUICK, 1)]
    desk.store.let_go.set()
    await batch
    assert desk.schedulers.started == [(QUICK, 1), (SLOW, 1)]


def _group(*lines: bytes) -> func.ServiceBusMessage:
    header = json.dumps({"schema_version": 1, "orders": len(lines)}).encode()
    return received(b"\n".join([header, *lines]), "group")


async def test_orders_of_one_message_are_taken_each_by_itself() -> None:
    """One that can't be read is set aside as if it had come alone: it can be sent again, or discarded."""
    desk = Desk()
    good, last = (submission(task=TaskId(task)).written for task in ("good", "last"))
    single = submission(task=QUICK).written
    unfit = good.replace(b'"workflow":"diamond"', b'"workflow":7')
    await desk.take([_group(good, b"{", unfit, last), received(single)], None)
    assert {task for task, _ in desk.schedulers.started} == {"good", "last", QUICK}
    kept = [(each.message_id, each.body, each.reason) for each in desk.rejected.all]
    assert kept == [
        ("group.1", b"{", "not JSON (EOF while parsing an object at line 1 column 1)"),
        ("group.2", unfit, "workflow: Input should be a valid string"),
    ]


async def test_order_that_fails_is_put_back_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its neighbours in the message are not taken again with it."""
    monkeypatch.setattr("functions.messages.blueprint.patience_of", lambda _: 0.05)
    desk = Desk()
    slow = submission(task=SLOW).written
    await desk.take([_group(slow, submission(task=QUICK).written)], None)
    assert desk.schedulers.started == [(QUICK, 1)]
    [(queue, _, content, _)] = desk.postbox.sent
    assert (queue, content.body) == ("submissions", slow)


@pytest.mark.parametrize("told", [1, 3, MOST_IN_GROUP + 1])
async def test_message_that_lacks_orders_is_set_aside_whole(told: int) -> None:
    """Nobody knows which they were."""
    desk = Desk()
    lines = [submission(task=QUICK).written] * (told if told > MOST_IN_GROUP else 2)
    body = b"\n".join([json.dumps({"schema_version": 1, "orders": told}).encode(), *lines])
    await desk.take([received(body, "group")], None)
    assert [each.body for each in desk.rejected.all] == [body]
    assert desk.schedulers.started == []
