"""An order is one trace: its runs, the calls of its steps, and its requests to queues and their replies."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.trace import StatusCode

from functions.agents.agent_call import Call, RefusedError
from functions.core.derive import ProcessState, derive
from functions.messaging.agent_messages import Finding
from tests.unit.scheduler.steps import chain, once, raising, step
from tests.unit.scheduler.world import World, workflow
from tests.unit.storage.virtual import virtual
from tests.unit.telemetry.conftest import Spans, parent_of, spans, traceparent_of

__all__ = ["spans"]

SUBMISSION = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
_TRACE, _SUBMISSION_SPAN = SUBMISSION[3:35], SUBMISSION[36:52]


def _id_of(spans: Spans, name: str) -> str:
    return traceparent_of(spans.one(name))[36:52]


def _facts(spans: Spans, name: str) -> dict[str, Any]:
    return dict(spans.one(name).attributes or {})


@virtual
async def test_runs_and_steps_are_in_the_trace_of_the_order(spans: Spans) -> None:
    """The run is below the submission, and each step below its run, not below the step before it."""
    world = World(workflow(*chain(2)))
    await world.admit("t1", traceparent=SUBMISSION)
    await world.until_rest("t1")
    assert parent_of(spans.one("run_agents")) == _SUBMISSION_SPAN
    assert [parent_of(spans.one(f"step s{n}")) for n in range(2)] == [_id_of(spans, "run_agents")] * 2
    assert {traceparent_of(each)[3:35] for each in spans.all()} == {_TRACE}
    task = {"task.id": "t1", "task.workflow": "w", "task.epoch": 1}
    assert _facts(spans, "run_agents") == task
    assert _facts(spans, "step s1") == {
        **task,
        "step.name": "s1",
        "step.agent": "s1",
        "step.direction": "do",
        "step.outcome": "done",
    }


@virtual
async def test_items_look_ups_and_undos_have_their_facts(spans: Spans) -> None:
    """A look-up is a second span of its step. A refusal is an outcome, and no failure of the span."""
    pay = once("pay", agent="finder", undo=False)
    send = step("send", pay, for_each=lambda parcel: parcel.items)
    world = World(workflow(pay, send, step("ship", send, undo=False)))
    world.services.behaviour |= {
        "pay": raising(ConnectionError("gone")),
        "ship": raising(RefusedError("no")),
    }
    world.services.findings["pay"] = Finding.DONE
    await world.admit("t1", [5, 6], traceparent=SUBMISSION)
    await world.until_rest("t1")
    facts = [(each.name, each.attributes or {}) for each in spans.all() if each.name != "run_agents"]
    names = ("step.item", "step.direction", "step.outcome")
    assert [(step, *map(attributes.get, names)) for step, attributes in facts] == [
        ("step pay", None, "do", "unknown"),
        ("step pay", None, "do", "done"),
        ("step send", 0, "do", "done"),
        ("step send", 1, "do", "done"),
        ("step ship", None, "do", "refused"),
        ("step send", 1, "undo", "done"),
        ("step send", 0, "undo", "done"),
    ]
    assert spans.one("step ship").status.status_code is StatusCode.UNSET
    assert {traceparent_of(each)[3:35] for each in spans.all()} == {_TRACE}


@pytest.mark.parametrize("traceparent", [None, "", "00-1-2-3"])
@virtual
async def test_order_without_a_usable_trace_begins_one(spans: Spans, traceparent: str | None) -> None:
    """It was submitted while nothing was exported."""
    world = World(workflow(step("s0")))
    await world.admit("t1", traceparent=traceparent)
    await world.until_rest("t1")
    assert spans.one("run_agents").parent is None
    assert parent_of(spans.one("step s0")) == _id_of(spans, "run_agents")


@virtual
async def test_recovered_epoch_continues_the_trace(spans: Spans) -> None:
    """Its spans have the number of their epoch."""
    world = World(workflow(step("s0")))
    world.delivers_again = False

    async def crash(_call: Call) -> str:
        world.services.behaviour.clear()
        world.process.crash_at = world.process.requests + 1
        return '{"number":7}'

    world.services.behaviour["s0"] = crash
    await world.admit("t1", traceparent=SUBMISSION)
    record = await world.until_rest("t1")
    assert (record.epoch, derive(record).state) == (2, ProcessState.PROCESSED)
    recovered = [each for each in spans.all() if (each.attributes or {}).get("task.epoch") == 2]
    assert {each.name for each in recovered} == {"run_agents", "step s0"}
    assert {traceparent_of(each)[3:35] for each in recovered} == {_TRACE}
