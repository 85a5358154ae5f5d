"""Orders with a step for each item: how many a task can have, and how they are shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.fakes.interventions import done
from tests.fakes.tasks import claimed, pending, told
from tests.fakes.workflows import each, step, workflow
from tests.unit.api.conftest import Api
from tests.unit.api.samples import problem

FLOW = workflow(step("open"), each("send", "open"))
TOO_MANY = "It has too many items: with a step for each, more than 90 steps."


async def test_order_with_too_many_items_is_422(api: Api) -> None:
    """Before anything of it is recorded; the largest one is taken."""
    client = api.serving(FLOW)
    assert problem(await client.put("/api/parcels/a", {"weight": 90}), 422)["detail"] == TOO_MANY
    assert (await client.put("/api/parcels/a", {"weight": 89})).status == 202
    assert [message.payload for message in api.submissions.messages] == [{"weight": 89}]


async def test_order_with_too_many_items_is_refused_alone_in_a_batch(api: Api) -> None:
    """The others are taken."""
    sent = {"parcels": [{"weight": 1}, {"weight": 10**5}, {"weight": 2}]}
    results = (await api.serving(FLOW).post("/api/parcels/batch", sent)).json["results"]
    assert [each["status"] for each in results] == [202, 422, 202]
    assert results[1]["problem"]["detail"] == TOO_MANY


@pytest.mark.parametrize("given", [{"find_by": lambda parcel: parcel.nothing}, {}])
async def test_function_that_fails_for_an_order_refuses_it(
    api: Api, caplog: pytest.LogCaptureFixture, given: dict[str, Any]
) -> None:
    """422 without the fault, which is in the log."""
    send = step("open") if given else replace(each("send"), for_each=lambda parcel: parcel.nothing)
    refused = problem(await api.serving(workflow(send, **given)).put("/api/parcels/a", {"weight": 1}), 422)
    assert "can't be told" in refused["detail"]
    assert "nothing" not in str(refused)
    assert "no attribute 'nothing'" in caplog.text


@pytest.mark.parametrize(
    ("items", "fault"),
    [
        ({1, 2}, "must give a list or a tuple, in one order, not set"),
        ({1: 2}, "not dict"),
        ((each for each in "ab"), "not generator"),
        ("ab", "not str"),
        ([object()], "Unable to serialize unknown type: <class 'object'>"),
    ],
)
async def test_items_without_an_order_or_a_json_are_refused(
    api: Api, caplog: pytest.LogCaptureFixture, items: Any, fault: str
) -> None:
    """Another process could number them in another way; the log tells the developer."""
    flow = workflow(replace(each("send"), for_each=lambda _parcel: items))
    refused = problem(await api.serving(flow).put("/api/parcels/a", {"weight": 1}), 422)
    assert refused["detail"] == "The items of its step 'send' can't be told."
    assert fault in caplog.text


async def test_each_item_is_shown_with_its_number(api: Api) -> None:
    """In the place of its step."""
    api.store.put(told(pending(FLOW, weight=2), claimed(), *done("open", "send.1")))
    shown = (await api.serving(FLOW).get("/api/parcels/task-1")).json["steps"]
    assert [(each["name"], each["item"], each["state"]) for each in shown] == [
        ("open", None, "Completed"),
        ("send.0", 0, "NotStarted"),
        ("send.1", 1, "Completed"),
    ]
