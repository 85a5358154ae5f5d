"""Addresses that no browser sends, at every HTTP function: refused, and unable to bypass the keys."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import azure.functions as func
import pytest

from functions.wiring import Wiring
from tests.security.test_functions import OPEN, ROUTES

type Functions = Mapping[str, Callable[..., Awaitable[func.HttpResponse]]]

#: What follows the function's own path, and the `Host` header.
UNCLEAR = {
    "no UTF-8": ("/%ff", "localhost"),
    "half a surrogate pair": ("/%ED%A0%80", "localhost"),
    "no port": ("", "localhost:abc"),
    "half an IPv6 address": ("", "[::1"),
    "a path for a host": ("", "localhost/api/orders/order-1?"),
    "a document for a host": ("", "localhost/api/openapi.json#"),
    "a name and a password": ("", "a:b@localhost"),
}


@pytest.fixture(scope="session")
def functions(wiring: Wiring) -> Functions:
    """Return the handler of each function, by the function's name."""
    builders = [each for blueprint in wiring.blueprints() for each in blueprint._function_builders]
    found = {builder._function.get_function_name(): builder._function for builder in builders}
    return {name: found[name].get_user_function() for name in ROUTES}


def _request(name: str, *, after: str = "", host: str = "localhost") -> func.HttpRequest:
    fixed = ROUTES[name].partition("{")[0].rstrip("/")
    url = f"http://{host}/api/{fixed}{after}"
    return func.HttpRequest("GET", url, headers={"host": host}, body=b"")


@pytest.mark.parametrize("name", ROUTES)
@pytest.mark.parametrize(("after", "host"), UNCLEAR.values(), ids=UNCLEAR)
async def test_unclear_addresses_are_400(functions: Functions, name: str, after: str, host: str) -> None:
    """With a problem document, where the adapter would raise, or use another path than the host did."""
    answer = await functions[name](_request(name, after=after, host=host), None)
    assert answer.status_code == 400
    assert answer.mimetype == "application/problem+json"
    document: dict[str, Any] = json.loads(answer.get_body())
    assert document["title"] == "Bad Request"
    assert host not in document["detail"]


@pytest.mark.parametrize("name", sorted(OPEN - {"health", "console_files"}))
@pytest.mark.parametrize("host", ["localhost", "localhost:7071", "[::1]:7071", "api.example", "a_b.example"])
async def test_usual_addresses_are_answered(functions: Functions, name: str, host: str) -> None:
    """Whatever the host's name is."""
    assert (await functions[name](_request(name, host=host), None)).status_code == 200
