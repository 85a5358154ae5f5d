"""Access to each route: sign-in, keys, roles, own orders, and unclear addresses."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Any
from unittest.mock import AsyncMock

import azure.functions as func
import pytest

from functions.core.definition.definition_checks import RESERVED_RESOURCES
from functions.http.access import Guard
from functions.http.identification import PRINCIPAL_HEADER, Interface, identify_by
from tests.fakes.application import wired
from tests.fakes.asgi import AsgiClient, HttpAnswer
from tests.fakes.guards import ANNA, BERT, SIGN_IN, WIDE, encoded, operator, principal, reader, submitter
from tests.security.routes import Route, routes_of
from tests.unit.api.scene import ORDER, TASK, Api, bookings, problem
from tests.unit.operators.conftest import Desk

_ID = "http://schemas.microsoft.com/identity/claims/objectidentifier"
_ROLE = {"typ": "roles", "val": "Operator"}

STRANGERS = {
    "nothing": {},
    "empty": {PRINCIPAL_HEADER: ""},
    "no base64": {PRINCIPAL_HEADER: "!" + principal(ANNA, "Operator")[PRINCIPAL_HEADER]},
    "no JSON": {PRINCIPAL_HEADER: b64encode(b"\xff{").decode()},
    "no object": encoded(["Operator"]),
    "no claims": encoded({"roles": ["Operator"]}),
    "a claim without value": encoded({"claims": [{"typ": _ID}]}),
    "a role without identity": encoded({"claims": [_ROLE]}),
    "an identity that is no id": encoded({"claims": [{"typ": _ID, "val": "' or PartitionKey ne '"}, _ROLE]}),
    "two identities": encoded({"claims": [{"typ": _ID, "val": each} for each in (ANNA, BERT)] + [_ROLE]}),
}


class Applications:
    """Both applications with sign-in."""

    def __init__(self) -> None:
        self.api, self.office = Api(guard=SIGN_IN), Desk(guard=SIGN_IN)
        self.application = self.api.application()
        self.callers = list(routes_of(self.application))
        self.operators = list(routes_of(self.office.application))
        self.every = self.callers + self.operators
        self.writing = [route for route in self.callers if route.method != "GET" and not route.is_of_events]

    async def ask(self, routes: Iterable[Route], headers: Mapping[str, str]) -> dict[str, HttpAnswer]:
        """Call each route with these headers."""
        apps = {True: self.office.application, False: self.application}
        return {str(route): await route.ask(apps["/ops/" in route.path], headers) for route in routes}


@pytest.fixture
async def applications() -> Applications:
    """Serve both applications. There is a task in `Error` for operators."""
    both = Applications()
    await both.office.in_error()
    return both


@pytest.mark.parametrize("headers", STRANGERS.values(), ids=STRANGERS)
async def test_callers_without_an_identity_are_401(
    applications: Applications, headers: Mapping[str, str]
) -> None:
    """At every route: callers who have not signed in, and those whose header the platform did not write."""
    answers = await applications.ask(applications.every, headers)
    assert len(answers) == len(applications.every)
    for answer in answers.values():
        problem(answer, 401)
        assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("roles", [[], ["submitter"], ["reader", "OPERATOR"]])
async def test_those_without_a_role_are_403(applications: Applications, roles: list[str]) -> None:
    """At every route; roles are case-sensitive. A step may have a role of its own: no such step is 404."""
    for route in applications.every:
        [answer] = (await applications.ask([route], principal(ANNA, *roles))).values()
        problem(answer, 404 if roles and route.is_of_events else 403)


async def test_submitters_and_operators_have_their_own_routes(applications: Applications) -> None:
    """A submitter can't even read the operators' routes; an operator submits only as a submitter, too."""
    answers = await applications.ask(applications.operators, submitter(ANNA))
    answers |= await applications.ask(applications.writing, operator(ANNA))
    for answer in answers.values():
        problem(answer, 403)
    both = await applications.ask(applications.writing, principal(ANNA, "Operator", "Submitter"))
    assert not [route for route, answer in both.items() if answer.status in {401, 403}]


async def test_operators_actions_are_recorded_with_their_id(applications: Applications) -> None:
    """The history says who acted."""
    resubmit = [route for route in applications.operators if route.path.endswith("/resubmit")]
    await applications.ask(resubmit, operator(BERT))
    assert (await applications.office.epochs())[-1].who == BERT


async def test_with_keys_the_identity_header_is_ignored() -> None:
    """Without sign-in, any caller could have written the header: it is ignored, valid or not."""
    api = Api()
    for headers in (submitter(BERT), principal(BERT), *STRANGERS.values()):
        assert (await AsgiClient(api.application(), headers).post("/api/orders", ORDER)).status == 202
    assert {message.submitter for message in api.submitted} == {"tester"}


OPERATORS = [pytest.param(route, id=str(route)) for route in routes_of(Desk().application)]
FLOW = bookings(role="Approver")
BOOKING = f"/api/bookings/{TASK}"
YES: Any = {"approved": True}


def _guard(auth_mode: Any, interface: Interface) -> Guard:
    return Guard(identify_by(auth_mode, interface), WIDE)


async def _bookings(guard: Guard, headers: dict[str, str], owner: str = "another") -> AsgiClient:
    """Serve a booking of `owner`, which waits for its approval."""
    api = Api(FLOW, guard=guard)
    await api.admit(FLOW, submitter=owner)
    return api.serving(FLOW, headers=headers)


@pytest.mark.parametrize("route", OPERATORS)
async def test_reader_sees_everything_and_changes_nothing(route: Route) -> None:
    """Each GET is answered as an operator's; each action is 403, names `Operator`, and records nothing."""
    office = Desk(guard=SIGN_IN)
    await office.in_error()
    before = await office.record()
    answer = await route.ask(office.application, reader(ANNA))
    if route.method == "GET" and not route.path.endswith("/me"):
        assert answer == await route.ask(office.application, operator(ANNA))
    elif route.method != "GET":
        refused = str(problem(answer, 403)["detail"])
        assert "lacks the role Operator." in refused
        assert "AUTH_MODE=easyauth" in refused
    assert await office.record() == before


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
    answer = await AsgiClient(Desk(guard=guard).application, headers).get("/api/ops/me")
    assert (answer.status, answer.json) == (200, own)


