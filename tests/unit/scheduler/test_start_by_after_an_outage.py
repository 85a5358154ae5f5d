"""The time in which what follows must start runs from when it was recorded: an outage is nobody's failure."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from functions.pattern.agent_messages import AgentReply
from functions.pattern.errors import TransientError
from functions.pattern.events import Postponed
from functions.pattern.identity import StepName
from functions.pattern.states import Outcome, Way
from functions.pattern.supervision import judge
from functions.scheduler.takers import ReplyTaker
from functions.store.state_store import TableStateStore
from tests.fakes.announcer import RecordingAnnouncer
from tests.fakes.ports import fake_ports
from tests.fakes.queues import RecordedRejections, RecordedSchedulers
from tests.fakes.runners import limits
from tests.fakes.supervision import POLICY
from tests.fakes.tasks import FIRST, claimed, pending, started, told
from tests.fakes.times import RecordedRefusals
from tests.fakes.workflows import TASK, step, workflow
from tests.unit.scheduler.written import Process
from tests.unit.store.rows import MemoryRows

TOKEN = "token-of-this-request"


@pytest.mark.xfail(reason="known limit: start_by is fixed before the wait: costs one recovery", strict=True)
async def test_reply_that_is_recorded_after_an_outage_leaves_time_for_what_follows() -> None:
    """The store fails for 40 s, the step had 300: its reply is recorded, and the task is overdue at once."""
    of = workflow(step("pick", via=Way.QUEUE), step("send", "pick"), name="line-q")
    rows = MemoryRows(told(pending(of), claimed(), started("pick", token=TOKEN, complete_by=300)))
    process = Process(of, rows)
    store = TableStateStore(cast("Any", rows), process.writer, RecordingAnnouncer())
    ports = fake_ports(store=store, clock=process.clock, rejected=RecordedRejections())
    taker = ReplyTaker(ports, limits(), RecordedRefusals().alert)
    await store.known(TASK)
    reply = AgentReply(
        schema_version=1,
        task_id=TASK,
        step=StepName("pick"),
        epoch=FIRST,
        token=TOKEN,
        outcome=Outcome.COMPLETED,
    )
    rows.error = TransientError("503")
    schedulers = RecordedSchedulers()
    taking = asyncio.create_task(taker.take("m-1", reply.model_dump_json().encode(), schedulers))
    while not rows.sent:
        await asyncio.sleep(0)
    process.clock.advance(40)
    rows.error = None
    await taking
    assert process.step("pick").settled
    assert len(schedulers.woken) == 1
    judged = judge(process.record, process.clock.now(), POLICY)
    assert isinstance(judged, Postponed), judged
