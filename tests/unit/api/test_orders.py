"""Orders are submitted as they were sent, compared with the recorded order, reserved, shown and cancelled."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, SecretStr, create_model, model_validator
from pydantic.alias_generators import to_camel

from functions.api.pages import api_document
from functions.core.definition.step_definition import QueueStep, Step
from functions.core.definition.workflow_definition import Workflow
from functions.core.record import Direction
from functions.core.task_events import OutcomeKind, Suspended
from functions.messaging.reservations import reject_reservation
from functions.messaging.senders import SendError
from tests.fakes.clock import START
from tests.fakes.guards import ANNA, BERT, SIGN_IN, operator, principal, reader, submitter
from tests.fakes.simulated_table import TableFault
from tests.unit.api.scene import (
    ITEM,
    ORDER,
    ORDERS,
    TASK,
    Api,
    OrderPayload,
    Priced,
    bookings,
    parcels,
    problem,
    request,
    wrong_fields,
)

BOOKINGS = bookings()
BOOKING = f"/api/bookings/{TASK}"


async def test_new_order_gets_an_id_and_a_location(api: Api) -> None:
    """Orders without an id are different orders, even with equal content."""
    answer = await api.client.post("/api/orders", ORDER | {"correlation_id": "c-7"})
    assert (answer.status, answer.headers["location"]) == (202, "/api/orders/new-1")
    assert answer.json == {"id": "new-1", "location": "/api/orders/new-1"}
    [message] = api.submitted
    assert (message.task_id, message.workflow, message.submitted_at) == ("new-1", "orders", START)
    assert (message.correlation_id, message.reply_to, message.payload) == ("c-7", None, ORDER)
    assert (await api.client.post("/api/orders", ORDER)).json["id"] == "new-2"


async def test_same_order_again_gets_the_same_answer(api: Api) -> None:
    """Once it is on record, it is not submitted again."""
    first = await api.client.put("/api/orders/mine", ORDER)
    assert (first.status, first.headers["location"]) == (202, "/api/orders/mine")
    assert await api.client.put("/api/orders/mine", ORDER) == first
    await api.admit_submitted()
    assert await api.client.put("/api/orders/mine", dict(reversed(ORDER.items()))) == first
    assert len(api.submitted) == 2


@pytest.mark.parametrize(
    "change", [{"currency": "USD"}, {"items": [ITEM, ITEM]}, {"reply_to": "notices-demo"}]
)
async def test_other_content_under_a_known_id_is_409(api: Api, change: dict[str, object]) -> None:
    """The first order counts."""
    await api.client.put("/api/orders/mine", ORDER)
    await api.admit_submitted()
    problem(await api.client.put("/api/orders/mine", ORDER | change), 409)
    assert len(api.submitted) == 1


@pytest.mark.parametrize("is_recorded", [True, False])
async def test_same_order_is_known_after_a_field_was_added(api: Api, *, is_recorded: bool) -> None:
    """A default of the model is no content of the order. New orders are of the newest version."""
    assert (await api.client.put("/api/orders/mine", ORDER)).status == 202
    if is_recorded:
        await api.admit_submitted()
    with_note = create_model("WithNote", __base__=OrderPayload, note=(str, "none"))
    newer = _version_2(with_note)
    deployed = api.serving(newer, ORDERS)
    assert (await deployed.put("/api/orders/mine", ORDER)).status == 202
    problem(await deployed.put("/api/orders/mine", ORDER | {"note": "none"}), 409)
    await deployed.post("/api/orders", ORDER)
    assert (api.submitted[-1].version, api.submitted[-1].payload) == (2, ORDER)


async def test_recorded_order_is_known_after_its_model_became_stricter(api: Api) -> None:
    """The recorded order counts, in a batch, too. An order without a task is rejected as any other one."""
    await api.client.put("/api/orders/mine", ORDER)
    stricter = create_model("Stricter", __base__=OrderPayload, note=(str, ...))
    deployed = api.serving(_version_2(stricter), ORDERS)
    orders = [ORDER, ORDER | {"currency": "USD"}]
    batch = {"orders": [{**each, "id": task} for task in ("mine", "!") for each in orders]}
    for statuses in ([422, 422], [202, 422]):
        assert [(await deployed.put("/api/orders/mine", each)).status for each in orders] == statuses
        results = (await deployed.post("/api/orders/batch", batch)).json["results"]
        assert [each["status"] for each in results] == [*statuses, 422, 422]
        await api.admit_submitted()
    assert results[0]["location"] == "/api/orders/mine"
    assert len(api.submitted) == 1


def _version_2(payload: type[OrderPayload]) -> Workflow[OrderPayload]:
    return Workflow("orders", payload=payload, steps=[Step("pay", request=request)], version=2)


async def test_id_of_another_resource_is_409_for_put_and_404_for_get(api: Api) -> None:
    """All workflows share the ids."""
    await api.admit(parcels())
    problem(await api.client.put(f"/api/orders/{TASK}", ORDER), 409)
    problem(await api.client.get(f"/api/orders/{TASK}"), 404)
    assert (await api.client.get(f"/api/parcels/{TASK}")).status == 200


async def test_order_is_shown_with_its_steps_and_times(api: Api) -> None:
    """Times are UTC."""
    send = Step("send", needs=["open"], request=request)
    flow = parcels(Step("open", request=request), send)
    await api.admit(flow, correlation_id="c-1")
    api.clock.advance(2)
    await api.run("open", OutcomeKind.REFUSED, error="bank answered 402: no money")
    shown = (await api.client.get(f"/api/parcels/{TASK}")).json
    steps = shown.pop("steps")
    assert shown == {
        "id": TASK,
        "workflow": "parcels",
        "state": "Error",
        "submitted_at": "2026-11-21T10:00:00.123456Z",
        "finished_at": "2026-11-21T10:00:02.123456Z",
        "correlation_id": "c-1",
        "last_error": "open: bank answered 402",
        "output": None,
    }
    assert steps[0] == {
        "name": "open",
        "item": None,
        "state": "Refused",
        "complete_by": "2026-11-21T10:00:32.123456Z",
        "started_at": "2026-11-21T10:00:02.123456Z",
        "finished_at": "2026-11-21T10:00:02.123456Z",
        "error": "bank answered 402",
    }
    assert (steps[1]["name"], steps[1]["state"]) == ("send", "Not started")


async def test_undo_is_shown_as_soon_as_it_has_started(api: Api) -> None:
    """Before, the step has the times of its do."""
    client = api.serving(BOOKINGS)
    await api.admit(BOOKINGS)
    await api.run("room")
    assert (await client.delete(BOOKING)).status == 202
    room = (await client.get(BOOKING)).json["steps"][0]
    assert (room["state"], room["finished_at"]) == ("Completed", "2026-11-21T10:00:00.123456Z")
    await api.start("room")
    room = (await client.get(BOOKING)).json["steps"][0]
    assert (room["state"], room["finished_at"]) == ("Undoing", None)


async def test_each_item_is_shown_with_its_number(api: Api) -> None:
    """In the place of its step."""
    flow = parcels(
        Step("open", request=request),
        Step("send", needs=["open"], request=request, for_each=lambda parcel: list(range(parcel.weight))),
    )
    await api.admit(flow, payload='{"weight": 2}')
    await api.run("open")
    await api.run("send.1")
    shown = (await api.client.get(f"/api/parcels/{TASK}")).json["steps"]
    assert [(each["name"], each["item"], each["state"]) for each in shown] == [
        ("open", None, "Completed"),
        ("send.0", 0, "Not started"),
        ("send.1", 1, "Completed"),
    ]


async def test_output_is_shown_and_nothing_internal() -> None:
    """Neither the run nor the payload nor the submitter."""
    api = Api()
    object.__setattr__(api.settings, "make_output", lambda _record: '{"number":7}')
    await api.admit(parcels(), payload='{"weight": 4711}', submitter="secret-submitter")
    await api.run("open")
    answer = await api.client.get(f"/api/parcels/{TASK}")
    assert (answer.json["state"], answer.json["output"]) == ("Processed", {"number": 7})
    for text in ("4711", "secret-submitter", f"{TASK}.1", "epoch", "start of"):
        assert text not in answer.body.decode()


@pytest.mark.parametrize("failing", ["store", "queue"])
async def test_service_that_does_not_answer_is_503(api: Api, failing: str) -> None:
    """The caller may try again."""
    if failing == "store":
        api.table.read_fault = lambda: True
    api.failure = SendError("queue submissions: OperationTimeoutError")
    answer = await api.client.put("/api/orders/mine", ORDER)
    assert "OperationTimeoutError" not in str(problem(answer, 503))
    assert answer.headers["retry-after"] == "5"


# Payloads


class Camel(BaseModel):
    """A payload in camelCase."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)

    unit_price: str


