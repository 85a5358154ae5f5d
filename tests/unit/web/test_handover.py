"""Requests of the host reach the application as `func.AsgiMiddleware` hands them over, and so do answers."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, cast

import azure.functions as func
import pytest
from starlette.types import Receive, Scope, Send

from functions.web.handover import Handover

#: What applications read of a request, beside its body.
READ = ("method", "scheme", "path", "root_path", "server", "client", "azure_functions.trace_context")
ADDRESS = "http://localhost:7071/api/orders/order-1"


@dataclass(frozen=True, slots=True)
class Invocation:
    """An invocation, as far as it is handed over."""

    trace_context: str = "the host's trace"
    others: dict[str, str] = field(default_factory=dict)


CONTEXT = cast("func.Context", Invocation())


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the request, in two parts, and with one header twice."""
    assert scope["type"] == "http"
    asked = {name: scope[name] for name in READ}
    texts = {"query": scope["query_string"].decode(), "body": (await receive())["body"].decode()}
    headers = [[part.decode() for part in header] for header in scope["headers"]]
    content = json.dumps({**asked, **texts, "headers": headers}).encode()
    kept = [(b"content-type", b"application/json"), (b"x-part", b"1"), (b"x-part", b"2")]
    await send({"type": "http.response.start", "status": 207, "headers": kept})
    await send({"type": "http.response.body", "body": content[:9], "more_body": True})
    await send({"type": "http.response.body", "body": content[9:]})


def request(method: str = "PUT", url: str = ADDRESS, body: bytes = b"{}", **headers: str) -> func.HttpRequest:
    """Make a request of the host."""
    return func.HttpRequest(method, url, headers={"Host": "localhost:7071", **headers}, body=body)


@pytest.mark.parametrize(
    "asked",
    [
        request(),
        request("get", f"{ADDRESS}?state=Error&state=Processed&text=%C3%A4%20+", b""),
        request(url="https://api.example/api/orders/%C3%A4%2Fb%20c?"),
        request(url="http://[::1]/api/orders"),
        request(body="ä".encode(), Traceparent="00-1", Accept="A/b, c/D"),
    ],
    ids=lambda asked: str(asked.url),
)
async def test_request_and_answer_pass_as_with_the_sdk(asked: func.HttpRequest) -> None:
    """Whatever the address, the headers and the body are."""
    ours = await Handover(lambda: echo).answer(asked, CONTEXT)
    theirs: Any = await func.AsgiMiddleware(echo).handle_async(asked, CONTEXT)  # type: ignore[no-untyped-call]
    assert json.loads(ours.get_body()) == json.loads(theirs.get_body())
    assert ours.status_code == theirs.status_code == 207
    added = [
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
        ("Strict-Transport-Security", "max-age=31536000"),
    ]
    assert list(ours.headers.items()) == [*theirs.headers.items(), *added]


async def test_what_the_application_says_of_keeping_an_answer_stands() -> None:
    """Files of pages may be kept, and asked for again."""

    async def answer(_scope: Scope, _receive: Receive, send: Send) -> None:
        headers = [(b"cache-control", b"no-cache")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})

    answered = await Handover(lambda: answer).answer(request(), CONTEXT)
    assert answered.headers.getlist("cache-control") == ["no-cache"]


async def test_application_is_made_once_when_it_is_first_asked() -> None:
    """A start pays nothing for it; a refused address does not make it."""
    made: list[Any] = []

    def make() -> Any:
        made.append(echo)
        return echo

    handover = Handover(make)
    assert (await handover.answer(request(url="http://localhost/%ff"), CONTEXT)).status_code == 400
    assert made == []
    for _ in range(2):
        assert (await handover.answer(request(), CONTEXT)).status_code == 207
    assert made == [echo]


async def test_failure_of_the_application_is_the_hosts_to_answer() -> None:
    """Every application of ours answers its own."""

    async def fail(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await Handover(lambda: fail).answer(request(), CONTEXT)
