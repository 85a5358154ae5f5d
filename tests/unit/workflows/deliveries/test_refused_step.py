"""A delivery whose drone is refused, on simulated parts: an example for tests of other workflows."""

from __future__ import annotations

import json

from functions.agents.agent_call import Call, RefusedError
from functions.core.derive import ProcessState, StepState, derive, step_state
from functions.core.record import Direction
from functions.core.rules import admit
from functions.workflows.deliveries.definition import DELIVERIES
from tests.fakes.storage_process import virtual_now
from tests.unit.scheduler.world import World
from tests.unit.storage.virtual import virtual
from tests.unit.workflows.deliveries.test_deliveries import DELIVERY


async def _label(_call: Call) -> str:
    return '{"tracking_number": "PK1"}'


async def _refuse(call: Call) -> str:
    if call.direction is Direction.DO:
        raise RefusedError("no drone is free")
    return "{}"


@virtual
async def test_delivery_without_a_drone_is_undone() -> None:
    """The package is undone, the account was only checked, and no delivery was scheduled."""
    world = World(DELIVERIES)
    world.services.behaviour |= {"package": _label, "drone": _refuse}
    order = DELIVERIES.new_order("d-1", "r1", json.dumps(DELIVERY), virtual_now())
    await world.process.storage.admit(admit(order, virtual_now(), world.process.settings))
    record = await world.until_rest("d-1")
    assert (derive(record).state, record.reason) == (ProcessState.COMPENSATED, "drone: no drone is free")
    assert {spec.name: step_state(record, spec) for spec in order.specs} == {
        "account": StepState.COMPLETED,
        "package": StepState.UNDONE,
        "transport": StepState.SKIPPED,
        "drone": StepState.UNDONE,
        "delivery": StepState.NOT_STARTED,
    }
    assert world.services.names() == ["account", "package", "drone", "drone", "package"]
