"""A batch: each order is checked, submitted and answered by itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from functions.api.acceptance import Draft, Drafts
from functions.pattern.definition import Workflow
from functions.pattern.errors import TransientError
from functions.pattern.identity import TaskId
from functions.pattern.messages import order_of
from functions.pattern.store_ports import Stored
from functions.pattern.transitions import admit
from functions.web.callers import Caller
from tests.fakes.orders import ORDERS
from tests.fakes.tasks import after
from tests.fakes.workflows import BIRTH
from tests.unit.api.conftest import Api
from tests.unit.api.samples import INSIDE, ITEM, ORDER, wrong_fields

BATCH = "/api/orders/batch"


async def answers(api: Api, *orders: object) -> list[dict[str, Any]]:
    """Submit a batch and give the answers, which are numbered in the batch's order."""
    answer = await api.client.post(BATCH, {"orders": orders})
    assert answer.status == 200, answer.body
    results: list[dict[str, Any]] = answer.json["results"]
    assert [each["index"] for each in results] == list(range(len(orders)))
    assert not [word for word in INSIDE if word in answer.body.decode()]
    return results


def statuses(results: list[dict[str, Any]]) -> list[int]:
    """Give the status of each order."""
    return [each["status"] for each in results]


def submitted(api: Api) -> list[str]:
    """Give the ids of the orders that were submitted."""
    return [message.task_id for message in api.submissions.messages]


def record_submitted(api: Api) -> None:
    """Do what the submission does with the orders that were taken."""
    for message in api.submissions.messages:
        api.store.put(admit(order_of(message, ORDERS, BIRTH), pick_up_by=after(30)))


async def test_each_order_gets_its_id_and_location(api: Api) -> None:
    """The caller's id, or a new one."""
    assert await answers(
        api, ORDER | {"id": "mine", "correlation_id": "c-7"}, ORDER, ORDER | {"id": None}
    ) == [
        {"index": 0, "status": 202, "id": "mine", "location": "/api/orders/mine"},
        {"index": 1, "status": 202, "id": "new-1", "location": "/api/orders/new-1"},
        {"index": 2, "status": 202, "id": "new-2", "location": "/api/orders/new-2"},
    ]
    assert submitted(api) == ["mine", "new-1", "new-2"]
    first = api.submissions.messages[0]
    assert (first.payload, first.correlation_id, first.reply_to) == (ORDER, "c-7", None)


@pytest.mark.parametrize(
    ("bad", "fields"),
    [
        (
            ORDER | {"currency": "euro", "items": [ITEM, ITEM | {"quantity": 0}]},
            ["currency", "items.1.quantity"],
        ),
        (ORDER | {"id": "a b"}, ["id"]),
        (ORDER | {"priority": 1}, ["priority"]),
        (ORDER | {"reply_to": "elsewhere"}, ["reply_to"]),
        ({}, ["customer", "currency", "items"]),
        ([], ["order"]),
        ("order", ["order"]),
        (None, ["order"]),
    ],
)
async def test_a_bad_order_does_not_lose_another(api: Api, bad: object, fields: list[str]) -> None:
    """It alone is refused, with each field that is wrong."""
    first, refused, last = await answers(api, ORDER | {"id": "a"}, bad, ORDER | {"id": "b"})
    assert statuses([first, refused, last]) == [202, 422, 202]
    assert "id" not in refused
    assert refused["problem"]["title"]
    assert [fault["field"] for fault in refused["problem"]["errors"]] == fields
    assert submitted(api) == ["a", "b"]


async def test_an_order_over_48_kib_is_refused_alone(api: Api) -> None:
    """The limit of one order is the same in a batch."""
    wide = ORDER | {"customer": "x" * 48 * 1024}
    narrow = ORDER | {"customer": "ä" * 24_000}  # it is too long, but its bytes are within the limit
    assert statuses(await answers(api, wide, ORDER, narrow)) == [413, 202, 422]


async def test_the_same_id_with_the_same_content_is_one_order(api: Api) -> None:
    """It is submitted once, and answered alike."""
    twice = [ORDER | {"id": "mine"}, dict(reversed(ORDER.items())) | {"id": "mine"}]
    first, second = await answers(api, *twice)
    assert first | {"index": 1} == second
    assert submitted(api) == ["mine"]