class Renamed(BaseModel):
    """A payload that changes its input."""

    amount: int

    @model_validator(mode="before")
    @classmethod
    def _former(cls, given: Any) -> Any:
        if isinstance(given, dict) and "total" in given:
            given["amount"] = given.pop("total")
        return given


@pytest.mark.parametrize(
    ("payload", "body"),
    [
        (create_model("Card", number=(SecretStr, ...)), {"number": "4111"}),
        (create_model("Tagged", tags=(set[str], ...)), {"tags": ["d", "b", "a", "c", "b"]}),
        (create_model("Measured", weight=(float | None, None)), {"weight": "inf"}),
        (create_model("Measured", weight=(float | None, None)), {"weight": 10**30}),
        (Camel, {"unitPrice": "4.90"}),
        (Renamed, {"total": 3}),
    ],
)
async def test_payload_is_submitted_as_it_was_sent(
    api: Api, payload: type[BaseModel], body: dict[str, Any]
) -> None:
    """In a batch as well."""
    client = api.serving(parcels(payload=payload))
    sent = {**body, "reply_to": "notices-demo", "correlation_id": "c-1"}
    assert (await client.put("/api/parcels/one", sent)).status == 202
    batch = await client.post("/api/parcels/batch", {"parcels": [{"id": "one", **sent}]})
    assert batch.json["results"][0]["status"] == 202
    alone, batched = api.submitted
    assert alone == batched
    assert (alone.payload, alone.reply_to, alone.correlation_id) == (body, "notices-demo", "c-1")


