"""Deferral behind the gate of a service, and its release chain. Three hosts share the gate."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from itertools import groupby

import pytest

from functions.core.derive import ProcessState, derive
from functions.core.gate_rules import Circuit
from functions.core.record import MessageKind, StepSpec
from functions.core.task_events import OutcomeKind, Suspended
from functions.storage.gate_releases import GateReleases
from functions.storage.row_keys import gate_key
from functions.storage.table_contract import RowChange
from tests.fakes.storage_process import START, virtual_now
from tests.unit.gates.scene import CALL, REQUEST, SERVICE, QueueAgent, Scene, Service
from tests.unit.storage.virtual import virtual


@virtual
async def test_two_thousand_tasks_behind_a_closed_gate_cost_nothing_until_it_half_opens() -> None:
    """Then they are released 1, 2, 4, … up to the limit, in waiting order, and count no failure."""
    scene = Scene()
    await scene.processes[0].gates.hold(SERVICE, "maintenance", "op")
    await scene.admit_deferred(2000)
    before, reads = len(scene.table.transactions), scene.table.reads
    await scene.live(600)
    written = {change.key for changes in scene.table.transactions[before:] for change in changes}
    assert written == {"sweep"}
    assert scene.table.reads - reads <= 19 * 25  # queries of the sweeps, as with no task at all
    await scene.processes[1].gates.end_hold(SERVICE)
    await scene.live(60)
    ramp = [amount for amount, _ in groupby(scene.amounts())]
    assert ramp[:8] == [1, 2, 4, 8, 16, 32, 64, 100]
    assert max(ramp) == 100
    assert sorted(scene.service.served) == [f"t{n:04d}" for n in range(2000)]
    places = [abs(place - int(task[1:])) for place, task in enumerate(scene.service.served)]
    assert max(places) <= 100  # those of one interval run side by side
    assert (await scene.gate()).circuit is Circuit.CLOSED
    assert len(scene.links) < 40


@virtual
async def test_failing_service_is_probed_by_one_step_at_a_time() -> None:
    """Tasks that arrive meanwhile are deferred, and none counts a failure after the circuit has opened."""
    scene = Scene(service=Service((0, 60), kind=OutcomeKind.NOT_BEGUN))
    await scene.admit_many(60, within=30)
    await scene.live(90, sweep_every=10)
    assert await scene.failures() == {}
    refused = [at for at, _, is_served in scene.service.calls if not is_served]
    assert len(refused) < 20  # some hosts see the opening up to two seconds later
    assert max(Counter(int(at) for at in refused if at > 5).values()) == 1
    served = scene.service.served
    places = [abs(place - int(task[1:])) for place, task in enumerate(served)]
    assert max(places) <= 32


@virtual
async def test_failures_in_a_row_open_the_circuit_for_all_hosts() -> None:
    """A host that did not fail itself sees the open circuit after two seconds."""
    scene = Scene()
    first, second, _ = scene.processes
    for _ in range(2):
        await first.gates.report(SERVICE, OutcomeKind.UNKNOWN, virtual_now())
    await first.gates.report(SERVICE, OutcomeKind.DONE, virtual_now())
    for _ in range(2):
        await first.gates.report(SERVICE, OutcomeKind.UNKNOWN, virtual_now())
    assert scene.table.transactions == []
    await second.gates.refresh()
    await first.gates.report(SERVICE, OutcomeKind.UNKNOWN, virtual_now())
    await second.gates.refresh()
    assert second.gates.of(SERVICE) is None
    await scene.live(2)
    gate = (await second.gates.refresh())[SERVICE]
    assert gate.circuit is Circuit.OPEN
    assert gate.blocks(is_released=True)
    await second.gates.report(SERVICE, OutcomeKind.UNKNOWN, START)  # a call that began before
    assert (await scene.gate()) == gate


@virtual
async def test_one_failure_of_a_half_open_circuit_opens_it() -> None:
    """A failure of a call that began before is not one."""
    scene = Scene()
    scene.loses = lambda _link: True
    first, second, _ = (host.gates for host in scene.processes)
    await first.report(SERVICE, OutcomeKind.NOT_BEGUN, virtual_now())
    await asyncio.sleep(5)
    await scene.admit_deferred(1)
    await GateReleases(first).release(SERVICE, (await scene.gate()).link)
    await second.refresh()
    await second.report(SERVICE, OutcomeKind.UNKNOWN, START)
    assert (await scene.gate()).circuit is Circuit.HALF_OPEN
    await second.report(SERVICE, OutcomeKind.UNKNOWN, virtual_now())
    assert (await scene.gate()).circuit is Circuit.OPEN


@virtual
async def test_nothing_is_released_during_a_hold() -> None:
    """A call under way that fails opens the circuit of a held gate, and its chain begins."""
    scene = Scene()
    first, second, _ = (host.gates for host in scene.processes)
    await scene.admit_deferred(1)
    await first.hold(SERVICE, "maintenance", "op")
    await second.report(SERVICE, OutcomeKind.NOT_BEGUN, virtual_now())
    await scene.live(60)
    assert len(scene.links) == 1
    assert scene.service.calls == []
    assert all(record.do("s").gate == SERVICE for record in await scene.records())
    await second.end_hold(SERVICE)
    await scene.live(60)
    assert len(scene.service.served) == 1


@virtual
async def test_lost_message_of_a_chain_is_replaced_by_the_supervisor() -> None:
    """Fifteen seconds after it was due."""
    scene = Scene()
    scene.loses = lambda link: link == 4 and scene.links.count(4) == 1
    await scene.processes[0].gates.hold(SERVICE, "maintenance", "op")
    await scene.admit_deferred(20)
    await scene.processes[1].gates.end_hold(SERVICE)
    await scene.live(45, sweep_every=10)
    assert len(scene.service.served) == 20
    assert scene.links.count(4) == 2
    assert 15 <= scene.service.calls[1][0] - scene.service.calls[0][0] <= 30


@virtual
async def test_chain_that_never_began_is_started_by_the_supervisor() -> None:
    """Also for a gate that has no row."""
    scene = Scene()
    await scene.admit_deferred(3)
    await scene.live(60)
    assert len(scene.service.served) == 3


@virtual
async def test_repeated_message_of_a_chain_has_no_effect() -> None:
    """Each message is received by all hosts, and releases its steps once."""
    scene = Scene()
    scene.copies = 3
    await scene.processes[0].gates.hold(SERVICE, "maintenance", "op")
    await scene.admit_deferred(60)
    await scene.processes[0].gates.end_hold(SERVICE)
    await scene.live(25)
    assert scene.amounts()[-6:] == [2, 4, 8, 16, 32, 64] or scene.amounts()[-5:] == [2, 4, 8, 16, 32]
    assert len(scene.links) == len(set(scene.links))
    assert sorted(scene.service.served) == [f"t{n:04d}" for n in range(60)]


@virtual
async def test_message_before_its_time_is_sent_again() -> None:
    """The clock of one host is behind that of the broker."""
    scene = Scene()
    await scene.admit_deferred(1)
    await scene.processes[0].gates.report(SERVICE, OutcomeKind.NOT_BEGUN, virtual_now())
    gate = await scene.gate()
    await scene.processes[1].receivers.releases.release(SERVICE, gate.link)
    assert (await scene.gate()) == gate
    assert scene.links == [gate.link, gate.link]


@virtual
async def test_hold_has_no_bound_and_delays_a_time_limit() -> None:
    """Tasks wait longer than `defer_for`, and continue at the end of the hold."""
    scene = Scene()
    await scene.processes[0].gates.hold(SERVICE, "maintenance", "op")
    await scene.processes[1].gates.hold(SERVICE, "again", "other")
    await scene.admit_many(1, start="t1")
    await scene.admit_one("t2", CALL, complete_within=600.0)
    await scene.live(8 * 3600, sweep_every=600)
    assert scene.service.calls == []
    assert (await scene.gate()).hold is not None
    await scene.processes[2].gates.end_hold(SERVICE)
    await scene.live(20, sweep_every=10)
    assert await scene.failures() == {}
    [hold] = (await scene.gate()).holds
    assert hold.end is not None
    assert hold.end - hold.start >= timedelta(hours=8)
    assert (hold.reason, hold.who) == ("maintenance", "op")


@virtual
async def test_deferral_without_a_hold_ends_as_overdue() -> None:
    """The service is down for longer than `defer_for`: the recoveries of the pattern follow."""
    scene = Scene(service=Service((0, 1e9), kind=OutcomeKind.NOT_BEGUN))
    await scene.admit_many(1)
    await scene.live(6 * 3600 + 1200, sweep_every=300)
    [record] = await scene.records()
    assert record.failures >= 1


@virtual
async def test_corrupt_tasks_at_the_head_hide_no_other() -> None:
    """They take no place of the others, and the circuit closes although they wait."""
    scene = Scene()
    await scene.processes[0].gates.hold(SERVICE, "maintenance", "op")
    await scene.admit_deferred(30)
    for number in range(10):
        [place] = [place for place in scene.table.rows if place[1] == f"t{number:04d}|order"]
        scene.table.rows[place]["Facts"] = "{"
    orphan = gate_key(SERVICE, START - timedelta(days=1), "t9999")
    scene.table.write("000", [RowChange("insert", orphan, {"Count": "many"})])
    await scene.processes[0].gates.end_hold(SERVICE)
    await scene.live(45, sweep_every=10)
    assert scene.service.calls[0][0] < 8  # some hosts see the end of the hold two seconds later
    sound = {f"t{n:04d}" for n in range(10, 30)}
    assert sound <= set(scene.service.served)
    assert (await scene.gate()).circuit is Circuit.CLOSED


@pytest.mark.parametrize("spec", [CALL, REQUEST], ids=["service", "queue"])
@virtual
async def test_suspended_tasks_delay_no_release(spec: StepSpec) -> None:
    """An operator has suspended the 100 tasks that wait longest, and then the circuit half-opens."""
    host = (scene := Scene(agent=QueueAgent())).processes[0]
    await scene.admit_deferred(101, spec)
    for number in range(100):
        await host.change(f"t{number:04d}", Suspended(reason="op: wait", by_operator=True))
    await host.gates.report(spec.gate, OutcomeKind.NOT_BEGUN, virtual_now())
    await asyncio.sleep(60)
    assert derive((await scene.records())[100]).state is ProcessState.PROCESSED


@virtual
async def test_one_alert_for_each_absence() -> None:
    """Not one for each task or probe; a gate that opens again at once has none of its own."""
    scene = Scene(service=Service((0, 100), (200, 300), kind=OutcomeKind.NOT_BEGUN))
    await scene.admit_many(50, within=250)
    await scene.live(150)
    alerts = [message for message in scene.sent if message.kind is MessageKind.ALERT]
    assert len(alerts) == 2
    assert alerts[0].body["cause"] == "gate closed"
    assert alerts[0].id != alerts[1].id
    assert scene.table.keys("!send") == []
    for _ in range(5):
        await scene.processes[0].gates.refresh(is_forced=True)
        await scene.processes[0].gates.report("b", OutcomeKind.NOT_BEGUN, virtual_now())
        gate = await scene.gate("b")
        await scene.live(6, sweep_every=10)
        await scene.processes[0].gates.report("b", OutcomeKind.DONE, virtual_now())
        assert gate.circuit is Circuit.OPEN
    await scene.live(60)
    assert len([message for message in scene.sent if message.body.get("gate") == "b"]) == 1