@pytest.mark.parametrize(
    ("auth_mode", "own", "status"),
    [
        ("easyauth", {"name": ANNA, "roles": ["Reader"]}, 401),
        ("keys", {"name": "operator", "roles": ["Operator"]}, 422),
    ],
)
async def test_setting_decides_how_callers_are_identified(
    auth_mode: str, own: object, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wiring applies it to both applications."""
    monkeypatch.setattr("functions.wiring.read_intake", AsyncMock(return_value=None))
    wiring = wired(AUTH_MODE=auth_mode)
    assert (await AsgiClient(wiring._make_operators(), reader(ANNA)).get("/api/ops/me")).json == own
    assert (await AsgiClient(wiring._make_callers()).post("/api/errands", {})).status == status


async def test_function_key_of_the_api_makes_a_submitter() -> None:
    """It submits. It neither sees orders of other submitters nor sends events; the 403 names the setting."""
    guard = _guard("keys", "api")
    problem(await (await _bookings(guard, {})).get(BOOKING), 404)
    client = await _bookings(guard, {}, "function-key")
    assert (await client.get(BOOKING)).status == 200
    assert (await client.post("/api/bookings", {"weight": 3})).status == 202
    refused = problem(await client.post(f"{BOOKING}/events/approve", YES), 403)["detail"]
    assert "lacks the role Approver." in refused
    assert "AUTH_MODE=easyauth" in refused


async def test_local_platform_grants_every_role() -> None:
    """Also a role that only a step names."""
    client = await _bookings(_guard("local", "api"), {})
    assert (await client.get(BOOKING)).status == 200
    assert (await client.post("/api/bookings", {"weight": 3})).status == 202
    assert (await client.post(f"{BOOKING}/events/approve", YES)).status == 200


OTHER = ORDER | {"customer": "somebody else"}
ORDER_PATH = f"/api/orders/{TASK}"


async def test_order_is_its_submitters_who_keeps_its_id() -> None:
    """Alone or in a batch. No field of the body can change it.

    The answer to another caller does not reveal whether the order is the same, and nothing is submitted.
    """
    api = Api(guard=SIGN_IN)
    anna, bert = (api.serving(headers=submitter(each)) for each in (ANNA, BERT))
    assert (await anna.put(ORDER_PATH, ORDER)).status == 202
    await api.admit_submitted()
    for order in (ORDER, OTHER):
        problem(await bert.put(ORDER_PATH, order), 409)
        taken = await bert.post("/api/orders/batch", {"orders": [{"id": TASK, **order}]})
        assert [result["status"] for result in taken.json["results"]] == [409]
    assert [message.submitter for message in api.submitted] == [ANNA]
    await bert.post("/api/orders", ORDER)
    await bert.post("/api/orders/batch", {"orders": [ORDER]})
    assert [message.submitter for message in api.submitted] == [ANNA, BERT, BERT]
    problem(await bert.post("/api/orders", ORDER | {"submitter": ANNA}), 422)


#: Open to everybody: the health check, and pages that contain no secrets.
OPEN = {"health", "docs", "console_page", "console_files"}

#: Everything that can be reached over HTTP. Each is an application with its own routes.
ROUTES = {
    "health": "health",
    "docs": "docs/{name?}",
    "openapi": "openapi.json",
    "console_page": "ops",
    "console_files": "ops/console/{name}",
    "operations": "ops/{*route}",
    "services": "services/{*route}",
    "api": "{*route}",
}


@pytest.fixture(scope="session")
def functions() -> dict[str, Any]:
    """Return the functions of the application as it is deployed, by name."""
    builders = wired().function_app()._function_builders
    return {str(each._function.get_function_name()): each._function for each in builders}


def test_nothing_is_open_but_health_and_pages(functions: dict[str, Any]) -> None:
    """Open functions only read. Everything else needs a function key, the sample services too."""
    triggers = {name: function.get_trigger() for name, function in functions.items()}
    levels = {name: each.auth_level.name for name, each in triggers.items() if each.type == "httpTrigger"}
    assert levels == {name: "ANONYMOUS" if name in OPEN else "FUNCTION" for name in ROUTES}
    assert {str(method.value) for name in OPEN for method in triggers[name].methods} == {"GET"}


def test_no_route_names_a_function_or_a_workflow(functions: dict[str, Any]) -> None:
    """The application decides what runs: Durable's HTTP API has no route here.

    No workflow can take a route of the application: the host would prefer the more special route.
    """
    triggers = {name: function.get_trigger() for name, function in functions.items()}
    assert {name: trigger.route for name, trigger in triggers.items() if name in ROUTES} == ROUTES
    others = {trigger.type for name, trigger in triggers.items() if name not in ROUTES}
    assert others == {"serviceBusTrigger", "timerTrigger", "orchestrationTrigger", "activityTrigger"}
    own = {route.split("/")[0].removesuffix(".json") for name, route in ROUTES.items() if name != "api"}
    assert own == RESERVED_RESOURCES


#: The rest of the path after the function's own path, and the `Host` header.
UNCLEAR = {
    "no UTF-8": ("/%ff", "localhost"),
    "half a surrogate pair": ("/%ED%A0%80", "localhost"),
    "no port": ("", "localhost:abc"),
    "half an IPv6 address": ("", "[::1"),
    "a path for a host": ("", "localhost/api/orders/order-1?"),
    "a document for a host": ("", "localhost/api/openapi.json#"),
    "a name and a password": ("", "a:b@localhost"),
    "a parameter": ("/order-1;2", "localhost"),
}


async def _answer(functions: dict[str, Any], name: str, after: str = "", **headers: str) -> func.HttpResponse:
    fixed, host = ROUTES[name].partition("{")[0].rstrip("/"), headers.get("host", "localhost")
    request = func.HttpRequest("GET", f"http://{host}/api/{fixed}{after}", headers=headers, body=b"")
    answer: func.HttpResponse = await functions[name].get_user_function()(request, None)
    return answer


@pytest.mark.parametrize("name", ROUTES)
@pytest.mark.parametrize(("after", "host"), UNCLEAR.values(), ids=UNCLEAR)
async def test_unclear_addresses_are_400(functions: dict[str, Any], name: str, after: str, host: str) -> None:
    """With a problem document, where the adapter would raise, or use another path than the host did."""
    answer = await _answer(functions, name, after, host=host)
    assert (answer.status_code, answer.mimetype) == (400, "application/problem+json")
    document: dict[str, Any] = json.loads(answer.get_body())
    assert document["title"] == "Bad Request"
    assert answer.headers["cache-control"] == "no-store"
    assert host not in document["detail"]


@pytest.mark.parametrize(
    ("port", "status"),
    [("9" * 5_000, 400), ("443", 200), ("443, 8080", 200), ("443:", 200), ("https", 200), (" ", 200)],
)
async def test_port_that_is_no_port_is_400(functions: dict[str, Any], port: str, status: int) -> None:
    """The SDK's adapter raises at a number of more than 4,300 digits."""
    assert (await _answer(functions, "docs", **{"X-Forwarded-Port": port})).status_code == status


@pytest.mark.parametrize("name", sorted(OPEN - {"health", "console_files"}))
@pytest.mark.parametrize("host", ["localhost", "localhost:7071", "[::1]:7071", "api.example", "a_b.example"])
async def test_usual_addresses_are_answered(functions: dict[str, Any], name: str, host: str) -> None:
    """For every host name."""
    assert (await _answer(functions, name, host=host)).status_code == 200
