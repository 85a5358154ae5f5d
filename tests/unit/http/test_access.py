"""Requests reach an application after the checks of sign-in, origin, quota, size and JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from typing import Any

import azure.functions as func
import pytest
from starlette.types import Receive, Scope, Send

from functions.http.access import Allowance, Caller, Caps, Guard
from functions.http.asgi_handler import http_handler
from functions.http.bodies import MOST_DEPTH, MOST_VALUES, parse_body
from functions.http.identification import signed_in
from functions.http.problems import ProblemError
from tests.fakes.asgi import AsgiClient
from tests.fakes.clock import FakeClock
from tests.fakes.guards import ANNA, BERT, operator, submitter
from tests.unit.api.scene import ORDER, Api, problem
from tests.unit.operators.conftest import Desk

ORDERS = "/api/orders"


async def test_first_check_that_fails_answers() -> None:
    """The order: caller, permission, rate, length, media type, and last the content."""
    api = Api(guard=Guard(signed_in, Caps(per_minute=3, in_flight=9)))
    application, too_long = api.application(), b"{" * 50_000
    for headers, body, content_type, status in [
        ({}, too_long, "text/plain", 401),
        (operator(ANNA), too_long, "text/plain", 403),
        (submitter(ANNA), too_long, "text/plain", 413),
        (submitter(ANNA), b"{", "text/plain", 415),
        (submitter(ANNA), b"{", "application/json", 400),
        (submitter(ANNA), too_long, "text/plain", 429),
    ]:
        client = AsgiClient(application, headers)
        problem(await client.send("POST", ORDERS, body, content_type=content_type), status)
    assert api.submitted == []


async def test_body_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """FastAPI gets what was parsed when the body was checked, and would have no means to parse it."""
    api, office = Api(), Desk()
    await office.in_error("order-1")
    monkeypatch.setattr("starlette.requests.json", None)
    assert (await api.client.post(ORDERS, ORDER)).status == 202
    batch = await api.client.post(f"{ORDERS}/batch", {"orders": [ORDER]})
    assert batch.json["results"][0]["status"] == 202
    operator = AsgiClient(office.application, {"X-Requested-With": "test"})
    assert (await operator.post("/api/ops/tasks/order-1/undo", {"reason": "a test"})).status == 202


BATCH = "/api/orders/batch"


class Capped:
    """The callers' application with narrow caps, and a clock to be moved."""

    def __init__(self, *, per_minute: int = 1_000) -> None:
        self.clock = FakeClock()
        self.api = Api(guard=Guard(signed_in, Caps(per_minute, 100, self.clock.nanoseconds)))
        application = self.api.application()
        self.anna = AsgiClient(application, submitter(ANNA))
        self.bert = AsgiClient(application, submitter(BERT))


class Counted:
    """The caps before requests that last until they all `end`, and then fail."""

    def __init__(self, per_minute: int) -> None:
        self.clock = FakeClock()
        self.end = asyncio.Event()
        self.caps = Caps(per_minute, 1, self.clock.nanoseconds)

    async def ask(self, name: str) -> None:
        """Send a request. Raises what it ends with."""
        with self.caps.admitted(Caller(name, frozenset())):
            await self.end.wait()
            raise ConnectionError


async def test_each_caller_has_its_own() -> None:
    """One costs another nothing. After `Retry-After`, and no earlier, one more request is accepted."""
    capped = Capped(per_minute=1)
    for client in (capped.anna, capped.bert):
        assert (await client.post(ORDERS, ORDER)).status == 202
        refused = await client.post(ORDERS, ORDER)
        problem(refused, 429)
        capped.clock.advance(int(refused.headers["retry-after"]) - 0.1)
        problem(await client.post(ORDERS, ORDER), 429)
        capped.clock.advance(0.1)
        assert (await client.post(ORDERS, ORDER)).status == 202


async def test_a_batch_costs_as_much_as_its_orders() -> None:
    """A batch of any size is admitted; later requests wait until its cost is paid."""
    capped = Capped(per_minute=60)
    assert (await capped.anna.post(BATCH, {"orders": [ORDER] * 90})).status == 200
    answer = await capped.anna.post(ORDERS, ORDER)
    problem(answer, 429)
    assert answer.headers["retry-after"] == "31"


async def test_requests_at_a_time_are_counted() -> None:
    """One that has ended makes room for the next, also one that failed."""
    counted = Counted(1_000)
    first = asyncio.create_task(counted.ask("anna"))
    await asyncio.sleep(0)
    with pytest.raises(ProblemError) as refusal:
        await counted.ask("anna")
    assert (refusal.value.status, refusal.value.headers) == (429, {"Retry-After": "1"})
    counted.end.set()
    for asking in (first, counted.ask("anna")):
        with pytest.raises(ConnectionError):
            await asking


def test_allowances_fill_up_to_a_minutes_worth() -> None:
    """After any idle time."""
    clock = FakeClock()
    allowance = Allowance(60, clock.nanoseconds)
    allowance.spend(60)
    assert allowance.wait() == 1
    clock.advance(0.5)
    assert allowance.wait() == 0.5
    clock.advance(7_200)
    assert allowance.wait() == 0
    allowance.spend(60)
    assert allowance.wait() == 1


