"""Outages of a service, of an Agent behind a queue, and of the Supervisor. Three hosts share the gates."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

import pytest

from functions.core.gate_rules import Circuit
from functions.core.record import MessageKind, RuleSettings, StepSpec
from functions.core.task_events import OutcomeKind
from tests.unit.gates.scene import CALL, QUEUE, REQUEST, SERVICE, QueueAgent, Scene, Service, seconds
from tests.unit.storage.virtual import virtual


def waiting(scene: Scene) -> list[str]:
    """Return the tasks that wait behind gates, in waiting order."""
    return [key.rpartition("|")[2] for key in sorted(scene.table.keys("!gate"))]


def is_in_order(served: Sequence[str], tasks: Sequence[str], intervals: Iterable[int]) -> bool:
    """Return whether tasks were served in waiting order; the tasks of one interval in any order."""
    ranks, place = [tasks.index(task) for task in served if task in tasks], 0
    for amount in intervals:
        chunk = ranks[place : place + amount]
        if sorted(chunk) != list(range(place, place + len(chunk))):
            return False
        place += amount
    return len(ranks) == len(tasks) <= place


@virtual
async def test_service_that_is_down_for_ten_minutes_costs_no_failure() -> None:
    """300 tasks wait for it. One alert is raised, only probes write, and all tasks end soon after its return.

    A probe writes two rows of the gate and three changes of its task; a conflict of two hosts may be added.
    """
    scene = Scene(service=(service := Service((30, 630), kind=OutcomeKind.NOT_BEGUN)))
    await scene.admit_many(300, within=300)
    await scene.live(60)
    before, since = len(scene.table.transactions), seconds() - 62  # a probe may be under way
    await scene.live(629 - seconds())
    probed = [task for at, task, _ in service.calls if at > since]
    written = [key for changes in scene.table.transactions[before:] for key in {each.key for each in changes}]
    assert 8 <= len(probed) <= 70
    assert {key.partition("|")[0] for key in written if key.endswith("|task")} <= {*probed}
    assert sum(key == SERVICE or key.endswith("|task") for key in written) <= 6 * len(probed)
    tasks, intervals = waiting(scene), len(scene.amounts())
    await scene.live(630 + 180 - seconds())
    assert await scene.failures() == {}
    assert is_in_order(service.served, tasks, scene.amounts()[intervals:])
    assert [each.body["gate"] for each in scene.sent if each.kind is MessageKind.ALERT] == [SERVICE]
    assert (await scene.gate()).circuit is Circuit.CLOSED


@virtual
async def test_call_that_fails_while_others_succeed_is_counted() -> None:
    """The circuit stays closed; a hold that begins meanwhile stops no deadline of a call."""
    scene = Scene(service=Service((0, 1), kind=OutcomeKind.UNKNOWN))
    await scene.admit_many(2)
    await asyncio.sleep(1)
    await scene.processes[0].gates.hold(SERVICE, "maintenance", "op")
    await scene.live(60)
    await scene.processes[0].gates.end_hold(SERVICE)
    await scene.live(10)
    assert sum((await scene.failures()).values()) == 2


@pytest.mark.parametrize("spec", [CALL, REQUEST], ids=["service", "queue"])
@virtual
async def test_hold_over_a_weekend_fails_and_undoes_no_task(spec: StepSpec) -> None:
    """Requests are in the queue when the hold begins, and orders with a time limit arrive all the time."""
    scene = Scene(agent=QueueAgent((0, 64 * 3600.0), expires_on_receive=True))
    await scene.admit_many(20, spec)
    await asyncio.sleep(2)
    await scene.processes[0].gates.hold(spec.gate, "maintenance", "op")
    for number in range(30):
        await scene.admit_one(f"t{20 + number:04d}", spec, complete_within=3600.0)
        await scene.live(2 * 3600, sweep_every=1800)
    await scene.live(4 * 3600, sweep_every=1800)
    tasks, calls, intervals = waiting(scene), len(scene.service.served), len(scene.amounts(spec.gate))
    assert len(tasks) == (30 if spec is CALL else 50)
    await scene.processes[1].gates.end_hold(spec.gate)
    await scene.live(60)
    assert await scene.failures() == {}
    served = scene.service.served[calls:] or [task for _, task in scene.agent.taken]
    assert is_in_order(served, tasks, scene.amounts(spec.gate)[intervals:])


@virtual
async def test_agent_that_is_stopped_for_an_hour_costs_the_failures_that_open_its_circuit() -> None:
    """Its requests expire only when it receives again. The tasks end in the order of their first requests."""
    scene = Scene(agent=(agent := QueueAgent((0, 3600), expires_on_receive=True)))
    await scene.admit_many(120, REQUEST, within=3000)
    await scene.live(3600 - seconds())
    assert agent.expired == 0
    tasks, intervals = waiting(scene), len(scene.amounts(QUEUE))
    assert len(tasks) >= 113  # the latest probes are under way
    await scene.live(180)
    assert sum((await scene.failures()).values()) == 3
    assert agent.expired > 100
    amounts = scene.amounts(QUEUE)[intervals + 1 :]  # a host with an older view defers the first probe again
    assert is_in_order([task for _, task in agent.taken], tasks, amounts)
    assert (await scene.gate(QUEUE)).circuit is Circuit.CLOSED


@virtual
async def test_supervisor_that_is_stopped_for_an_hour_continues_at_the_bounded_rate() -> None:
    """Meanwhile no run picked up 90 tasks, the calls of 80 failed, and the requests of 80 expired."""
    scene = Scene(
        agent=QueueAgent((0, 3600), expires_on_receive=True), settings=RuleSettings(open_after=1000)
    )
    scene.service.down = ((0, 60),)
    await scene.admit_many(80, CALL)
    await scene.admit_many(80, REQUEST, start="t1")
    await asyncio.sleep(2)
    scene.delivers = False
    await scene.admit_many(90, CALL, start="t2")
    scene.delivers = True
    await asyncio.sleep(3600)
    recovered: list[int] = []
    for _ in range(4):
        recovered.append((await scene.processes[0].supervisor.run()).recovered)
        await asyncio.sleep(30)
    assert recovered == [100, 100, 50, 0]
    assert sum((await scene.failures()).values()) == 250
