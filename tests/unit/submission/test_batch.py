"""A batch of messages: each order's Scheduler starts when that order is recorded."""

from __future__ import annotations

import asyncio
import json
from inspect import unwrap
from unittest.mock import AsyncMock

import azure.functions as func
import pytest

from functions.messages.batch import Batches
from functions.pattern.definition import Registry
from functions.pattern.identity import TaskId
from functions.pattern.records import TaskRecord
from functions.pattern.store_ports import Admitted
from functions.pattern.submission_groups import MOST_IN_GROUP
from functions.submission.blueprint import submission_blueprint
from functions.submission.intake import Intake
from tests.fakes.clock import FakeClock
from tests.fakes.messages import RecordedPostbox, received
from tests.fakes.ports import fake_ports
from tests.fakes.queues import RecordedRejections, RecordedSchedulers
from tests.fakes.store import MemoryStateStore
from tests.fakes.workflows import DIAMOND, submission

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
