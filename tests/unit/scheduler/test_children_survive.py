"""Whatever dies or fails beside a child: it is begun once, and its parent comes to its end."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any
from unittest.mock import AsyncMock

import pytest

from functions.pattern.errors import PermanentError, UnwritableError
from functions.pattern.events import Cancelled
from functions.pattern.operator_events import ResultGiven
from functions.pattern.records import TaskRecord
from functions.pattern.states import Direction, ProcessState, Remedy
from tests.fakes.agents import raising
from tests.fakes.interventions import cancellation
from tests.fakes.tasks import FIRST, after
from tests.fakes.workflows import TASK, step
from tests.unit.scheduler.family import CAR, HOUR, family_of


async def test_result_that_an_operator_gives_stands_for_a_child_that_never_was() -> None:
    """Its parent goes on, and can be undone: nothing is missed of what never began."""
    family = family_of()
    admit = family.store.admit

    async def refuse(record: TaskRecord) -> Any:
        raise UnwritableError(record.order.task, "PropertyValueTooLarge")

    family.store.admit = refuse  # type: ignore[method-assign]
    await family.settle()
    family.store.admit = admit  # type: ignore[method-assign]
    given = ResultGiven(
        epoch=FIRST, step=CAR, result=b"{}", who="olga", reason="rented by phone", start_by=after(30)
    )
    await family.store.change(TASK, given)
    await family.settle()
    assert family.state is ProcessState.PROCESSED
    await family.store.change(TASK, cancellation(by_operator=True))
    await family.settle()
    assert (family.state, family.child().task.process_state) == (ProcessState.COMPENSATED,) * 2


@pytest.mark.parametrize("ends", ["processed", "undone", "cancelled"])
async def test_host_may_die_at_any_call(ends: str) -> None:
    """What was begun ends, once; a child is begun once, and undone with its parent."""
    for dies_at in range(1, 200):
        family = family_of()
        if ends == "undone":
            family.agents.behaviours["insure"] = raising(PermanentError("no"))
        family.dies_at = dies_at
        with suppress(RuntimeError):
            await family.settle()
            if ends == "cancelled":
                await family.store.change(TASK, cancellation())
                await family.settle()
        if family.calls < dies_at:
            break
        await family.live_on()
        if ends == "cancelled":
            event = Cancelled(who="carla", reason="", by_operator=True, start_by=family.clock.now())
            with suppress(RuntimeError):
                await family.store.change(TASK, event)
            await family.live_on()
        expected = ProcessState.PROCESSED if ends == "processed" else ProcessState.COMPENSATED
        assert (dies_at, family.state, family.child().task.process_state) == (dies_at, expected, expected)
        effects = {call.effect_key for call in family.agents.calls}
        undone = {key.split("/")[1] for key in effects if key.endswith("/undo")}
        assert undone == (set() if ends == "processed" else {"fly", "rent"})
        assert len({key for key in effects if "/rent/do" in key}) == 1
    else:
        pytest.fail("it never came to its end")
    assert dies_at > 10
    assert (family.parent.task.direction is Direction.UNDO) == (ends != "processed")


@pytest.mark.parametrize("complete_within", [HOUR, 30])
@pytest.mark.parametrize("is_undo", [False, True])
async def test_child_that_ended_in_time_counts_though_its_parent_hears_of_it_late(
    complete_within: float,
    is_undo: bool,  # noqa: FBT001 - a case
) -> None:
    """The application was stopped, or the message was lost: nothing that was processed is undone for that."""
    family = family_of(complete_within=complete_within)
    if is_undo:
        await family.settle()
        await family.store.change(TASK, cancellation())
    tell, family.parents.tell = family.parents.tell, AsyncMock()  # type: ignore[method-assign]
    await family.settle()
    family.parents.tell = tell  # type: ignore[method-assign]
    assert family.state is not ProcessState.PROCESSED
    family.clock.advance(complete_within + 10)
    if complete_within == HOUR:
        await family.supervised.sweep()
    else:  # its Scheduler sat it out
        await family._run((TASK, family.parent.task.epoch, None), number=2)
    await family.settle()
    expected = ProcessState.COMPENSATED if is_undo else ProcessState.PROCESSED
    assert (family.state, family.child().task.process_state) == (expected, expected)
    assert family.parent.task.failure_count == 0


async def test_child_that_can_t_be_read_does_not_keep_its_parent() -> None:
    """Its time is over all the same."""
    family = family_of(remedy=Remedy.HOLD)
    family.agents.behaviours["insure"] = raising(PermanentError("no"))
    await family.settle()
    family.store.damaged.add(family.child().order.task)
    family.clock.advance(HOUR + 10)
    await family.supervised.sweep()
    assert family.states["car"] == "Failed"


async def test_child_that_ended_in_time_counts_beside_a_step_that_ends_after_its_time() -> None:
    """Its message waits on the queue, and what the step's outcome leads to looks at the child first."""
    family = family_of(step("pack", "fly", complete_within=100), complete_within=30)
    family.agents.slow("pack")
    parent = asyncio.create_task(family._run(family.requests.pop(0)))
    await family.agents.until_called("pack")
    tell, family.parents.tell = family.parents.tell, AsyncMock()  # type: ignore[method-assign]
    await family.settle()
    family.parents.tell = tell  # type: ignore[method-assign]
    assert family.child().task.process_state is ProcessState.PROCESSED
    family.clock.advance(31)
    family.agents.let_go("pack")
    await parent
    assert family.states["car"] == "Completed"
    await family.settle()
    assert family.state is ProcessState.PROCESSED