def _each(items: Any) -> Workflow[Any]:
    return parcels(Step("open", request=request), Step("send", request=request, for_each=items))


def _agents(kind: type[Step[Any] | QueueStep[Any]], number: int) -> Workflow[Any]:
    return parcels(*(kind(f"s{each}", agent=f"a{each}", request=request) for each in range(number)))


UNREADABLE = "The items of its step 'send' cannot be read."


@pytest.mark.parametrize(
    ("flow", "sent", "detail"),
    [
        (parcels(find_by=lambda _: map(str, range(9))), {}, "It has 9 search texts; the limit is 8."),
        (_each(lambda _: [*range(89)]), {}, None),
        (_each(lambda _: [*range(90)]), {}, "It has 91 steps, items included; the limit is 90."),
        (_agents(Step, 47), {}, "47 steps, 47 Agents and 0 queues exceed 92."),
        (_agents(QueueStep, 32), {}, "32 steps, 32 Agents and 32 queues exceed 92."),
        (_each(lambda _: {1, 2}), {}, UNREADABLE),
        (_each(lambda parcel: parcel.nothing), {}, UNREADABLE),
        (_each(lambda _: [object()]), {}, UNREADABLE),
        (parcels(payload=Priced), {"price": "free"}, "Its payload cannot be read."),
        (parcels(payload=Priced), {"price": "1"}, None),
    ],
)
async def test_order_that_its_workflow_cannot_carry_out_is_422(
    api: Api, caplog: pytest.LogCaptureFixture, flow: Workflow[Any], sent: Any, detail: str | None
) -> None:
    """Alone and in a batch, before it is submitted. The log has the error of a function that failed."""
    client = api.serving(flow)
    alone = await client.put("/api/parcels/a", sent)
    [batched] = (await client.post("/api/parcels/batch", {"parcels": [sent]})).json["results"]
    if detail is None:
        assert (alone.status, batched["status"], len(api.submitted)) == (202, 202, 2)
    else:
        assert problem(alone, 422)["detail"] == batched["problem"]["detail"] == detail
        assert api.submitted == []
    has_failed = detail is not None and "cannot be read" in detail
    assert all(
        (text in caplog.text) is has_failed for text in ("a function of the workflow failed", "Traceback")
    )


