"""Orders are recorded as they were sent, known again, shown and cancelled."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    SecretStr,
    StringConstraints,
    create_model,
    model_validator,
)
from pydantic.alias_generators import to_camel

from functions.api.pages import api_document
from functions.messages.reading import read_message
from functions.pattern.definition import Workflow
from functions.pattern.errors import TransientError
from functions.pattern.identity import Parent, StepName, TaskId
from functions.pattern.messages import SubmissionMessage
from functions.pattern.plain_reasons import WITHHELD
from functions.pattern.records import TaskRecord
from functions.pattern.states import Direction, EpochEnd, ProcessState, Remedy
from tests.fakes.asgi import AsgiClient
from tests.fakes.clock import START
from tests.fakes.guards import ANNA, BERT, SIGN_IN, principal
from tests.fakes.interventions import done, park_request
from tests.fakes.orders import ORDERS, OrderPayload
from tests.fakes.tasks import after, claimed, failed, pending, started, told
from tests.fakes.workflows import BIRTH, TASK, each, step, workflow
from tests.unit.api.conftest import Api
from tests.unit.api.samples import ITEM, ORDER, problem


async def test_new_order_gets_an_id_and_a_location(api: Api) -> None:
    """202: it is on its way, and there it can be followed."""
    answer = await api.client.post("/api/orders", ORDER | {"correlation_id": "c-7"})
    assert answer.status == 202
    assert answer.headers["location"] == "/api/orders/new-1"
    assert answer.json == {"id": "new-1", "location": "/api/orders/new-1"}
    [message] = api.submissions.messages
    assert (message.task_id, message.workflow, message.submitted_at) == ("new-1", "orders", START)
    assert (message.correlation_id, message.reply_to) == ("c-7", None)
    assert message.payload == ORDER


async def test_two_new_orders_are_two(api: Api) -> None:
    """The same content twice, without an id, is meant twice."""
    locations = {(await api.client.post("/api/orders", ORDER)).headers["location"] for _ in range(2)}
    assert locations == {"/api/orders/new-1", "/api/orders/new-2"}


async def test_same_order_again_gets_the_same_answer(api: Api) -> None:
    """Before it is recorded and after; once recorded it is not submitted again."""
    first = await api.client.put("/api/orders/mine", ORDER)
    assert (first.status, first.headers["location"]) == (202, "/api/orders/mine")
    assert await api.client.put("/api/orders/mine", ORDER) == first
    submitted = len(api.submissions.messages)
    api.record_submitted()
    turned = dict(reversed(ORDER.items()))
    assert await api.client.put("/api/orders/mine", turned) == first
    assert len(api.submissions.messages) == submitted


async def test_order_that_is_found_by_too_much_is_refused(api: Api) -> None:
    """Each text by which an order is found is a row; the answer says how many there can be."""
    findable = replace(ORDERS, find_by=lambda order: [f"{order.customer} {each}" for each in range(9)])
    answer = problem(await api.serving(findable).post("/api/orders", ORDER), 422)
    assert answer["detail"] == "It is found by 9 texts; at most 8 are possible."
    assert api.submissions.messages == []


@pytest.mark.parametrize(
    "change", [{"currency": "USD"}, {"items": [ITEM, ITEM]}, {"reply_to": "notices-demo"}]
)
async def test_other_content_under_a_known_id_is_409(api: Api, change: dict[str, object]) -> None:
    """The first order stands."""
    await api.client.put("/api/orders/mine", ORDER)
    api.record_submitted()
    problem(await api.client.put("/api/orders/mine", ORDER | change), 409)
    assert len(api.submissions.messages) == 1


class _WithNote(OrderPayload):
    """The same order, with a field more that is optional."""

    note: str = "none"


async def test_same_order_is_known_after_a_field_was_added(api: Api) -> None:
    """What the model adds is not the caller's: a `PUT` repeated after the deployment is the same order."""
    assert (await api.client.put("/api/orders/mine", ORDER)).status == 202
    api.record_submitted()
    deployed = api.serving(replace(ORDERS, payload=_WithNote, version=2), ORDERS)
    assert (await deployed.put("/api/orders/mine", ORDER)).status == 202
    problem(await deployed.put("/api/orders/mine", ORDER | {"note": "none"}), 409)
    assert len(api.submissions.messages) == 1
    await deployed.post("/api/orders", ORDER)
    assert (api.submissions.messages[1].version, api.submissions.messages[1].payload) == (2, ORDER)


