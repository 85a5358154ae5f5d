"""Orders are taken, known again, and shown with how far they are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from functions.pattern.errors import TransientError
from functions.pattern.identity import TaskId
from functions.pattern.messages import order_of
from functions.pattern.plain_reasons import WITHHELD
from functions.pattern.states import ProcessState
from functions.pattern.transitions import admit
from tests.fakes.clock import START
from tests.fakes.orders import ORDERS, OrderPayload
from tests.fakes.tasks import after, claimed, failed, pending, started, told
from tests.fakes.workflows import BIRTH
from tests.unit.api.conftest import Api
from tests.unit.api.samples import ITEM, ORDER, problem


def _record_submitted(api: Api) -> None:
    """Do what the submission does with the orders that were taken."""
    for message in api.submissions.messages:
        api.store.put(admit(order_of(message, ORDERS, BIRTH), pick_up_by=after(30)))


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


async def test_reply_queue_on_the_list_is_taken(api: Api) -> None:
    """It goes with the order."""
    await api.client.post("/api/orders", ORDER | {"reply_to": "notices-demo"})
    assert api.submissions.messages[0].reply_to == "notices-demo"


async def test_same_order_again_gets_the_same_answer(api: Api) -> None:
    """Before it is recorded and after; once recorded it is not submitted again."""
    first = await api.client.put("/api/orders/mine", ORDER)
    assert (first.status, first.headers["location"]) == (202, "/api/orders/mine")
    assert await api.client.put("/api/orders/mine", ORDER) == first
    submitted = len(api.submissions.messages)
    _record_submitted(api)
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
    _record_submitted(api)
    problem(await api.client.put("/api/orders/mine", ORDER | change), 409)
    assert len(api.submissions.messages) == 1


class _WithNote(OrderPayload):
    """The same order, with a field more that is optional."""

    note: str = "none"


async def test_same_order_is_known_after_a_field_was_added(api: Api) -> None:
    """What the model adds is not the caller's: a `PUT` repeated after the deployment is the same order."""
    assert (await api.client.put("/api/orders/mine", ORDER)).status == 202
    _record_submitted(api)
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