async def test_secret_is_in_no_answer_and_no_log(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    """Neither as a value, nor as a name below a secret field."""
    card = create_model("Card", number=(SecretStr, ...), pins=(dict[SecretStr, int], ...))
    client = api.serving(parcels(payload=card))
    sent = {"number": ["c4n4ry"], "pins": {"c4n4ry": "x"}}
    answer = await client.put("/api/parcels/a", sent)
    assert wrong_fields(answer) == ["number", "pins"]
    batch = await client.post("/api/parcels/batch", {"parcels": [sent]})
    assert "c4n4ry" not in answer.body.decode() + batch.body.decode() + caplog.text


# Cancellation and access


@pytest.mark.parametrize("is_processed", [False, True])
async def test_cancelled_order_is_undone(api: Api, *, is_processed: bool) -> None:
    """The closed epoch has the caller's name; a repeated request gets the same answer."""
    flow = parcels(Step("open", request=request, undo=True), cancel_within=60)
    client = api.serving(flow)
    await api.admit(flow)
    await (api.run("open") if is_processed else api.start("open"))
    answer = await client.delete(f"/api/parcels/{TASK}")
    assert (answer.status, answer.headers["location"]) == (202, f"/api/parcels/{TASK}")
    assert answer.json == {"id": TASK, "location": f"/api/parcels/{TASK}"}
    record = await api.record()
    assert (record.direction, record.epoch, record.reason) == (Direction.UNDO, 2, "cancelled by its caller")
    [closed] = [row for (_, key), row in api.table.rows.items() if "|epoch|" in key]
    assert '"tester"' in closed["Facts"]
    assert await client.delete(f"/api/parcels/{TASK}") == answer
    assert (await api.record()).epoch == 2


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("processed", "It was processed, and its time limit for cancellation has passed."),
        ("child", "It is a step of another order. Cancel that order instead."),
        ("error", "It is in Error. An operator decides how it continues."),
        ("suspended", "An operator has suspended it. Ask the operator."),
    ],
)
async def test_409_has_the_reason_why_an_order_is_not_cancelled(api: Api, state: str, reason: str) -> None:
    """Nothing changes."""
    flow = parcels(Step("open", request=request, undo=True), cancel_within=60)
    await api.admit(flow, **({"parent": "trip-1", "parent_step": "a"} if state == "child" else {}))
    if state == "processed":
        await api.run("open")
        api.clock.advance(61)
    elif state == "error":
        await api.run("open", OutcomeKind.REFUSED)
    elif state == "suspended":
        await api.change(Suspended(reason="wait", by_operator=True))
    assert problem(await api.serving(flow).delete(f"/api/parcels/{TASK}"), 409)["detail"] == reason
    assert (await api.record()).direction is Direction.DO


async def test_order_of_another_caller_does_not_exist_for_a_submitter() -> None:
    """The answers are those of an unknown id; a `Reader` sees it, and an operator has another API."""
    api = Api(BOOKINGS, guard=SIGN_IN)
    await api.admit(BOOKINGS, submitter=ANNA)
    other = api.serving(headers=submitter(BERT))
    for method in ("GET", "DELETE"):
        stranger = problem(await other.send(method, BOOKING), 404)
        assert stranger["detail"] == "No booking is recorded under this id (yet)."
        assert stranger == problem(await other.send(method, "/api/bookings/nobodys"), 404)
    problem(await other.put(BOOKING, {}), 409)
    for who in (reader(BERT), operator(BERT), submitter(ANNA)):
        assert (await api.serving(headers=who).get(BOOKING)).status == 200
    for who in (reader(BERT), operator(BERT)):
        client = api.serving(headers=who)
        assert "Submitter" in problem(await client.delete(BOOKING), 403)["detail"]
        assert "Submitter" in problem(await client.post("/api/bookings", {}), 403)["detail"]
    reading = api.serving(headers=principal(BERT, "Submitter", "Reader"))
    assert "Operator" in problem(await reading.delete(BOOKING), 403)["detail"]
    assert (await api.record()).decision is None
    assert api.submitted == []
    assert (await api.serving(headers=submitter(ANNA)).delete(BOOKING)).status == 202


