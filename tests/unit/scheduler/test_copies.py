"""Functions of a definition that are not pure: each call has its own copy of the payload."""

from __future__ import annotations

from typing import Any

from functions.core.definition.step_definition import Step
from functions.core.derive import ProcessState, derive
from tests.unit.scheduler.world import Parcel, Receipt, World, workflow
from tests.unit.storage.virtual import virtual


def _sorted_in_place(parcel: Parcel) -> list[int]:
    parcel.items.sort()
    return parcel.items


def _items(parcel: Parcel) -> list[int]:
    return parcel.items


def _emptied(parcel: Parcel) -> list[int]:
    items, parcel.items = parcel.items, []
    return items


@virtual
async def test_items_of_two_steps_are_computed_from_copies() -> None:
    """One function sorts in place: the other step's items are the same at admission and in the run."""
    first = Step("first", request=lambda *_: {}, result=Receipt, for_each=_sorted_in_place)
    second = Step("second", request=lambda *_: {}, result=Receipt, for_each=_items)
    world = World(workflow(first, second))
    await world.admit("t1", [3, 1, 2])
    record = await world.until_rest("t1", seconds=60)
    assert record.suspension is None
    assert derive(record).state is ProcessState.PROCESSED


@virtual
async def test_request_of_an_item_has_its_own_copy() -> None:
    """`for_each` empties the list of its own copy."""

    def request(parcel: Parcel, _results: Any, item: int) -> dict[str, object]:
        return {"item": item, "of": len(parcel.items)}

    step = Step("each", request=request, result=Receipt, for_each=_emptied)
    world = World(workflow(step))
    await world.admit("t1", [3, 1])
    await world.until_rest("t1", seconds=60)
    assert {call.request for call in world.services.calls} == {'{"item":3,"of":2}', '{"item":1,"of":2}'}
