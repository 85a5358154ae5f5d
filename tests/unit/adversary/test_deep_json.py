"""JSON that is nested deeper than messages and rows can be written costs what was done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from functions.messages.reading import read_message
from functions.pattern.agent_messages import AgentRequest
from functions.pattern.announcements import announcements
from functions.pattern.completion import complete
from functions.pattern.definition import Registry, Workflow
from functions.pattern.folding import Answer
from functions.pattern.identity import StepName
from functions.pattern.records import TaskRecord
from functions.pattern.states import ProcessState, Way
from functions.store.entities import announcement_of, outbox_entity
from functions.store.task_writer import TaskWriter
from functions.pattern.messages import order_of
from functions.pattern.transitions import admit
from tests.fakes.orders import ORDERS
from tests.fakes.runners import RecordedRequests
from tests.fakes.tasks import after, claimed, completed, pending, started, told
from tests.fakes.workflows import BIRTH, TASK, step, workflow
from tests.unit.api.conftest import Api
from tests.unit.api.conftest import api as api  # noqa: PLC0414 - the fixture
from tests.unit.api.samples import ORDER
from tests.unit.scheduler.bench import Bench
from tests.unit.store.rows import MemoryRows
from tests.unit.store.writers import Writer


def _nested(levels: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for _ in range(levels):
        made = {"a": made}
    return made


def _answering(levels: int) -> Workflow:
    return replace(workflow(step("pay")), answer=lambda *_: _nested(levels))


def _told_of_its_end(of: Workflow) -> TaskRecord:
    record = pending(of)
    return told(
        replace(record, order=replace(record.order, reply_to="notices-demo")), claimed(), started("pay")
    )


async def test_task_is_processed_though_its_answer_is_nested_deeply() -> None:
    """Issue 4: where an answer can't be given, it is recorded and alerted; the task is processed all the same."""
    of = _answering(300)
    rows = MemoryRows(_told_of_its_end(of))
    writer = Writer(rows)
    writer.writer = TaskWriter(
        rows, clock=writer.clock, new_id=iter(map(str, range(100))).__next__,
        complete=partial(complete, Registry((of,), {})),
    )
    assert isinstance(await writer.tell(completed("pay")), Answer)
    assert rows.record(TASK).task.process_state is ProcessState.PROCESSED


def test_notice_with_an_answer_can_be_read_again() -> None:
    """What lies in the outbox is what a sweep sends: a row that nobody can read is a notice that is lost."""
    of = _answering(200)
    before = _told_of_its_end(of)
    after = complete(Registry((of,), {}), told(before, completed("pay")))
    for each in announcements(before, after):
        assert announcement_of(outbox_entity(each)) == each


async def test_request_that_no_message_can_hold_holds_the_task_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 3: what can't be sent is a defect, found before anything is sent; it is no outage to recover from."""

    def request(_payload: Any, _results: Mapping[StepName, Any]) -> dict[str, Any]:
        return _nested(400)

    async def ask(_: RecordedRequests, _agent: str, given: AgentRequest) -> None:
        given.model_dump_json()  # as functions/bus/messages.py does

    monkeypatch.setattr(RecordedRequests, "ask", ask)
    bench = Bench(workflow(replace(step("pay", via=Way.QUEUE), request=request)))
    await bench.run()
    assert bench.state is ProcessState.ERROR, bench.step("pay")


@pytest.mark.parametrize("levels", [90, 101, 150])
async def test_request_that_is_sent_can_be_read_by_its_agent(levels: int) -> None:
    """It was checked before it was sent; an Agent that rejects it never replies, so all recoveries are in vain."""

    def request(_payload: Any, _results: Mapping[StepName, Any]) -> dict[str, Any]:
        return _nested(levels)

    bench = Bench(workflow(replace(step("pay", via=Way.QUEUE), request=request)))
    await bench.run()
    if bench.state is ProcessState.ERROR:
        return  # told at once
    [(_, sent)] = bench.requests.sent
    assert read_message(AgentRequest, sent.model_dump_json().encode()) == sent


async def test_order_with_a_deep_answer_can_be_read(api: Api) -> None:
    """The answer was recorded as one that can be given; `GET` is a server error for ever."""
    of = replace(ORDERS, answer=lambda *_: _nested(300))
    assert (await api.serving(of).put("/api/orders/mine", ORDER)).status == 202
    record = admit(order_of(api.submissions.messages[0], of, BIRTH), pick_up_by=after(30))
    claim = claimed(task=record.order.task)
    start = started("payment", task=record.order.task, token="token-of-this-request")
    end = completed("payment", task=record.order.task, token="token-of-this-request")
    api.store.put(complete(Registry((of,), {}), told(record, claim, start, end)))
    assert (await api.serving(of).get("/api/orders/mine")).status == 200