def test_document_has_the_time_limit_of_cancellation_and_the_batch(api: Api) -> None:
    """For callers, and with the workflow's own noun."""
    document: dict[str, Any] = api_document("Test", api.application(ORDERS, BOOKINGS))
    described = document["paths"]["/api/bookings/{id}"]["delete"]
    assert described["summary"] == "Cancel this booking: every effect is undone"
    assert "up to 60 seconds after it was processed" in described["description"]
    assert described["responses"].keys() >= {"202", "404", "409"}
    assert document["components"]["schemas"]["ParcelBatch"]["required"] == ["bookings"]
    orders = document["components"]["schemas"]["OrderPayloadBatch"]["properties"]["orders"]
    assert (orders["minItems"], orders["maxItems"]) == (1, 500)
    fields = orders["items"]["properties"]
    assert fields.keys() == {"id", "reply_to", "correlation_id", "customer", "currency", "items"}
    assert fields["id"]["anyOf"][0]["pattern"] == r"^[A-Za-z0-9_-]{1,64}$"


MINE, USD = "/api/orders/mine", ORDER | {"currency": "USD"}
TAKEN = "urn:problem-type:id-taken"


async def reject(api: Api) -> None:
    """Reject the last order that was sent."""
    await reject_reservation(api.storage, api.submitted[-1], "items: too many")


async def state(api: Api) -> str:
    """Return the state of the order."""
    return str((await api.client.get(MINE)).json["state"])


@pytest.mark.parametrize("fault", [None, TableFault.REPEATED])
@pytest.mark.parametrize("is_rejected", [False, True])
async def test_of_different_orders_at_one_moment_one_is_accepted(
    api: Api, fault: TableFault | None, *, is_rejected: bool
) -> None:
    """Under a new id, or that of a rejected order. The others are 409, and only the accepted one is sent."""
    if is_rejected:
        await api.client.put(MINE, ORDER)
        await reject(api)
        api.submitted.clear()
    orders = [ORDER | {"customer": f"C-{number}", "correlation_id": f"c-{number}"} for number in range(6)]
    api.table.fail_next(*[None] * is_rejected, fault)
    answers = await asyncio.gather(*(api.client.put(MINE, order) for order in orders))
    assert sorted(each.status for each in answers) == [202, 409, 409, 409, 409, 409]
    assert {problem(each, 409)["type"] for each in answers if each.status == 409} == {TAKEN}
    [message] = api.submitted
    assert answers[int(message.payload["customer"][2:])].status == 202
    assert (await api.client.get(MINE)).json["correlation_id"] == message.correlation_id


async def test_of_two_callers_with_one_order_one_gets_the_id() -> None:
    """Also after its task is recorded."""
    api = Api(guard=SIGN_IN)
    clients = [api.serving(headers=submitter(name)) for name in (ANNA, BERT)]
    answers = await asyncio.gather(*(client.put(MINE, ORDER) for client in clients))
    assert sorted(each.status for each in answers) == [202, 409]
    await api.admit_submitted()
    assert [(await client.put(MINE, ORDER)).status for client in clients] == [each.status for each in answers]


async def test_order_without_a_task_is_accepted_or_rejected() -> None:
    """Its caller and readers see it on its resource. The id of a rejected one is free for any order."""
    api = Api(guard=SIGN_IN)
    headers = (submitter(ANNA), reader(BERT), submitter(BERT))
    anna, robin, bert = (api.serving(headers=each) for each in headers)
    assert (await anna.put(MINE, ORDER | {"correlation_id": "c-7"})).status == 202
    shown = (await anna.get(MINE)).json
    assert shown == (await robin.get(MINE)).json
    assert shown == {
        **dict.fromkeys(("finished_at", "last_error", "output")),
        "id": "mine",
        "workflow": "orders",
        "state": "Accepted",
        "steps": [],
        "correlation_id": "c-7",
        "submitted_at": "2026-11-21T10:00:00.123456Z",
    }
    problem(await bert.get(MINE), 404)
    problem(await anna.get("/api/parcels/mine"), 404)
    problem(await anna.delete(MINE), 404)
    await reject(api)
    assert (await anna.get(MINE)).json == shown | {"state": "Rejected", "last_error": "items: too many"}
    assert (await bert.put(MINE, USD)).status == 202
    assert (await bert.get(MINE)).json["state"] == "Accepted"
    problem(await anna.put(MINE, ORDER), 409)