async def test_id_of_another_resource_is_409_for_put_and_404_for_get(api: Api) -> None:
    """Ids are shared by all workflows, orders are not."""
    api.store.put(pending())
    problem(await api.client.put("/api/orders/task-1", ORDER), 409)
    problem(await api.client.get("/api/orders/task-1"), 404)
    assert (await api.client.get("/api/parcels/task-1")).status == 200


async def test_order_is_shown_with_its_steps_and_times(api: Api) -> None:
    """Times are UTC."""
    record = told(pending(), claimed(), started("open", complete_by=12))
    api.store.put(told(record, failed("open", error="bank answered 402: no money"), now=after(2)))
    shown = (await api.client.get("/api/parcels/task-1")).json
    assert {name: shown[name] for name in ("id", "workflow", "state", "last_error", "correlation_id")} == {
        "id": "task-1",
        "workflow": "diamond",
        "state": "Error",
        "last_error": "open: bank answered 402",
        "correlation_id": "c-1",
    }
    assert shown["submitted_at"] == "2026-11-21T10:00:00.123456Z"
    assert shown["finished_at"] == "2026-11-21T10:00:02.123456Z"
    assert [step["name"] for step in shown["steps"]] == ["open", "left", "right", "close"]
    assert shown["steps"][0] == {
        "name": "open",
        "state": "Failed",
        "complete_by": "2026-11-21T10:00:12.123456Z",
        "started_at": "2026-11-21T10:00:00.123456Z",
        "finished_at": "2026-11-21T10:00:02.123456Z",
        "error": "bank answered 402",
        "item": None,
    }
    assert shown["steps"][1]["state"] == "NotStarted"


@pytest.mark.parametrize("error", ["KeyError: 'secret'", "no account 123 at our bank"])
async def test_callers_are_not_told_others_texts(api: Api, error: str) -> None:
    """Neither a defect's, nor a service's: which step failed is to be seen, and the operators know why."""
    record = told(pending(), claimed(), started("open"))
    api.store.put(told(record, failed("open", error=error)))
    shown = (await api.client.get("/api/parcels/task-1")).json
    assert (shown["steps"][0]["state"], shown["steps"][0]["error"]) == ("Failed", WITHHELD)
    assert shown["last_error"] == WITHHELD


async def test_workflows_answer_is_shown(api: Api) -> None:
    """As it was recorded."""
    record = pending()
    answered = replace(record.task, process_state=ProcessState.PROCESSED, answer=b'{"number":7}')
    api.store.put(replace(record, task=answered))
    assert (await api.client.get("/api/parcels/task-1")).json["answer"] == {"number": 7}


async def test_callers_are_not_told_why_an_answer_is_missing(api: Api) -> None:
    """The reason may hold what is not for them."""
    record = pending()
    last_error = "its answer can't be given: ValueError: secret"
    unanswered = replace(record.task, process_state=ProcessState.PROCESSED, last_error=last_error)
    api.store.put(replace(record, task=unanswered))
    shown = (await api.client.get("/api/parcels/task-1")).json
    assert (shown["answer"], shown["last_error"]) == (None, "its answer can't be given")


async def test_answer_shows_nothing_of_the_inside(api: Api) -> None:
    """Neither who holds the task nor the payload nor who submitted it."""
    record = told(pending(), claimed())
    api.store.put(replace(record, order=replace(record.order, submitter="secret-submitter")))
    body = (await api.client.get("/api/parcels/task-1")).body.decode()
    assert not [word for word in ("task-1.1", "secret-submitter", "weight", "epoch") if word in body]


async def test_health_is_the_stores(api: Api) -> None:
    """Healthy, or 503 with a hint when to come back."""
    assert (await api.client.get("/api/health")).json == {"status": "healthy"}
    failing = Api()
    failing.store.failure = TransientError("Table Storage: ServiceRequestError")
    answer = await failing.client.get("/api/health")
    problem(answer, 503)
    assert answer.headers["retry-after"] == "5"


@pytest.mark.parametrize("failing", ["store", "queue"])
async def test_service_that_does_not_answer_is_503(api: Api, failing: str) -> None:
    """The caller may try again, safely."""
    failure = TransientError("Service Bus: OperationTimeoutError")
    if failing == "store":
        api.store.failure = failure
    else:
        api.submissions.failure = failure
    answer = await api.client.put("/api/orders/mine", ORDER)
    assert "OperationTimeoutError" not in str(problem(answer, 503))


