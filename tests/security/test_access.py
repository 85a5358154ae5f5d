"""Who may call each route with `AUTH_MODE=easyauth`; and that function keys identify nobody."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping

import pytest

from functions.web.callers import PRINCIPAL_HEADER
from tests.fakes.asgi import AsgiClient, HttpAnswer
from tests.fakes.guards import ANNA, BERT, SIGN_IN, encoded, operator, principal, submitter
from tests.security.routes import Route, routes_of
from tests.unit.api.conftest import Api
from tests.unit.api.samples import ORDER, problem
from tests.unit.operations.conftest import Desk, in_error

_ID = "http://schemas.microsoft.com/identity/claims/objectidentifier"
_ROLE = {"typ": "roles", "val": "Operator"}

STRANGERS = {
    "nothing": {},
    "empty": {PRINCIPAL_HEADER: ""},
    "no base64": {PRINCIPAL_HEADER: "Operator!"},
    "no JSON": {PRINCIPAL_HEADER: b64encode(b"\xff{").decode()},
    "no object": encoded(["Operator"]),
    "no claims": encoded({"roles": ["Operator"]}),
    "a claim without value": encoded({"claims": [{"typ": _ID}]}),
    "a role without identity": encoded({"claims": [_ROLE]}),
    "an identity that is no id": encoded({"claims": [{"typ": _ID, "val": "' or PartitionKey ne '"}, _ROLE]}),
    "two identities": encoded({"claims": [{"typ": _ID, "val": each} for each in (ANNA, BERT)] + [_ROLE]}),
}


class Applications:
    """Both applications with sign-in. There is a task for operators."""

    def __init__(self) -> None:
        self.api, self.desk = Api(SIGN_IN), Desk(SIGN_IN)
        self.desk.holds(in_error())
        self.callers = list(routes_of(self.api.application))
        self.operators = list(routes_of(self.desk.application))
        self.every = self.callers + self.operators
        self.writing = [route for route in self.callers if route.method != "GET" and not route.is_of_events]

    async def ask(self, routes: Iterable[Route], headers: Mapping[str, str]) -> dict[str, HttpAnswer]:
        """Call each route with these headers."""
        apps = {True: self.desk.application, False: self.api.application}
        return {str(route): await route.ask(apps["/ops/" in route.path], headers) for route in routes}


@pytest.fixture
def applications() -> Applications:
    """Serve both applications."""
    return Applications()


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


async def test_submitters_are_no_operators(applications: Applications) -> None:
    """They cannot use any of the operators' routes, not even to read."""
    for answer in (await applications.ask(applications.operators, submitter(ANNA))).values():
        problem(answer, 403)


async def test_operators_submit_nothing(applications: Applications) -> None:
    """Unless they are also submitters."""
    for answer in (await applications.ask(applications.writing, operator(ANNA))).values():
        problem(answer, 403)
    both = await applications.ask(applications.writing, principal(ANNA, "Operator", "Submitter"))
    assert not [route for route, answer in both.items() if answer.status in {401, 403}]


async def test_operators_may_do_what_operators_do(applications: Applications) -> None:
    """At every route."""
    statuses = {
        answer.status for answer in (await applications.ask(applications.operators, operator(ANNA))).values()
    }
    assert not statuses & {401, 403}


async def test_health_is_open_to_all(applications: Applications) -> None:
    """Also to callers who have not signed in."""
    assert (await AsgiClient(applications.api.application).get("/api/health")).status == 200


async def test_operators_actions_are_recorded_with_their_id(applications: Applications) -> None:
    """The history says who acted."""
    resubmit = [route for route in applications.operators if route.path.endswith("/resubmit")]
    await applications.ask(resubmit, operator(BERT))
    [record] = applications.desk.store.records()
    assert record.history[-1].who == BERT


async def test_with_keys_the_identity_header_is_ignored() -> None:
    """Without sign-in, any caller could have written the header: it is ignored, valid or not."""
    api = Api()
    for headers in (submitter(BERT), principal(BERT), *STRANGERS.values()):
        assert (await AsgiClient(api.application, headers).post("/api/orders", ORDER)).status == 202
    assert {message.submitter for message in api.submissions.messages} == {"tester"}
