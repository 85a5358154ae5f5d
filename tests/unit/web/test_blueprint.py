"""Requests of the host reach the application, and its answers the host."""

from __future__ import annotations

import json
from typing import Any

import azure.functions as func
import pytest
from starlette.types import Receive, Scope, Send

from functions.web.blueprint import http_handler

ADDRESS = "http://localhost:7071/api/orders/order-1"


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the request, in two parts, and with one header twice."""
    texts = {
        "path": scope["path"],
        "query": scope["query_string"].decode(),
        "body": (await receive())["body"],
    }
    content = json.dumps(texts | {"body": texts["body"].decode()}).encode()
    kept = [(b"content-type", b"application/json"), (b"x-part", b"1"), (b"x-part", b"2")]
    await send({"type": "http.response.start", "status": 207, "headers": kept})
    await send({"type": "http.response.body", "body": content[:9], "more_body": True})
    await send({"type": "http.response.body", "body": content[9:]})


def request(url: str = ADDRESS) -> func.HttpRequest:
    """Make a request of the host."""
    return func.HttpRequest("PUT", url, headers={"Host": "localhost:7071"}, body="ä".encode())


async def test_request_and_answer_pass() -> None:
    """Whole, with each header, and with those that keep caches and browsers from harm."""
    answer = await http_handler(lambda: echo)(request(f"{ADDRESS}%C3%A4?state=Error&text=%C3%A4"), None)
    asked = {"path": "/api/orders/order-1ä", "query": "state=Error&text=%C3%A4", "body": "ä"}
    assert (answer.status_code, json.loads(answer.get_body())) == (207, asked)
    assert answer.headers.getlist("x-part") == ["1", "2"]
    assert answer.mimetype == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["strict-transport-security"] == "max-age=31536000"


async def test_caching_that_the_application_sets_stays() -> None:
    """Files of pages may be kept, and asked for again."""

    async def answer(_scope: Scope, _receive: Receive, send: Send) -> None:
        headers = [(b"cache-control", b"no-cache")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    answered = await http_handler(lambda: answer)(request(), None)
    assert answered.headers.getlist("cache-control") == ["no-cache"]


async def test_application_is_made_once_at_the_first_request() -> None:
    """A start does not pay for it; a refused address does not make it."""
    made: list[Any] = []

    def make() -> Any:
        made.append(echo)
        return echo

    answer = http_handler(make)
    assert (await answer(request("http://localhost/%ff"), None)).status_code == 400
    assert made == []
    for _ in range(2):
        assert (await answer(request(), None)).status_code == 207
    assert made == [echo]


async def test_failure_of_the_application_is_the_hosts_to_answer() -> None:
    """Every application of ours answers its own."""

    async def fail(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await http_handler(lambda: fail)(request(), None)
