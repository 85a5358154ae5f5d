"""The rows of gates: compare-and-swap, faults, corrupt rows, and the limit of calls."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

import pytest

from functions.core.gate_rules import Circuit
from functions.core.task_events import OutcomeKind
from functions.operators.task_actions import Reason
from functions.storage.gate_releases import GateReleases
from functions.storage.gates import Gates, NoFreeSlotError
from functions.storage.table_contract import CorruptRowError, TransientStorageError
from tests.fakes.simulated_table import TableFault
from tests.fakes.storage_process import virtual_now
from tests.unit.gates.scene import QUEUE, SERVICE, SETTINGS, Scene, seconds
from tests.unit.storage.virtual import virtual


@virtual
async def test_instances_that_change_one_gate_at_once_lose_no_change() -> None:
    """Each change is a compare-and-swap on the newest row."""
    scene = Scene()
    first, second, third = (host.gates for host in scene.processes)
    await asyncio.gather(
        second.set_calls_at_once(SERVICE, 3),
        third.report(SERVICE, OutcomeKind.NOT_BEGUN, virtual_now()),
        first.hold(SERVICE, "maintenance", "op"),
    )
    gate = await scene.gate()
    assert (gate.calls_at_once, gate.circuit) == (3, Circuit.OPEN)
    assert gate.hold is not None


@virtual
async def test_change_has_a_bounded_number_of_tries() -> None:
    """An operator sees the error; the outcome of a call is not counted."""
    scene = Scene()
    gates = scene.processes[0].gates
    await gates.set_calls_at_once(SERVICE, 7)
    before = len(scene.table.transactions)

    def change(changes: object) -> None:
        scene.table.rows["gates", SERVICE]["odata.etag"] = (
            f"other {changes!r:.9}{len(scene.table.transactions)}"
        )

    scene.table.before_send = change
    with pytest.raises(TransientStorageError, match="changed it 5 times"):
        await gates.hold(SERVICE, "maintenance", "op")
    await gates.report(SERVICE, OutcomeKind.NOT_BEGUN, virtual_now())
    assert len(scene.table.transactions) == before + 10


@virtual
async def test_lost_answer_does_not_hold_twice() -> None:
    """The repeated change finds itself done. The end of another hold changes nothing."""
    scene = Scene()
    gates = scene.processes[0].gates
    scene.table.fail_next(TableFault.REPEATED)
    await gates.hold(SERVICE, "maintenance", "op")
    assert len((await scene.gate()).holds) == 1
    await gates.end_hold(SERVICE, since=virtual_now() + timedelta(seconds=1))  # another hold
    assert (await scene.gate()).hold is not None
    await gates.end_hold(SERVICE)
    assert (await scene.gate()).circuit is Circuit.HALF_OPEN


@pytest.mark.parametrize("character", ["\x01", '"', "\U0001f69a"])
@virtual
async def test_row_has_room_for_the_reasons_of_its_holds(character: str) -> None:
    """A reason has 500 characters at most, which may be any, and each hold can be ended."""
    scene = Scene()
    gates = scene.processes[0].gates
    for _ in range(151):
        await gates.hold(SERVICE, Reason(reason=f"x{498 * character}x").reason, "op")
        await gates.end_hold(SERVICE)
    gate = await scene.gate()
    assert (len(gate.holds), gate.hold) == (150, None)
    assert [each.reason != "" for each in gate.holds] == 140 * [False] + 10 * [True]


@virtual
async def test_view_is_at_most_two_seconds_old() -> None:
    """Many callers at once cost one read, and each gets a view that is fresh enough."""
    scene = Scene()
    first, second, _ = (host.gates for host in scene.processes)
    await asyncio.gather(*(second.refresh() for _ in range(50)))
    assert scene.table.reads == 1
    await first.set_calls_at_once(SERVICE, 7)
    await asyncio.sleep(1.9)
    assert SERVICE not in await second.refresh()
    await asyncio.sleep(0.1)
    views = await asyncio.gather(*(second.refresh() for _ in range(50)))
    assert {view[SERVICE].calls_at_once for view in views} == {7}
    assert scene.table.reads == 3
    await first.set_calls_at_once(SERVICE, 8)
    assert (await second.refresh(is_forced=True))[SERVICE].calls_at_once == 8


@virtual
async def test_gates_that_cannot_be_read_stay_as_they_are(caplog: pytest.LogCaptureFixture) -> None:
    """Only a forced read raises an error; outcomes and replies are not counted.

    A table that hangs delays a call by two seconds at most.
    """
    scene = Scene()
    gates = scene.processes[0].gates
    await gates.hold(SERVICE, "maintenance", "op")
    await gates.refresh(is_forced=True)
    scene.table.read_fault = lambda: True
    await asyncio.sleep(3)
    assert (await gates.refresh())[SERVICE].hold is not None
    assert "gates not read" in caplog.text
    with pytest.raises(TransientStorageError, match="gates not read"):
        await gates.refresh(is_forced=True)
    await gates.report(SERVICE, OutcomeKind.NOT_BEGUN, virtual_now())
    await gates.reply(QUEUE, virtual_now() - timedelta(seconds=60), is_taken=False)
    assert caplog.text.count("not counted") == 2
    scene.table.read_fault, scene.table.seconds = (lambda: False), 100
    await asyncio.sleep(3)
    began = seconds()
    assert (await gates.refresh())[SERVICE].hold is not None
    assert 1.9 < seconds() - began < 2.1


@pytest.mark.parametrize(
    "text", ["{", f'{{"name":"{SERVICE}","next_at":"2026-01-01T00:00:00"}}', '{"name":"another"}']
)
@virtual
async def test_corrupt_row_affects_only_its_own_gate(caplog: pytest.LogCaptureFixture, text: str) -> None:
    """Its hold is kept where it was seen. A time needs a zone. An operator's action replaces the row.

    A row names its gate twice.
    """
    scene = Scene()
    first, second, _ = (host.gates for host in scene.processes)
    await first.hold(SERVICE, "maintenance", "op")
    await first.set_calls_at_once("other", 7)
    await first.refresh(is_forced=True)
    scene.table.rows["gates", SERVICE]["Gate"] = text
    for gates in (first, second):
        view = await gates.refresh(is_forced=True)
        assert view["other"].calls_at_once == 7
        assert list(gates.corrupt) == [SERVICE]
    assert (first.of(SERVICE), second.of(SERVICE)) != (None, None)
    assert (gate := first.of(SERVICE)) is not None
    assert gate.hold is not None
    with caplog.at_level(logging.WARNING):
        await second.report(SERVICE, OutcomeKind.NOT_BEGUN, virtual_now())
    assert "an outcome is not counted" in caplog.text
    await scene.admit_deferred(1)
    await GateReleases(first).start_missing_chains()
    with pytest.raises(CorruptRowError):
        await GateReleases(second).release(SERVICE, 1)
    await second.end_hold(SERVICE)
    assert (await first.refresh(is_forced=True))[SERVICE].hold is None
    assert first.corrupt == {}
    await scene.live(40)
    assert len(scene.service.served) == 1


@virtual
async def test_calls_of_an_instance_are_limited() -> None:
    """Further calls wait for a free slot, and are not begun after their time."""
    scene = Scene()
    gates = scene.processes[0].gates
    under_way, most, not_begun = 0, 0, 0

    async def call() -> None:
        nonlocal under_way, most, not_begun
        try:
            async with gates.call(SERVICE, virtual_now() + timedelta(seconds=4.5)):
                under_way += 1
                most = max(most, under_way)
                await asyncio.sleep(1)
                under_way -= 1
        except NoFreeSlotError:
            not_begun += 1

    await asyncio.gather(*(call() for _ in range(20)))
    assert (most, not_begun) == (20, 0)
    await gates.set_calls_at_once(SERVICE, 3)
    most = 0
    await asyncio.gather(*(call() for _ in range(20)))
    assert (most, not_begun) == (3, 5)
    await gates.set_calls_at_once(SERVICE, 0)
    written = len(scene.table.transactions)
    await gates.set_calls_at_once(SERVICE, 1)  # the least limit is unchanged
    assert len(scene.table.transactions) == written
    most = 0
    await asyncio.gather(*(call() for _ in range(2)))
    assert most == 1
    await gates.set_calls_at_once(SERVICE, None)
    await asyncio.gather(*(call() for _ in range(9)))
    assert most == 9


@virtual
async def test_healthy_traffic_costs_no_request() -> None:
    """Calls and replies read nothing while the view is fresh, and they open no open circuit again."""
    scene = Scene()
    gates = scene.processes[0].gates
    await gates.refresh()
    await gates.report("down", OutcomeKind.NOT_BEGUN, virtual_now())
    requests = scene.table.reads, len(scene.table.transactions)
    for _ in range(5):
        await gates.report(SERVICE, OutcomeKind.DONE, virtual_now())
        await gates.report(SERVICE, OutcomeKind.REFUSED, virtual_now())
        await gates.reply(QUEUE, virtual_now(), is_taken=True)
        await gates.report("down", OutcomeKind.NOT_BEGUN, virtual_now())
    assert (scene.table.reads, len(scene.table.transactions)) == requests


@virtual
async def test_clock_that_is_set_back_hides_no_hold() -> None:
    """Neither from the calls of an instance, nor from the Supervisor, which reads the gates now."""
    scene, ahead = Scene(), timedelta(minutes=10)
    gates = Gates(
        scene.processes[0].storage,
        settings=SETTINGS,
        now=lambda: virtual_now() + ahead,
        schedule_release=scene.processes[0].announcer.request_release,
    )
    await gates.refresh()
    ahead = timedelta()
    await scene.processes[1].gates.hold(SERVICE, "maintenance", "op")
    for is_forced in (True, False):
        await asyncio.sleep(3)
        assert (await gates.refresh(is_forced=is_forced))[SERVICE].hold is not None