async def test_the_same_id_with_other_content_is_a_conflict(api: Api) -> None:
    """The first order of the batch stands."""
    results = await answers(api, ORDER | {"id": "mine"}, ORDER | {"id": "mine", "currency": "USD"})
    assert statuses(results) == [202, 409]
    assert results[1]["id"] == "mine"
    assert [message.payload["currency"] for message in api.submissions.messages] == ["EUR"]


async def test_a_bad_order_does_not_take_an_id(api: Api) -> None:
    """The next one under that id is the first that counts."""
    results = await answers(api, ORDER | {"id": "mine", "currency": 1}, ORDER | {"id": "mine"})
    assert statuses(results) == [422, 202]


async def test_orders_that_are_recorded_are_known_again(api: Api) -> None:
    """Equal content is accepted and not submitted again; other content is a conflict, in any order."""
    await answers(api, ORDER | {"id": "a"}, ORDER | {"id": "b"})
    record_submitted(api)
    other = ORDER | {"currency": "USD"}
    results = await answers(
        api, ORDER | {"id": "a"}, other | {"id": "b"}, ORDER | {"id": "b"}, ORDER | {"id": "c"}
    )
    assert statuses(results) == [202, 409, 202, 202]
    assert submitted(api) == ["a", "b", "c"]


async def test_orders_the_queue_did_not_take_can_be_repeated(api: Api) -> None:
    """They get 503 and their ids, also new ones; repeated under them, they are no second orders."""
    api.submissions.failure = TransientError("Service Bus: OperationTimeoutError")
    api.submissions.fails_for = {TaskId("b"), TaskId("new-1")}
    orders = [ORDER | {"id": "a"}, ORDER | {"id": "b"}, ORDER]
    results = await answers(api, *orders)
    assert statuses(results) == [202, 503, 503]
    assert [each["id"] for each in results] == ["a", "b", "new-1"]
    api.submissions.failure = None
    again = [order | {"id": each["id"]} for order, each in zip(orders, results, strict=True)]
    assert statuses(await answers(api, *again)) == [202, 202, 202]
    assert set(submitted(api)) == {"a", "b", "new-1"}


async def test_a_store_that_does_not_answer_is_503_for_ids_that_callers_gave(api: Api) -> None:
    """Whether they are known can't be told; a new id needs no look-up."""
    api.store.failure = TransientError("Table Storage: ServiceRequestError")
    assert statuses(await answers(api, ORDER | {"id": "a"}, ORDER)) == [503, 202]


async def test_an_unexpected_failure_is_a_500_for_its_order_alone(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    """With a reference by which the log is found."""
    api.submissions.failure, api.submissions.fails_for = RuntimeError("secret"), {TaskId("a")}
    failed, taken = await answers(api, ORDER | {"id": "a"}, ORDER | {"id": "b"})
    assert statuses([failed, taken]) == [500, 202]
    assert "secret" not in str(failed)
    assert failed["problem"]["detail"].rstrip(".").rpartition(" ")[2] in caplog.text


async def test_look_ups_are_made_side_by_side_within_a_bound(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """500 ids are not 500 waits, nor 500 requests at one moment."""
    running, most = 0, 0

    async def load(_task: TaskId) -> Stored | None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return None

    monkeypatch.setattr(api.store, "load", load)
    results = await answers(api, *(ORDER | {"id": f"o-{number}"} for number in range(500)))
    assert set(statuses(results)) == {202}
    assert most == 100
    assert len(submitted(api)) == 500


async def test_short_request_waits_for_one_turn_of_a_batch(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although its tasks take several rounds of the event loop."""
    checked, check = list[object](), Drafts.of_batch

    def counted(drafts: Drafts, workflow: Workflow, sent: object, caller: Caller) -> Draft:
        checked.append(sent)
        return check(drafts, workflow, sent, caller)

    monkeypatch.setattr(Drafts, "of_batch", counted)
    monkeypatch.setattr("functions.api.batch._TURN", 0)
    batch = asyncio.create_task(answers(api, *[ORDER] * 20))
    while not checked:
        await asyncio.sleep(0)
    assert (await api.client.get("/api/health")).status == 200
    assert len(checked) <= 2
    await batch


async def test_an_answer_names_only_the_first_faults(api: Api) -> None:
    """A body full of faults makes no answer many times its size; of a batch's orders, each has fewer."""
    bad = ORDER | {f"x{number}": 1 for number in range(4_000)}
    [refused] = await answers(api, bad)
    assert len(refused["problem"]["errors"]) == 10
    assert len(wrong_fields(await api.client.put("/api/orders/mine", bad))) == 50