async def test_repeated_order_is_sent_again_until_it_has_a_task(api: Api) -> None:
    """With the same reservation, because the first message may be lost or not sent."""
    api.failure = SendError("no link")
    problem(await api.client.put(MINE, ORDER), 503)
    api.failure = None
    problem(await api.client.put(MINE, USD), 409)
    for _ in range(2):
        assert (await api.client.put(MINE, ORDER)).status == 202
    assert len({each.reservation for each in api.submitted}) == 1
    await api.admit_submitted()
    assert (await api.client.put(MINE, ORDER)).status == 202
    assert (len(api.submitted), await state(api)) == (2, "Pending")


async def test_reservation_whose_answer_was_lost_is_recognised(api: Api) -> None:
    """After a 503, the caller repeats its request."""
    api.table.fail_next(TableFault.NO_ANSWER)
    assert [(await api.client.put(MINE, order)).status for order in (ORDER, USD, ORDER)] == [503, 409, 202]


async def test_rejected_order_that_is_sent_again_has_another_reservation(api: Api) -> None:
    """A late rejection of the first message does not count."""
    await api.client.put(MINE, ORDER)
    await reject(api)
    await api.client.put(MINE, ORDER)
    first, second = api.submitted
    assert first.reservation != second.reservation
    await reject_reservation(api.storage, first, "late")
    assert await state(api) == "Accepted"


async def test_ids_of_a_batch_are_new_repeated_taken_or_named_twice(api: Api) -> None:
    """An order without an id needs no reservation, and an order with a task is not sent again."""
    await api.client.put("/api/orders/recorded", ORDER)
    await api.admit_submitted()
    for name in ("reserved", "taken", "rejected"):
        await api.client.put(f"/api/orders/{name}", ORDER)
    await reject(api)
    api.submitted.clear()
    batch = [ORDER | {"id": name} for name in ("new", "recorded", "reserved", "rejected", "new")]
    batch += [ORDER, *(USD | {"id": name} for name in ("new", "recorded", "taken"))]
    results = (await api.client.post("/api/orders/batch", {"orders": batch})).json["results"]
    assert [each["status"] for each in results] == [202] * 6 + [409] * 3
    assert {each["problem"]["type"] for each in results[6:]} == {TAKEN}
    sent = {each.task_id: each.reservation is not None for each in api.submitted}
    assert sent == {"new": True, "reserved": True, "rejected": True, results[5]["id"]: False}
    assert len(api.submitted) == len(sent)


async def test_batch_of_known_ids_writes_nothing_and_sends_nothing(api: Api) -> None:
    """Its orders are recorded."""
    batch = {"orders": [ORDER | {"id": f"o-{number}"} for number in range(30)]}
    await api.client.post("/api/orders/batch", batch)
    await api.admit_submitted()
    rows, transactions = dict(api.table.rows), len(api.table.transactions)
    results = (await api.client.post("/api/orders/batch", batch)).json["results"]
    assert Counter(each["status"] for each in results) == {202: 30}
    assert len(api.table.transactions) == transactions
    assert (len(api.submitted), api.table.rows) == (30, rows)


async def test_batch_accepts_no_order_under_the_id_of_another_one_before_it(api: Api) -> None:
    """The first order of a batch under an id counts. An order that is not sent is not accepted."""
    api.failure = SendError("no queue")
    assert (await api.client.put("/api/orders/mine", ORDER)).status == 503
    api.failure = None
    batch = {"orders": [USD | {"id": "mine"}, ORDER | {"id": "mine"}]}
    results = (await api.client.post("/api/orders/batch", batch)).json["results"]
    assert ([each["status"] for each in results], api.submitted) == ([409, 409], [])
