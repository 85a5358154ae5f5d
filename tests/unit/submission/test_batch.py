"""A batch of messages: each order's Scheduler starts when that order is recorded."""

from __future__ import annotations

import asyncio
import json
from inspect import unwrap
from unittest.mock import AsyncMock

import azure.functions as func

from functions.messages.batch import Batches
from functions.pattern.definition import Registry
from functions.pattern.identity import TaskId
from functions.pattern.records import TaskRecord
from functions.pattern.store_ports import Admitted
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


async def test_start_of_an_order_waits_for_no_other() -> None:
    """The one behind it is recorded late; it starts all the same."""
    store, schedulers = SlowForOne(), RecordedSchedulers()
    ports = fake_ports(store=store, rejected=RecordedRejections(), clock=FakeClock())
    intake = Intake(ports, Registry((DIAMOND,), {}), (), 30)
    batches = Batches("submissions", RecordedPostbox(), ports.clock, AsyncMock())
    blueprint = submission_blueprint(intake, lambda _: schedulers, batches)
    [take] = [unwrap(each.build().get_user_function()) for each in blueprint._function_builders]
    batch = asyncio.create_task(take([_message(SLOW), _message(QUICK)], None))
    while not (schedulers.started or batch.done()):
        await asyncio.sleep(0)
    assert schedulers.started == [(QUICK, 1)]
    store.let_go.set()
    await batch
    assert schedulers.started == [(QUICK, 1), (SLOW, 1)]
