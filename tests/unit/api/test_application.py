"""The intake gate, the health check, the OpenAPI document and the API pages."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import pytest

from functions.api import gate as gate_module
from functions.api.gate import TOO_MANY_WAIT, Gate, StoreHealth
from functions.api.pages import api_document, pages_application
from functions.pattern.errors import TransientError
from functions.pattern.intake import IntakeState
from functions.web.access import Guard
from functions.web.caps import Caps
from tests.fakes.asgi import AsgiClient, HttpAnswer
from tests.fakes.clock import FakeClock
from tests.fakes.guards import KEYS, one_caller
from tests.fakes.workflows import DIAMOND
from tests.unit.api.conftest import Api
from tests.unit.api.samples import ORDER, problem

ORDERS = "/api/orders"


class Row:
    """What a timer has measured, or not."""

    def __init__(self, clock: FakeClock, retry_after: int = 42) -> None:
        self.intake: IntakeState | None = IntakeState(
            at=clock.now(), oldest_seconds=900, messages=9, not_picked_up=0, retry_after=retry_after
        )
        self.failing = False
        self.reads = 0

    async def read(self) -> Mapping[str, Any] | None:
        """Read it."""
        self.reads += 1
        if self.failing:
            raise TransientError("no store")
        return None if self.intake is None else asdict(self.intake)


class Gated(Api):
    """The application, with a gate."""

    def __init__(self, retry_after: int = 42, *, guard: Guard | None = None) -> None:
        super().__init__(guard)
        self.clock = FakeClock()
        self.row = Row(self.clock, retry_after)
        gate = Gate(self.row.read, self.clock)
        self.client = AsgiClient(self.application_with(gate))

    async def known(self) -> Gated:
        """Let the row have been read: the first order does not wait for that."""
        assert (await self.client.get(f"{ORDERS}/none")).status == 404
        assert (await self.client.post(ORDERS, ORDER)).status == 202
        await asyncio.sleep(0)
        self.submissions.messages.clear()
        return self


def _is_refused(answer: HttpAnswer) -> bool:
    if answer.status != 429:
        return False
    document = problem(answer, 429)
    assert (document["type"], document["title"]) == (TOO_MANY_WAIT.type, TOO_MANY_WAIT.title)
    assert answer.headers["retry-after"] == "42"
    return True


async def test_orders_are_refused_until_less_waits() -> None:
    """Single ones and batches, before anything of them is read; the answer says when to come back."""
    api = await Gated().known()
    for method, path, body in [
        ("POST", ORDERS, ORDER),
        ("PUT", f"{ORDERS}/order-1", ORDER),
        ("POST", f"{ORDERS}/batch", {"orders": [ORDER]}),
        ("POST", ORDERS, b"{" * 100_000),
    ]:
        assert _is_refused(await api.client.send(method, path, body))
    assert api.submissions.messages == []
    api.row.intake = None
    await asyncio.sleep(1.01)
    assert _is_refused(await api.client.post(ORDERS, ORDER)), "what is known is a second old, and read again"
    await asyncio.sleep(0)
    assert (await api.client.post(ORDERS, ORDER)).status == 202


async def test_everything_but_new_orders_goes_on() -> None:
    """Following an order, cancelling it, telling events: that makes what waits no more."""
    api = await Gated().known()
    assert (await api.client.get(f"{ORDERS}/order-1")).status == 404
    assert (await api.client.delete(f"{ORDERS}/order-1")).status == 404
    assert (await api.client.post(f"{ORDERS}/order-1/events/approve", {})).status == 404
    assert (await api.client.get("/api/health")).status == 200


async def test_row_is_read_once_a_second_however_many_ask() -> None:
    """Each request costs nothing."""
    api = await Gated().known()
    for _ in range(20):
        await api.client.post(ORDERS, ORDER)
    assert api.row.reads == 1


@pytest.mark.parametrize("failing", [True, False])
async def test_gate_stays_open_when_nothing_is_known_or_all_is_well(*, failing: bool) -> None:
    """An outage of the store refuses nothing here: the submission itself may still succeed."""
    api = Gated(retry_after=0)
    api.row.failing = failing
    for _ in range(3):
        assert (await api.client.post(ORDERS, ORDER)).status == 202
        await asyncio.sleep(0)


async def test_old_figures_refuse_nothing() -> None:
    """Whoever measures may be gone."""
    api = await Gated().known()
    api.clock.advance(61)
    assert (await api.client.post(ORDERS, ORDER)).status == 202


async def test_own_cap_is_told_apart() -> None:
    """It has no type, and another reason: who hits it should send less, whatever others do."""
    api = Gated(retry_after=0, guard=Guard(KEYS.identify, Caps(per_minute=1, in_flight=9), FakeClock()))
    assert (await api.client.post(ORDERS, ORDER)).status == 202
    document = problem(await api.client.post(ORDERS, ORDER), 429)
    assert (document["type"], document["title"]) == ("about:blank", "Too Many Requests")


class Store:
    """A store that answers when the test lets it, and counts who asks."""

    def __init__(self) -> None:
        self.asked = 0
        self.fault: Exception | None = None
        self.answers = asyncio.Event()
        self.answers.set()

    async def check(self) -> None:
        """Answer, or fail as the test says."""
        self.asked += 1
        await self.answers.wait()
        if self.fault is not None:
            raise self.fault


async def test_all_who_ask_meanwhile_share_one_look() -> None:
    """Also when one of them does not wait for it."""
    store = Store()
    store.answers.clear()
    asked = StoreHealth(store.check)
    waiting = [asyncio.create_task(asked.check()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    store.answers.set()
    await asyncio.gather(*waiting[1:])
    assert store.asked == 1


@pytest.mark.parametrize("fault", [None, TransientError("Table Storage: ServiceRequestError")])
async def test_what_was_found_is_remembered_for_a_second(
    fault: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault as well as none; after that, it is looked again."""
    store = Store()
    store.fault = fault
    asked = StoreHealth(store.check)
    outcomes = [(await asyncio.gather(asked.check(), return_exceptions=True))[0] for _ in range(3)]
    assert [str(each) for each in outcomes] == [str(fault)] * 3
    assert (store.asked, gate_module._REMEMBERED_SECONDS) == (1, 1.0)
    monkeypatch.setattr(gate_module, "_REMEMBERED_SECONDS", 0)
    again = StoreHealth(store.check)
    for _ in range(3):
        await asyncio.gather(again.check(), return_exceptions=True)
    assert store.asked == 4


