"""No strange web page can act with an operator's sign-in."""

from __future__ import annotations

import pytest

from tests.fakes.asgi import AsgiClient
from tests.unit.api.samples import problem
from tests.unit.operations.conftest import Desk, in_error

HOST = "ops.example:8443"
PATH = "/api/ops/tasks/order-1/resubmit"
OWN = {"X-Requested-With": "console"}


def client(headers: dict[str, str]) -> AsgiClient:
    """Act on a task in `Error` with these headers."""
    desk = Desk()
    desk.holds(in_error("order-1"))
    return AsgiClient(desk.application, {"Host": HOST, **headers})


@pytest.mark.parametrize(
    "headers",
    [
        OWN,
        OWN | {"Origin": f"https://{HOST}"},
        OWN | {"Origin": f"http://{HOST.upper()}", "Sec-Fetch-Site": "same-origin"},
    ],
)
async def test_our_page_and_no_page_at_all_may_act(headers: dict[str, str]) -> None:
    """Such as curl."""
    assert (await client(headers).post(PATH, {"reason": "a test"})).status == 202


@pytest.mark.parametrize("action", ["resubmit", "undo"])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Requested-With": ""},
        {"Origin": f"https://{HOST}", "Sec-Fetch-Site": "same-origin"},
        OWN | {"Origin": "https://evil.example"},
        OWN | {"Origin": "https://ops.example"},
        OWN | {"Origin": "null"},
        OWN | {"Origin": ""},
        OWN | {"Origin": f"https://{HOST}.evil.example"},
        OWN | {"Origin": f"https://{HOST}@evil.example"},
        OWN | {"Origin": "https://[evil"},
        OWN | {"Sec-Fetch-Site": "cross-site"},
        OWN | {"Sec-Fetch-Site": "same-site", "Origin": f"https://{HOST}"},
        OWN | {"Host": "", "Origin": ""},
    ],
    ids=str,
)
async def test_others_pages_may_not(headers: dict[str, str], action: str) -> None:
    """They can't send our header, and browsers say where they come from."""
    path = f"/api/ops/tasks/order-1/{action}"
    problem(await client(headers).post(path, {"reason": "a test"}), 403)


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/x-www-form-urlencoded"])
async def test_forms_are_no_actions(content_type: str | None) -> None:
    """A page of anybody's may send these without asking."""
    answer = await client(OWN).send("POST", PATH, {"reason": "a test"}, content_type=content_type)
    problem(answer, 415)


async def test_looking_needs_no_header() -> None:
    """It changes nothing."""
    assert (await client({"Sec-Fetch-Site": "cross-site"}).get("/api/ops/tasks/order-1")).status == 200
