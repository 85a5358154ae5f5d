"""Who acts, by their function key: each named key does what its name and its function allow, and no more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from functions.pattern.states import ProcessState
from functions.web.entrance import Guard
from functions.web.key_holders import key_holders
from functions.web.named_keys import load_named_keys
from tests.fakes.asgi import AsgiClient
from tests.fakes.clock import FakeClock
from tests.fakes.guards import WIDE
from tests.fakes.tasks import claimed, pending, started, told
from tests.fakes.workflows import TASK, awaiting, workflow
from tests.unit.api.conftest import Api
from tests.unit.api.samples import problem
from tests.unit.operations.conftest import Desk, in_error

ADA, BOB, APPROVER = "adas-own-secret-1234", "bobs-own-secret-1234", "approvers-secret-1234"
OPERATOR, STRANGER = "operators-secret-1234", "the-host-knows-this-one"
KEYS = load_named_keys(
    {
        "KEY_API_ADA": ADA,
        "KEY_API_BOB": BOB,
        "KEY_API_ROLE_APPROVER_IN_CHIEF": APPROVER,
        "KEY_API_ROLE_OPERATOR": OPERATOR,
        "KEY_OPERATIONS_ADA": ADA,
    }
)
ROLE = "Approver.in-chief"
FLOW = workflow(awaiting("approve", role=ROLE), name="booking", resource="bookings")
PATH = f"/api/bookings/{TASK}"
EVENT = f"{PATH}/events/approve"
YES = {"approved": True}


def guard(function: str) -> Guard:
    """Make the guard of a function."""
    return Guard(key_holders(function, KEYS), WIDE, FakeClock())


class Bookings:
    """A booking of Ada's, which waits for its approval."""

    def __init__(self) -> None:
        self.api = Api(guard("api"))
        self.app = self.api.application_of(FLOW)
        waiting = told(pending(FLOW), claimed(), started("approve", complete_by=3600))
        self.api.store.put(replace(waiting, order=replace(waiting.order, submitter="ada")))

    def of(self, key: str) -> AsgiClient:
        """Ask with a key."""
        return AsgiClient(self.app, {"x-functions-key": key})


@pytest.fixture
def bookings() -> Bookings:
    """Record a booking of Ada's."""
    return Bookings()


async def test_named_key_submits_and_sees_its_own_under_its_name(bookings: Bookings) -> None:
    """Another's orders are not there for it."""
    assert (await bookings.of(ADA).post("/api/bookings", {"weight": 3})).status == 202
    assert [each.submitter for each in bookings.api.submissions.messages] == ["ada"]
    assert (await bookings.of(ADA).get(PATH)).status == 200
    for method, path in (("GET", PATH), ("DELETE", PATH), ("GET", EVENT)):
        problem(await bookings.of(BOB).send(method, path), 404)
    problem(await bookings.of(ADA).post(EVENT, YES), 403)
    assert (await bookings.of(ADA).delete(PATH)).status == 202
    assert bookings.api.store.record(TASK).history[-1].who == "ada"


async def test_roles_key_has_that_role_alone(bookings: Bookings) -> None:
    """It sees and tells its events, and neither submits nor sees a task."""
    client = bookings.of(APPROVER)
    assert (await client.get(EVENT)).json["step"] == "approve"
    for method, path in (("GET", PATH), ("DELETE", PATH), ("POST", "/api/bookings")):
        problem(await client.send(method, path, {"weight": 3} if method == "POST" else b""), 403)
    assert (await client.post(EVENT, YES)).status == 200
    step = bookings.api.store.record(TASK).steps[0]
    assert (step.known_result, step.told_by) == (b'{"approved":true}', "role-approver-in-chief")


