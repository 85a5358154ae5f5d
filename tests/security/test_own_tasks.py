"""Two callers at every route that names an order: for each, the other's orders do not exist."""

from __future__ import annotations

import pytest

from functions.pattern.messages import order_of
from functions.pattern.transitions import admit
from tests.fakes.asgi import AsgiClient, HttpAnswer
from tests.fakes.clock import START
from tests.fakes.guards import ANNA, BERT, SIGN_IN, operator, submitter
from tests.fakes.orders import ORDERS
from tests.fakes.workflows import BIRTH, TASK
from tests.unit.api.conftest import Api
from tests.unit.api.samples import ORDER, problem

OTHER = ORDER | {"customer": "somebody else"}
PATH = f"/api/orders/{TASK}"


class Two:
    """Anna, whose order is recorded, and Bert."""

    def __init__(self) -> None:
        self.api = Api(SIGN_IN)
        self.anna = AsgiClient(self.api.application, submitter(ANNA))
        self.bert = AsgiClient(self.api.application, submitter(BERT))
        self.operator = AsgiClient(self.api.application, operator(BERT))

    async def record(self) -> None:
        """Submit Anna's order, and let it be recorded."""
        assert (await self.anna.put(PATH, ORDER)).status == 202
        [message] = self.api.submissions.messages
        self.api.store.put(admit(order_of(message, ORDERS, BIRTH), pick_up_by=START))


@pytest.fixture
async def two() -> Two:
    """Record Anna's order."""
    two = Two()
    await two.record()
    return two


async def test_each_caller_sees_only_its_own_orders(two: Two) -> None:
    """Another caller's order is 404; a 403 would reveal that it exists."""
    assert (await two.anna.get(PATH)).status == 200
    assert (await two.operator.get(PATH)).status == 200
    stranger = problem(await two.bert.get(PATH), 404)
    assert stranger == problem(await two.bert.get("/api/orders/nobodys"), 404)


async def test_nobody_cancels_another_callers_order(two: Two) -> None:
    """404 as for one that does not exist; operators have a way of their own."""
    assert problem(await two.bert.delete(PATH), 404) == problem(
        await two.bert.delete("/api/orders/nobodys"), 404
    )
    problem(await two.operator.delete(PATH), 403)
    assert two.api.store.record(TASK).history == ()
    assert (await two.anna.delete(PATH)).status == 202
    assert [each.who for each in two.api.store.record(TASK).history] == [ANNA]


@pytest.mark.parametrize("order", [ORDER, OTHER], ids=["the same", "another"])
async def test_an_id_that_another_caller_uses_is_refused(two: Two, order: object) -> None:
    """The response does not reveal whether the order is the same, and nothing is submitted."""
    before = len(two.api.submissions.messages)
    problem(await two.bert.put(PATH, order), 409)
    assert statuses(await two.bert.post("/api/orders/batch", {"orders": [{"id": TASK, **ORDER}]})) == [409]
    assert len(two.api.submissions.messages) == before


async def test_the_owner_may_repeat_the_order(two: Two) -> None:
    """As without another caller."""
    assert (await two.anna.put(PATH, ORDER)).status == 202
    assert statuses(await two.anna.post("/api/orders/batch", {"orders": [{"id": TASK, **ORDER}]})) == [202]
    problem(await two.anna.put(PATH, OTHER), 409)


async def test_orders_are_recorded_with_their_submitter(two: Two) -> None:
    """Alone or in a batch; no field of the body can change it."""
    await two.bert.post("/api/orders", ORDER)
    await two.bert.post("/api/orders/batch", {"orders": [ORDER]})
    assert [message.submitter for message in two.api.submissions.messages] == [ANNA, BERT, BERT]
    problem(await two.bert.post("/api/orders", ORDER | {"submitter": ANNA}), 422)


def statuses(answer: HttpAnswer) -> list[int]:
    """Return the status of each order of a batch."""
    return [result["status"] for result in answer.json["results"]]
