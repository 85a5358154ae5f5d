"""The role `Reader`, and the roles of callers without sign-in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from functions.web.access import Guard
from functions.web.callers import Interface, identify_by
from functions.workflows.registry import load_registrations
from tests.fakes.asgi import AsgiClient
from tests.fakes.clock import FakeClock
from tests.fakes.guards import ANNA, BERT, SIGN_IN, WIDE, operator, principal, reader, submitter
from tests.fakes.tasks import claimed, pending, started, told
from tests.fakes.workflows import TASK, awaiting, workflow
from tests.security.conftest import wired
from tests.security.routes import Route, routes_of
from tests.unit.api.conftest import Api
from tests.unit.api.samples import problem
from tests.unit.operations.conftest import Desk, in_error

OPERATORS = [pytest.param(route, id=str(route)) for route in routes_of(Desk().application)]
FLOW = workflow(awaiting("approve", role="Approver"), name="booking", resource="bookings")
PATH = f"/api/bookings/{TASK}"
YES: Any = {"approved": True}


def _guard(auth_mode: Any, interface: Interface) -> Guard:
    return Guard(identify_by(auth_mode, interface), WIDE, FakeClock())


def _bookings(guard: Guard, headers: dict[str, str], owner: str = "another") -> AsgiClient:
    """Serve a booking of `owner`, which waits for its approval."""
    api = Api(guard)
    waiting = told(pending(FLOW), claimed(), started("approve", complete_by=3600))
    api.store.put(replace(waiting, order=replace(waiting.order, submitter=owner)))
    return AsgiClient(api.application_of(FLOW), headers)


@pytest.mark.parametrize("route", OPERATORS)
async def test_reader_sees_everything_and_changes_nothing(route: Route) -> None:
    """Each GET is answered as an operator's; each action is 403, names `Operator`, and records nothing."""
    desk = Desk(SIGN_IN)
    desk.holds(in_error())
    before = desk.store.records()
    answer = await route.ask(desk.application, reader(ANNA))
    if route.method == "GET" and not route.path.endswith("/me"):
        assert answer == await route.ask(desk.application, operator(ANNA))
    elif route.method != "GET":
        refused = str(problem(answer, 403)["detail"])
        assert "lacks the role Operator." in refused
        assert "AUTH_MODE=easyauth" in refused
    assert desk.store.records() == before


async def test_reader_follows_each_order_and_submits_none() -> None:
    """At the callers' API, too: neither an event, nor a cancel, nor an order is taken."""
    client = _bookings(SIGN_IN, reader(ANNA))
    assert (await client.get(PATH)).status == 200
    assert (await client.get(f"{PATH}/events/approve")).status == 200
    assert "Submitter" in problem(await client.post("/api/bookings", {"weight": 3}), 403)["detail"]
    assert "Submitter" in problem(await client.delete(PATH), 403)["detail"]
    assert "Approver" in problem(await client.post(f"{PATH}/events/approve", YES), 403)["detail"]


@pytest.mark.parametrize(
    ("guard", "headers", "own"),
    [
        (SIGN_IN, reader(ANNA), {"name": ANNA, "roles": ["Reader"]}),
        (SIGN_IN, principal(BERT, "Operator", "Approver"), {"name": BERT, "roles": ["Approver", "Operator"]}),
        (_guard("keys", "operations"), reader(ANNA), {"name": "operator", "roles": ["Operator"]}),
        (
            _guard("local", "operations"),
            {},
            {"name": "operator", "roles": ["Operator", "Reader", "Submitter"]},
        ),
    ],
)
async def test_caller_is_shown_its_own_roles(guard: Guard, headers: dict[str, str], own: object) -> None:
    """By them the console hides its buttons; with keys, the header of the sign-in counts for nothing."""
    answer = await AsgiClient(Desk(guard).application, headers).get("/api/ops/me")
    assert (answer.status, answer.json) == (200, own)


@pytest.mark.parametrize(
    ("auth_mode", "own"),
    [
        ("easyauth", {"name": ANNA, "roles": ["Reader"]}),
        ("keys", {"name": "operator", "roles": ["Operator"]}),
    ],
)
async def test_setting_decides_how_callers_are_identified(auth_mode: str, own: object) -> None:
    """The wiring applies it to both applications."""
    registrations = load_registrations()
    wiring = wired(registrations, AUTH_MODE=auth_mode)
    assert (await AsgiClient(wiring._make_operators(), reader(ANNA)).get("/api/ops/me")).json == own
    path = f"/api/{registrations[0].workflow.resource}"
    nobody = await AsgiClient(wiring._make_callers()).post(path, {})
    assert nobody.status == (401 if auth_mode == "easyauth" else 422)


async def test_function_key_of_the_api_makes_a_submitter() -> None:
    """It submits, and neither sees orders of other submitters nor tells events; the 403 names the setting."""
    guard = _guard("keys", "api")
    problem(await _bookings(guard, {}).get(PATH), 404)
    client = _bookings(guard, {}, "function-key")
    assert (await client.get(PATH)).status == 200
    assert (await client.post("/api/bookings", {"weight": 3})).status == 202
    refused = problem(await client.post(f"{PATH}/events/approve", YES), 403)["detail"]
    assert "lacks the role Approver." in refused
    assert "AUTH_MODE=easyauth" in refused


async def test_function_key_of_operations_makes_an_operator() -> None:
    """Each action is recorded as `operator`, whatever identity its header names."""
    desk = Desk(_guard("keys", "operations"))
    desk.holds(in_error())
    client = AsgiClient(desk.application, {"X-Requested-With": "test", **submitter(ANNA)})
    assert (await client.post(f"/api/ops/tasks/{TASK}/resubmit", {"reason": "a test"})).status == 202
    assert desk.store.record(TASK).history[-1].who == "operator"


async def test_local_platform_grants_every_role() -> None:
    """Also a role that only a step names."""
    client = _bookings(_guard("local", "api"), {})
    assert (await client.get(PATH)).status == 200
    assert (await client.post("/api/bookings", {"weight": 3})).status == 202
    assert (await client.post(f"{PATH}/events/approve", YES)).status == 200


async def test_local_platform_with_sign_in_grants_no_role() -> None:
    """`AUTH_MODE=easyauth` is the same everywhere."""
    client = _bookings(_guard("easyauth", "api"), {})
    problem(await client.get(PATH), 401)