async def test_roles_key_stays_that_whatever_is_deployed(bookings: Bookings) -> None:
    """No deployed version names its role: it submits nothing, and may tell its event later."""
    approve = replace(FLOW.steps[0], role="Manager")
    bookings.app = bookings.api.application_of(replace(FLOW, version=2, steps=(approve,)))
    problem(await bookings.of(APPROVER).post("/api/bookings", {"weight": 3}), 403)
    problem(await bookings.of(APPROVER).post(EVENT, YES), 503)


async def test_operators_key_of_the_api_sees_all_and_submits_nothing(bookings: Bookings) -> None:
    """As the role does."""
    assert (await bookings.of(OPERATOR).get(PATH)).status == 200
    problem(await bookings.of(OPERATOR).post("/api/bookings", {"weight": 3}), 403)
    problem(await bookings.of(OPERATOR).post(EVENT, YES), 403)


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ({"x-functions-key": STRANGER}, ""),
        ({}, f"?code={STRANGER}"),
        ({}, ""),
        ({"x-functions-key": f"{APPROVER}, {STRANGER}"}, ""),
        ({"x-functions-key": ""}, f"?code={ADA}"),
        ({"x-functions-key": STRANGER}, f"?code={ADA}"),
        ({}, f"?code={APPROVER}&code={ADA}"),
        ({}, f"?code={APPROVER}&CODE={ADA}"),
        ({"x-functions-key": ADA[:-1]}, ""),
        ({"x-functions-key": ADA + "x"}, ""),
    ],
)
async def test_key_that_is_not_named_is_refused_where_others_are(
    bookings: Bookings, headers: Mapping[str, str], query: str
) -> None:
    """A role's key that was renewed would otherwise do more than before; of several none is taken."""
    answer = problem(await AsgiClient(bookings.app, headers).get(PATH + query), 401)
    assert STRANGER not in str(answer)


@pytest.mark.parametrize(
    ("headers", "told"), [({}, "Show a function key"), ({"x-functions-key": STRANGER}, "This key is none of")]
)
async def test_who_shows_a_key_of_another_function_is_not_told_to_show_one(
    bookings: Bookings, headers: Mapping[str, str], told: str
) -> None:
    """Such as an operator who tells an event at its callers' address."""
    answer = problem(await AsgiClient(bookings.app, headers).get(PATH), 401)
    assert str(answer["detail"]).startswith(told)


@pytest.mark.parametrize("query", [f"?code={ADA}", f"?CODE={ADA}", f"?%63ode={ADA}", f"?a=1&code={ADA}"])
async def test_key_may_be_in_the_address(bookings: Bookings, query: str) -> None:
    """As the host reads it."""
    assert (await AsgiClient(bookings.app).get(PATH + query)).status == 200


async def test_operators_key_is_recorded_by_its_name() -> None:
    """One without a name does what each operator does, as before."""
    for key, who in ((ADA, "ada"), (STRANGER, "operator")):
        desk = Desk(guard("operations"))
        desk.holds(in_error())
        client = AsgiClient(desk.application, {"X-Requested-With": "test", "x-functions-key": key})
        assert (await client.post(f"/api/ops/tasks/{TASK}/resubmit", {"reason": "a test"})).status == 202
        record = desk.store.record(TASK)
        assert (record.task.process_state, record.history[-1].who) == (ProcessState.PENDING, who)


async def test_without_a_named_key_everybody_is_one_caller() -> None:
    """As it was: a key of a role of its own is nobody's."""
    others = [each for each in KEYS if each.function != "api"]
    api = Api(Guard(key_holders("api", others), WIDE, FakeClock()))
    api.store.put(told(pending(FLOW), claimed(), started("approve", complete_by=3600)))
    client = AsgiClient(api.application_of(FLOW), {"x-functions-key": STRANGER})
    assert (await client.post("/api/bookings", {"weight": 3})).status == 202
    assert [each.submitter for each in api.submissions.messages] == ["function-key"]
    assert (await client.get(PATH)).status == 200
    problem(await client.post(EVENT, YES), 403)