async def test_callers_who_ask_for_nothing_are_forgotten() -> None:
    """Memory is bounded; callers that must wait stay on record."""
    counted = Counted(60)
    counted.end.set()
    for number in range(1_000):
        await _failing(counted.ask(f"caller-{number}"))
    counted.clock.advance(0.5)
    await _failing(counted.ask("late"))
    assert len(counted.caps._allowances) == 1_001
    counted.clock.advance(0.5)
    await _failing(counted.ask("later"))
    assert counted.caps._allowances.keys() == {"late", "later"}


async def _failing(asking: Awaitable[None]) -> None:
    with pytest.raises(ConnectionError):
        await asking


HOST = "ops.example:8443"
PATH = "/api/ops/tasks/order-1/resubmit"
OWN = {"X-Requested-With": "console"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (OWN, 202),
        (OWN | {"Origin": f"https://{HOST}"}, 202),
        (OWN | {"Origin": f"http://{HOST.upper()}", "Sec-Fetch-Site": "same-origin"}, 202),
        ({}, 403),
        ({"X-Requested-With": ""}, 403),
        ({"Origin": f"https://{HOST}", "Sec-Fetch-Site": "same-origin"}, 403),
        (OWN | {"Origin": "https://evil.example"}, 403),
        (OWN | {"Origin": "https://ops.example"}, 403),
        (OWN | {"Origin": "null"}, 403),
        (OWN | {"Origin": ""}, 403),
        (OWN | {"Origin": f"https://{HOST}.evil.example"}, 403),
        (OWN | {"Origin": f"https://{HOST}@evil.example"}, 403),
        (OWN | {"Origin": "https://[evil"}, 403),
        (OWN | {"Sec-Fetch-Site": "cross-site"}, 403),
        (OWN | {"Sec-Fetch-Site": "same-site", "Origin": f"https://{HOST}"}, 403),
        (OWN | {"Host": "", "Origin": ""}, 403),
    ],
    ids=str,
)
async def test_only_our_page_and_no_page_at_all_may_act(headers: dict[str, str], status: int) -> None:
    """Such as curl. Others' pages can't send our header, and browsers say where they come from."""
    office = Desk()
    await office.in_error("order-1")
    client = AsgiClient(office.application, {"Host": HOST, **headers})
    answer = await client.post(PATH, {"reason": "a test"})
    assert answer.status == status
    assert status == 202 or problem(answer, 403)


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


_TOO_MANY = "413 A body holds at most 40000 values; a bracket inside a text counts as one."


def json_fault(body: bytes, most_depth: int = MOST_DEPTH) -> str | None:
    """Return the reason of a refusal, or None."""
    try:
        parse_body(body, most_depth)
    except ProblemError as refusal:
        return f"{refusal.status:d} {refusal.detail}"
    return None


def nested(depth: int, kind: str = "list") -> bytes:
    """Make a body of this depth."""
    content: object = 1
    for _ in range(depth):
        content = [content] if kind == "list" else {"in": content}
    return json.dumps(content).encode()


_NOT_JSON = [
    *(b"", b"{", b"[1,]", b"\xff", '{"a": 1}'.encode("utf-16"), '{"a": "é"}'.encode("latin-1")),
    *("\ufeff{}".encode(), rb'"\ud800"'),
]


def test_only_json_types_are_accepted() -> None:
    """Python's own reader accepts some of the others, such as other encodings."""
    for body in (b"{}", b"[]", b"null", b'"text"', b"1.5e300", '{"ä": "€"}'.encode(), b" 1 "):
        assert json_fault(body) is None
    for body in (rb'"\ud83d\ude00 \u00e9"', b'{"a": 1, "a": 2}'):
        assert json_fault(body) is None
    for body in _NOT_JSON:
        assert str(json_fault(body)).startswith("400 The body can't be read: not JSON ("), body


@pytest.mark.parametrize("kind", ["list", "object"])
def test_depth_is_bounded(kind: str) -> None:
    """Sixteen levels are allowed, one more is not, nor are more than the parser takes."""
    assert MOST_DEPTH == 16
    assert json_fault(nested(16, kind)) is None
    assert str(json_fault(nested(17, kind))).endswith("nested deeper than 16 levels.")
    opening = b"[" if kind == "list" else b'{"in":'
    assert str(json_fault(opening * 10_000 + b"1")).startswith("400 The body can't be read: not JSON (")
    deepest_last = b'[1, {"a": [], "b": [[1]]}]'
    assert json_fault(deepest_last, 4) is None
    assert json_fault(deepest_last, 3) == "400 The body can't be read: nested deeper than 3 levels."


@pytest.mark.parametrize("value", ["0", "{}", '{"":0}'])
def test_values_are_bounded(value: str) -> None:
    """Objects and lists count; the list around them is one."""
    most = (MOST_VALUES - 1) // (2 if ":" in value else 1)
    assert json_fault(f"[{','.join([value] * most)}]".encode()) is None
    assert json_fault(f"[{','.join([value] * (most + 1))}]".encode()) == _TOO_MANY


def test_brackets_inside_texts_count_as_values() -> None:
    """They are counted before the body is parsed."""
    assert json_fault(b'"' + b"[" * MOST_VALUES + b'"') is None
    assert json_fault(b'"' + b"[" * (MOST_VALUES + 1) + b'"') == _TOO_MANY