async def test_unexpected_failure_is_a_500_that_tells_nothing(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    """Only a reference, by which the log is found."""
    api.store.failure = TaskLostError(TaskId("secret"))
    document = problem(await api.client.get("/api/orders/mine"), 500)
    assert "secret" not in str(document)
    reference = document["detail"].rstrip(".").rpartition(" ")[2]
    assert reference in caplog.text


class TaskLostError(Exception):
    """What nobody expected."""


def _of(payload: type[BaseModel]) -> Workflow:
    return Workflow(name="forms", resource="forms", payload=payload, steps=(step("pick"),))


async def _submitted(api: Api, payload: type[BaseModel], body: dict[str, Any]) -> SubmissionMessage:
    """Submit it by itself and in a batch, which makes no difference."""
    client = api.serving(_of(payload))
    answer = await client.put("/api/forms/one", body)
    assert answer.status == 202, answer.body
    answer = await client.post("/api/forms/batch", {"forms": [{"id": "one", **body}]})
    assert answer.json["results"][0]["status"] == 202, answer.body
    alone, batched = api.submissions.messages[-2:]
    assert alone == batched
    return alone


class Camel(BaseModel):
    """A payload whose callers write camelCase."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)

    unit_price: str


class Tagged(BaseModel):
    """A payload with a set, whose order is another in each process."""

    tags: set[str]


class Renamed(BaseModel):
    """It takes the former name of a field, as pydantic's users do: in place."""

    amount: int

    @model_validator(mode="before")
    @classmethod
    def _former(cls, given: Any) -> Any:
        if isinstance(given, dict) and "total" in given:
            given["amount"] = given.pop("total")
        return given


class Required(BaseModel):
    """The same, of a field that has to be there."""

    amount: int

    @model_validator(mode="before")
    @classmethod
    def _former(cls, given: Any) -> Any:
        given["amount"] = given.pop("total")
        return given


class Stamped(BaseModel):
    """It fills in what was left out."""

    amount: int
    edition: str = ""

    @model_validator(mode="before")
    @classmethod
    def _stamp(cls, given: Any) -> Any:
        if isinstance(given, dict):
            given.setdefault("edition", "2")
        return given


Card = create_model("Card", number=(SecretStr, ...))
Measured = create_model("Measured", weight=(float | None, None))


@pytest.mark.parametrize(
    ("payload", "body"),
    [
        (Card, {"number": "4111"}),
        (Tagged, {"tags": ["d", "b", "a", "c", "b"]}),
        (Measured, {"weight": "inf"}),
        (Measured, {"weight": 10**30}),
        (Camel, {"unitPrice": "4.90"}),
        (Renamed, {"total": 3}),
        (Required, {"total": 3}),
        (Stamped, {"amount": 3}),
    ],
)
async def test_payload_is_recorded_as_it_was_sent(
    api: Api, payload: type[BaseModel], body: dict[str, Any]
) -> None:
    """Not as pydantic writes it: a card of stars, or null for what JSON has no number for."""
    envelope = {"reply_to": "notices-demo", "correlation_id": "c-1"}
    message = await _submitted(api, payload, body | envelope)
    assert message.payload == body
    assert (message.reply_to, message.correlation_id) == ("notices-demo", "c-1")
    assert read_message(SubmissionMessage, message.written).digest == message.digest


async def test_same_order_is_known_after_a_deployment_that_reads_it_differently(api: Api) -> None:
    """Neither a text that is stripped nor a number that is a float is another order."""
    name = Annotated[str, StringConstraints(strip_whitespace=True)]
    before = create_model("Before", name=(str, ...), amount=(int, ...))
    after = create_model("After", name=(name, ...), amount=(float, ...), note=(str, ""))
    body = {"name": " Ada ", "amount": 1}
    assert (await _submitted(api, after, body)).digest == (await _submitted(api, before, body)).digest


class List(BaseModel):
    """A payload that takes what is no object."""

    first: str

    @model_validator(mode="before")
    @classmethod
    def _read(cls, given: Any) -> Any:
        return {"first": given[0]} if isinstance(given, list) else given


async def test_list_that_the_model_would_take_is_refused(api: Api) -> None:
    """The payload stands alone from here on."""
    client = api.serving(_of(List))
    problem(await client.put("/api/forms/one", ["a"]), 422)
    answer = await client.post("/api/forms/batch", {"forms": [["a"]]})
    assert answer.json["results"][0]["status"] == 422
    assert api.submissions.messages == []


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


BOOKINGS = workflow(
    step("room", undo=True), name="booking", resource="bookings", remedy=Remedy.HOLD, cancel_within=60
)
BOOKING = f"/api/bookings/{TASK}"
RUNNING = told(pending(BOOKINGS), claimed(), started("room"))
PROCESSED = told(pending(BOOKINGS), claimed(), *done("room"))
HELD = told(RUNNING, failed("room"))
CHILD = replace(
    RUNNING,
    order=replace(RUNNING.order, parent=Parent(task=TaskId("trip-1"), birth=BIRTH, step=StepName("room"))),
)


@pytest.fixture
def client(api: Api) -> AsgiClient:
    """Serve bookings."""
    return api.serving(BOOKINGS)


def _put(api: Api, record: TaskRecord, at: float = 0) -> None:
    finished_at = None if record.task.finished_at is None else after(at)
    api.store.put(replace(record, task=replace(record.task, finished_at=finished_at)))


@pytest.mark.parametrize("record", [RUNNING, PROCESSED], ids=["under way", "processed"])
async def test_cancelled_task_is_being_undone(api: Api, client: AsgiClient, record: TaskRecord) -> None:
    """202, with the place where the end can be seen; who did it stands in the history."""
    _put(api, record)
    answer = await client.delete(BOOKING)
    assert (answer.status, answer.headers["location"]) == (202, BOOKING)
    assert answer.json == {"id": TASK, "location": BOOKING}
    task, [closed] = api.store.record(TASK).task, api.store.record(TASK).history
    assert (task.process_state, task.direction) == (ProcessState.PENDING, Direction.UNDO)
    assert task.complete_by == after(30)
    assert (closed.ended_by, closed.who) == (EpochEnd.CANCELLED, "tester")
    assert await client.delete(BOOKING) == answer
    assert len(api.store.record(TASK).history) == 1


@pytest.mark.parametrize(
    ("record", "at", "reason"),
    [
        (PROCESSED, -61, "It was processed, and can't be cancelled any more."),
        (CHILD, 0, "It is a step of another: cancel that instead."),
        (HELD, 0, "It is in Error: an operator decides what becomes of it."),
        (told(RUNNING, park_request()), 0, "An operator has parked it: ask the operator."),
    ],
    ids=["too late", "child", "Error", "parked"],
)
async def test_refusal_says_why(
    api: Api, client: AsgiClient, record: TaskRecord, at: int, reason: str
) -> None:
    """409, and nothing is changed."""
    _put(api, record, at)
    assert problem(await client.delete(BOOKING), 409)["detail"] == reason
    assert api.store.record(TASK).task.direction is Direction.DO


async def test_only_what_is_there_can_be_cancelled(api: Api, client: AsgiClient) -> None:
    """In its own resource, too."""
    assert (
        problem(await client.delete(BOOKING), 404)["detail"] == "No booking is recorded under this id (yet)."
    )
    api.store.put(pending())
    problem(await client.delete(BOOKING), 404)


async def test_reader_that_submits_cancels_no_order_of_another() -> None:
    """It sees the order; the 403 names the role that it lacks."""
    api = Api(SIGN_IN)
    api.store.put(replace(RUNNING, order=replace(RUNNING.order, submitter=BERT)))
    client = AsgiClient(api.application_of(BOOKINGS), principal(ANNA, "Submitter", "Reader"))
    assert (await client.get(BOOKING)).status == 200
    assert "Operator" in problem(await client.delete(BOOKING), 403)["detail"]
    assert api.store.record(TASK).task.direction is Direction.DO


def test_document_says_for_how_long(api: Api) -> None:
    """Where callers read of it."""
    document: dict[str, Any] = api_document("Test", api.application_of(BOOKINGS))
    described = document["paths"]["/api/bookings/{id}"]["delete"]
    assert described["summary"] == "Cancel this booking: what was done for it is undone"
    assert "up to 60 seconds after it was processed" in described["description"]
    assert described["responses"].keys() >= {"202", "404", "409"}