async def test_health_and_callers_use_up_nothing_of_each_other() -> None:
    """Whatever a caller's key is called."""
    api = Api(Guard(one_caller("anybody"), Caps(per_minute=2, in_flight=9), FakeClock()))
    for path, status in [("/api/orders/a", 404), ("/api/health", 200)]:
        answers = [await api.client.get(path) for _ in range(3)]
        assert [each.status for each in answers] == [status, status, 429]


@pytest.fixture
def document(api: Api) -> dict[str, Any]:
    """Give the document of the callers' application."""
    return api_document("Test", api.application)


def test_a_batchs_orders_are_described(document: dict[str, Any]) -> None:
    """By their model, although each is checked by itself."""
    orders = document["components"]["schemas"]["OrderPayloadBatch"]["properties"]["orders"]
    assert (orders["minItems"], orders["maxItems"]) == (1, 500)
    fields = orders["items"]["properties"]
    assert fields.keys() == {"id", "reply_to", "correlation_id", "customer", "currency", "items"}


def test_callers_read_their_own_noun(api: Api) -> None:
    """Whoever books reads of bookings, and nothing of orders."""
    bookings = replace(DIAMOND, name="booking", resource="bookings", noun="")
    document = api_document("Test", api.application_of(bookings))
    routes = {
        f"{method} {path}": each for path, of in document["paths"].items() for method, each in of.items()
    }
    assert routes["post /api/bookings"]["summary"] == "Submit a new booking, which is given an id"
    assert document["components"]["schemas"]["ParcelBatch"]["required"] == ["bookings"]
    assert "order" not in re.sub("in the batch's order", "", json.dumps(document))


DOCUMENT = {"openapi": "3.1.0", "paths": {}}


@pytest.fixture
def client() -> AsgiClient:
    """Ask for the pages of an empty document."""
    return AsgiClient(pages_application(DOCUMENT))


def links(page: HttpAnswer) -> list[str]:
    """Give what the page makes a browser load."""
    return re.findall(r'(?:src|href)="(?!data:)([^"]+)"', page.body.decode())


async def test_the_page_loads_nothing_but_files_of_ours(client: AsgiClient) -> None:
    """Each of them is there, so the page works without the internet."""
    page = await client.get("/api/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    answers = {link: (await client.get(link)).status for link in links(page)}
    assert answers == dict.fromkeys(answers, 200)
    assert "/api/docs/swagger-ui-bundle.js" in answers


async def test_strange_scripts_are_kept_out(client: AsgiClient) -> None:
    """By the Content-Security-Policy, which allows no inline script; the page has none."""
    page = await client.get("/api/docs")
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"<script[^>]*>[^<]|\son\w+=", page.body.decode())


async def test_the_licence_goes_with_swagger_ui(client: AsgiClient) -> None:
    """As it asks for (Apache License 2.0, section 4)."""
    licence = await client.get("/api/docs/swagger-ui-license.txt")
    assert b"SmartBear" in licence.body
    assert b"TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION" in licence.body


async def test_the_document_is_what_it_is(client: AsgiClient) -> None:
    """Unchanged."""
    assert (await client.get("/api/openapi.json")).json == DOCUMENT
