"""Whatever dies or fails beside a child: it is begun once, and its parent comes to its end."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from functions.pattern.errors import PermanentError, UnwritableError
from functions.pattern.events import Cancelled
from functions.pattern.operator_events import ResultGiven
from functions.pattern.records import TaskRecord
from functions.pattern.states import Direction, ProcessState
from tests.fakes.agents import raising
from tests.fakes.interventions import cancellation
from tests.fakes.tasks import FIRST, after
from tests.fakes.workflows import TASK
from tests.unit.scheduler.family import CAR, family_of


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
