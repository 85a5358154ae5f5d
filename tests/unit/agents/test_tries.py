"""Operators see how often a running step was tried in vain, and why, without a write for each try."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest

from functions.agents.queued import QueuedAgent
from functions.agents.tries import Tries
from functions.pattern.decisions import in_question
from functions.pattern.errors import TransientError
from functions.pattern.events import Event
from functions.pattern.identity import StartId, StepName, TaskId, start_of
from functions.pattern.ports import AgentCall
from functions.pattern.states import StepState, Way
from functions.pattern.texts import cause_of
from tests.fakes.agent_requests import MemoryAgentRequests
from tests.fakes.agents import ScriptedAgent, raising
from tests.fakes.clock import FakeClock
from tests.fakes.interventions import giving_up
from tests.fakes.ports import fake_ports
from tests.fakes.store import MemoryStateStore
from tests.fakes.tasks import FIRST, after, claimed, pending, started, told
from tests.fakes.workflows import LINE, TASK, each, step, workflow
from tests.unit.agents.test_queued import REQUEST
from tests.unit.scheduler.bench import Bench


class _Notes(MemoryStateStore):
    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.noted: list[Event] = []

    async def note(self, task: TaskId, event: Event) -> None:
        """Take the event, and keep it."""
        self.noted.append(event)
        await super().note(task, event)


def _tries(store: MemoryStateStore, clock: FakeClock, start_id: StartId | None) -> Tries:
    pick = StepName("pick")
    return Tries(store.note, clock, task=TASK, epoch=FIRST, step=pick, start_id=start_id)


async def test_attempts_are_noted_from_the_third_on() -> None:
    """And then every ten seconds at most, as long as the step runs; the task stays as it is."""
    clock = FakeClock()
    store = _Notes(clock)
    running = store.put(told(pending(LINE), claimed(), started("pick", complete_by=60))).record
    pick = running.steps[0].name
    tries = _tries(store, clock, running.step(pick).start_id)
    for _ in range(14):
        await tries.failed(TransientError("pick answered 503"))
        clock.advance(1)
    assert len(store.noted) == 2
    noted = store.record(TASK)
    assert (noted.step(pick).attempts, noted.step(pick).error) == (13, "pick answered 503")
    assert noted.task == running.task


async def test_last_fault_stands_on_a_step_that_got_no_outcome() -> None:
    """Of a service, and of an Agent with a defect; a new start begins without it."""
    bench = Bench(workflow(step("pick"), step("send"), name="two"))
    bench.agents.behaviours["pick"] = raising(TransientError("pick answered 503"))
    bench.agents.behaviours["send"] = raising(KeyError("url"))
    await bench.run()
    assert (bench.step("pick").error, bench.step("pick").attempts) == ("pick answered 503", 1)
    assert bench.step("send").error == "KeyError: 'url'"
    assert bench.step("pick").state is StepState.RUNNING


async def test_fault_of_an_older_start_is_not_taken_for_the_latest_ones() -> None:
    """It may be told long after."""
    clock = FakeClock()
    store = MemoryStateStore(clock)
    running = store.put(told(pending(LINE), claimed(), started("pick", start_id="new"))).record
    pick = running.steps[0].name
    await _tries(store, clock, None).ended(TransientError("old"))
    assert store.record(TASK).step(pick).error is None


@pytest.mark.parametrize("fault", [TransientError("pick answered 504"), KeyError("url")], ids=repr)
async def test_unknown_outcome_over_a_queue_names_its_last_fault(fault: Exception) -> None:
    """The Agent knows the start by its request's token; when the task is held, it stands in the reason."""
    clock, script = FakeClock(), ScriptedAgent()
    store = MemoryStateStore(clock)
    token, of = "token-of-this-request", workflow(step("pick", idempotent=False, via=Way.QUEUE), name="one")
    begun = started("pick", complete_by=60, token=token, start_id=start_of(token))
    store.put(told(pending(of), claimed(), begun))
    ports = fake_ports(clock=clock, agent_requests=MemoryAgentRequests())
    agent = QueuedAgent("pick", script, ports, function_timeout=300, note=store.note)
    script.behaviour = raising(fault)
    request = REQUEST | {"task_id": TASK, "step": "pick", "epoch": 1, "token": token, "idempotent": False}
    with suppress(KeyError):
        await agent.take("m-1", json.dumps(request).encode())
    found = store.record(TASK).step(StepName("pick"))
    assert (found.attempts, found.error) == (1, cause_of(fault))
    held = told(store.record(TASK), giving_up(hold=True), now=after(70))
    assert (in_question(held) or "").endswith(f"it must not run twice ({cause_of(fault)})")


async def test_fault_of_one_item_over_a_queue_stands_on_that_item() -> None:
    """And of a request that its Agent has ended, what was left for it to wait is not waited."""
    clock, script = FakeClock(), ScriptedAgent()
    store = MemoryStateStore(clock)
    token, of = "token-of-this-request", workflow(each("pick", via=Way.QUEUE), name="many")
    begun = started("pick.1", complete_by=60, token=token, start_id=start_of(token))
    store.put(told(pending(of), claimed(), begun))
    agent = QueuedAgent("pick", script, fake_ports(clock=clock), function_timeout=300, note=store.note)
    script.behaviour = raising(TransientError("pick answered 503"))
    request = REQUEST | {"task_id": TASK, "step": "pick", "item": 1, "epoch": 1, "token": token}
    request |= {"complete_by": after(60).isoformat(), "complete_within": 10}
    await agent.take("m-1", json.dumps(request).encode())
    found = store.record(TASK).step(StepName("pick.1"))
    assert (found.attempts, found.error, found.complete_by) == (1, "pick answered 503", after(10))


def test_call_is_the_same_whoever_hears_of_its_faults() -> None:
    """So that two calls can be compared."""

    async def hear(_: Exception) -> None:
        """Nothing is done with it."""

    values = {"task": TASK, "effect_key": "k", "request": {}, "complete_by": after(9)}
    assert AgentCall(**values) == AgentCall(**values, failed=hear)  # type: ignore[arg-type]
