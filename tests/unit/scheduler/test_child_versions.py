"""Children of parents that were recorded before a newer version of the child was deployed."""

from __future__ import annotations

import asyncio
from typing import Any

from functions.core.definition.definition_checks import DefinitionError
from functions.core.definition.step_definition import Step, WorkflowStep
from functions.core.definition.workflow_definition import Workflow, WorkflowRegistry
from functions.core.derive import ProcessState, derive
from functions.core.record import Message
from tests.unit.scheduler.world import Parcel, Process, Receipt, World, request, workflow
from tests.unit.storage.virtual import virtual

_LINES = 60
_CHILD = WorkflowStep(
    "child", workflow="c", request=lambda *_: {"items": list(range(_LINES))}, complete_within=300
)


def _each(name: str) -> Step[Any]:
    return Step(name, request=request, result=Receipt, for_each=lambda parcel: parcel.items)


ONE = workflow(_each("pack"), name="c", output=lambda *_: {"number": 5})
#: Version 2 has two steps for each item: 60 items are 120 steps, and 90 are the limit.
TWO = workflow(_each("pack"), _each("send"), name="c", version=2)
OLD, NEW = workflow(_CHILD), workflow(_CHILD, version=2)


@virtual
async def test_child_of_an_older_parent_starts_in_the_version_that_accepts_its_items() -> None:
    """The parent was submitted before version 2 of both was deployed beside version 1."""
    world = World(OLD, ONE)
    world.delivers = False
    await world.admit("t1")
    world.registry = WorkflowRegistry([OLD, NEW, ONE, TWO])
    world.processes, world.delivers = [Process(world)], True
    await world.process.runs.run_agents("t1.1.1")
    parent = await world.until_rest("t1")
    assert (parent.error, derive(parent).state) == (None, ProcessState.PROCESSED)


@virtual
async def test_recorded_start_of_a_child_is_carried_out_beside_a_version_with_more_steps() -> None:
    """The start was recorded before version 2 was deployed; the message came afterwards."""
    world = World(OLD, ONE)
    world.delivers = False
    await world.admit("t1")
    await world.process.runs.run_agents("t1.1.1")
    [start] = [each for each in world.messages if isinstance(each, Message)]
    world.registry = WorkflowRegistry([OLD, ONE, TWO])
    world.processes, world.delivers = [Process(world)], True
    await world.process.receivers.receive(start)
    await asyncio.sleep(1)
    child = await world.record((await world.record("t1")).order.child("child"))
    assert child.order.version == 1


class _Weighed(Parcel):
    weight: int


@virtual
async def test_older_versions_of_children_make_no_endless_chain_of_tasks() -> None:
    """The check at start follows the newest versions only; older ones are started, too."""
    to_child = WorkflowStep("c", workflow="c", request=lambda *_: {"items": [1]}, complete_within=3000)
    to_parent = WorkflowStep("p", workflow="p", request=lambda *_: {"items": [1]}, complete_within=3000)
    plain = Step("plain", request=request, result=Receipt)
    first: list[Workflow[Any]] = [workflow(to_child, name="p"), workflow(plain, name="c")]
    second = [
        *first,
        Workflow("p", payload=_Weighed, steps=[plain], version=2),
        workflow(to_parent, name="c", version=2),
    ]
    third = [*second, Workflow("c", payload=_Weighed, steps=[plain], version=3)]
    try:
        WorkflowRegistry(first)  # three deployments one after the other: the check accepts each
        WorkflowRegistry(second)
        world = World(*third)
    except DefinitionError:
        return
    await world.admit("t1")
    await asyncio.sleep(30)
    tasks = [key for _, key in world.table.rows if key.endswith("|order")]
    assert len(tasks) <= 3, f"{len(tasks)} tasks after 30 seconds"
