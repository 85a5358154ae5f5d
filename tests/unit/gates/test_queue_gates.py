"""The gate of an Agent's queue: its circuit counts requests without a reply. Three hosts share the gate."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from itertools import cycle
from typing import Any

import pytest

from functions.core.deadline_rules import counts_as_failure
from functions.core.gate_rules import Circuit, Gate, count_overdue
from functions.core.record import Direction, FailurePolicy, OperationState
from functions.core.rules import fold
from tests.fakes.storage_process import START, virtual_now
from tests.unit.core.builders import after, cancel, new, payment, queue, start
from tests.unit.gates.scene import QUEUE, REQUEST, SETTINGS, QueueAgent, Scene
from tests.unit.storage.virtual import virtual


@pytest.mark.parametrize("count", [1, 4, 40])
@virtual
async def test_absent_agent_counts_at_most_n_failures_in_sum(count: int) -> None:
    """N opens the circuit (here 3); one task alone may count all of them. All tasks end."""
    scene = Scene(agent=QueueAgent((0, 600)))
    await scene.admit_many(count, REQUEST, within=60)
    await scene.live(840)
    assert sum((await scene.failures()).values()) == 3
    assert (await scene.gate(QUEUE)).circuit is Circuit.CLOSED


@virtual
async def test_no_deadline_of_a_request_runs_during_a_hold() -> None:
    """An operator holds the queue after requests were sent. Their steps are deferred uncounted."""
    scene = Scene(agent=QueueAgent((0, 120)))
    await scene.admit_many(2, REQUEST)
    await asyncio.sleep(2)
    await scene.processes[0].gates.hold(QUEUE, "maintenance", "op")
    await scene.live(100)
    assert [(each.epoch, each.failures) for each in await scene.records()] == [(1, 0), (1, 0)]
    assert (await scene.gate(QUEUE)).failures == 0


@virtual
async def test_circuit_of_a_queue_closes_only_after_a_reply() -> None:
    """Without one it stays half-open, also if nothing waits; half-open it gets one probe per five seconds."""
    scene = Scene(agent=QueueAgent((0, 1000)))
    await scene.admit_many(3, REQUEST)
    await scene.live(400)
    gate = await scene.gate(QUEUE)
    assert gate.circuit is not Circuit.CLOSED
    gates = scene.processes[0].gates
    changed = await scene.gate("queue:b")
    for number in range(3):
        changed = await count_one(scene, "queue:b", number)
    assert changed.circuit is Circuit.OPEN
    await scene.processes[0].receivers.releases.release("queue:b", changed.link)
    await scene.live(10, sweep_every=50)
    waiting = await scene.gate("queue:b")
    assert (waiting.circuit, waiting.next_at) == (Circuit.HALF_OPEN, None)
    await gates.refresh(is_forced=True)
    await gates.reply("queue:b", START, is_taken=True)  # sent before the circuit opened
    assert (await scene.gate("queue:b")).circuit is Circuit.HALF_OPEN
    await gates.reply("queue:b", virtual_now(), is_taken=True)
    await scene.live(5, sweep_every=50)
    assert (await scene.gate("queue:b")).circuit is Circuit.CLOSED


async def count_one(scene: Scene, name: str, number: int) -> Gate:
    """Count an overdue request at a gate, on one of the hosts."""
    gates = scene.processes[number % 3].gates
    sent_at = virtual_now() - timedelta(seconds=40)
    now, ends_at = virtual_now(), sent_at + timedelta(seconds=30)
    await gates.change(name, lambda gate: count_overdue(gate, sent_at, ends_at, now, gates.settings))
    return await scene.gate(name)


@virtual
async def test_first_reply_to_a_probe_counts_on_a_host_with_an_older_view() -> None:
    """The host has read the gate half a second before the circuit half-opened."""
    scene = Scene(agent=QueueAgent())
    first, second, _ = scene.processes
    await scene.admit_deferred(1, REQUEST)
    scene.loses = lambda _link: True  # the test delivers the messages of the chain
    await first.gates.reply(QUEUE, None, is_taken=False)
    await asyncio.sleep(4.5)
    await second.gates.refresh(is_forced=True)
    await asyncio.sleep(0.5)
    scene.turns = cycle([0, 0, 1])  # the last one receives the reply to the probe
    await first.receivers.releases.release(QUEUE, (await scene.gate(QUEUE)).link)
    await asyncio.sleep(6)
    await first.receivers.releases.release(QUEUE, (await scene.gate(QUEUE)).link)
    assert (await scene.gate(QUEUE)).circuit is Circuit.CLOSED


@virtual
async def test_hanging_agent_is_recovered_and_counted() -> None:
    """The Agent serves others: a request that it took and did not answer counts at its task."""
    scene = Scene(agent=(agent := QueueAgent()))
    agent.hanging = {"t0003"}
    await scene.admit_many(30, REQUEST, within=120)
    await scene.live(60)
    agent.hanging.clear()
    await scene.live(120)
    assert list(await scene.failures()) == ["t0003"]


@virtual
async def test_healthy_traffic_writes_no_gate() -> None:
    """Replies in time leave no row."""
    scene = Scene(agent=QueueAgent())
    await scene.admit_many(30, REQUEST, within=60)
    await scene.live(10)
    assert await scene.failures() == {}
    assert [place for place in scene.table.rows if place[0] == "gates"] == []


@virtual
async def test_agent_that_is_behind_costs_no_failure() -> None:
    """Its lag shows that it has not reached requests that expired behind others with more time."""
    scene = Scene(agent=QueueAgent(pace=1.0))
    await scene.admit_many(80, replace(REQUEST, complete_within=600), start="t-long")
    await asyncio.sleep(5)
    await scene.admit_many(20, REQUEST)
    await scene.live(60, sweep_every=10)
    gate = await scene.gate(QUEUE)
    assert gate.served
    assert scene.agent.expired > 0
    await scene.live(400, sweep_every=10)
    assert await scene.failures() == {}


@virtual
async def test_lag_is_written_at_most_each_two_seconds() -> None:
    """By one host: a lag of many replies is one fact."""
    scene = Scene()
    gates = scene.processes[0].gates
    for number in range(100):
        await gates.reply(QUEUE, virtual_now() - timedelta(seconds=20 - number / 100), is_taken=True)
        await scene.live(0.05, sweep_every=50)
    assert 2 <= len(scene.table.transactions) <= 4
    served = (await scene.gate(QUEUE)).served
    assert served
    await gates.reply(QUEUE, virtual_now() - timedelta(seconds=9), is_taken=True)
    assert (await scene.gate(QUEUE)).served == served


@pytest.mark.parametrize("hangs", [False, True])
@virtual
async def test_request_that_expired_costs_no_failure_after_the_agent_caught_up(*, hangs: bool) -> None:
    """The sweep comes when younger requests are answered. One that was taken and hangs is counted."""
    scene = Scene(agent=(agent := QueueAgent(pace=1.0)))
    agent.hanging = {"t0000"} if hangs else set()
    longer = replace(REQUEST, complete_within=600)
    await scene.admit_many(20 if hangs else 40, longer, start="t-long")
    await scene.admit_many(1, replace(REQUEST, complete_within=38))
    await asyncio.sleep(4)
    await scene.admit_many(20, longer, start="t-more")
    await scene.live(71, sweep_every=70)
    assert agent.expired == (0 if hangs else 1)
    agent.hanging.clear()
    await scene.live(120)
    assert list(await scene.failures()) == ["t0000"] * hangs


@virtual
async def test_not_taken_closes_the_gate_at_once() -> None:
    """Without a request on record, too."""
    scene = Scene()
    for sent_at, host in zip((virtual_now(), None), scene.processes, strict=False):
        name = f"queue:{sent_at is None}"
        await host.gates.reply(name, sent_at, is_taken=False)
        gate = await scene.gate(name)
        assert gate.circuit is Circuit.OPEN
        assert gate.next_at is not None
        assert timedelta(seconds=4.9) < gate.next_at - virtual_now() <= timedelta(seconds=5)


@pytest.mark.parametrize("case", ["one", "other order", "no recovery left", "older one held", "cancelled"])
@virtual
async def test_look_decides_on_the_request_that_its_gate_counts(case: str) -> None:
    """Its gate counts one request of a task in each look, so no other one fails."""
    gates, began = Scene().processes[0].gates, {"a": START, "b": START}
    if case == "older one held":
        await gates.hold(QUEUE, "short", "op")
        await asyncio.sleep(5)
        await gates.end_hold(QUEUE)
        began["b"] += timedelta(seconds=6)
    kinds: list[dict[str, Any]] = [{"idempotent": False}, {"on_failure": FailurePolicy.CONTINUE}]
    for kind in kinds[:1] if case == "cancelled" else kinds:
        record = new(queue("a", agent="card"), queue("b", agent="card", **kind))
        for name in "ba" if case == "other order" else "ab":
            record = fold(record, start(record, name), None, began[name], SETTINGS).record
        if case == "cancelled":
            record = after(record, cancel())
        await asyncio.sleep(60)
        failures = (await gates.read(QUEUE))[0].failures
        due = await gates.judge(record, may_recover=case != "no recovery left")
        record = fold(record, due, None, virtual_now(), SETTINGS).record
        is_over = record.do("b").state in {OperationState.REFUSED, OperationState.UNKNOWN}
        assert record.failures + is_over == (await gates.read(QUEUE))[0].failures - failures == 1


@virtual
async def test_request_beside_a_decision_ends_uncounted() -> None:
    """An optional step may always fail, but its undo only where a recovery is left."""
    gates = Scene().processes[0].gates
    record = new(optional := queue("a", agent="card"), payment(complete_within=3600))
    record = after(record, start(record, "a"), start(record, "pay", by=3600), cancel())
    await asyncio.sleep(60)
    due = await gates.judge(record, may_recover=True)
    ended = fold(record, due, None, virtual_now(), SETTINGS).record.do("a")
    assert (due.counted, ended.state) == (set(), OperationState.NOT_STARTED)
    undo = replace(record, direction=Direction.UNDO, decision=None)
    optional = replace(optional, on_failure=FailurePolicy.CONTINUE)
    assert counts_as_failure(record, optional, may_recover=False) > counts_as_failure(
        undo, optional, may_recover=False
    )


@virtual
async def test_reply_without_a_request_on_record_resets_the_failures() -> None:
    """A late reply proves that the Agent serves; it does not answer a probe."""
    scene = Scene()
    await count_one(scene, QUEUE, 0)
    assert (await count_one(scene, QUEUE, 1)).failures == 2
    await scene.processes[2].gates.refresh()
    await scene.processes[2].gates.reply(QUEUE, None, is_taken=True)
    assert (await scene.gate(QUEUE)).failures == 0
