"""Requests are told by method, route and status, and go on with their caller's trace."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from opentelemetry.trace import SpanKind, StatusCode
from starlette.types import ASGIApp, Receive, Scope, Send

from functions.pattern.ports import Submissions
from functions.telemetry.spans import SubmissionSpans, request_span
from functions.web.application import bare_application
from tests.fakes.asgi import AsgiClient
from tests.fakes.queues import RecordedSubmissions
from tests.fakes.workflows import submission
from tests.unit.telemetry.conftest import Spans, links_of, parent_of, traceparent_of

CALLERS = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
HOSTS = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def _application(submissions: Submissions) -> ASGIApp:
    app = bare_application("Test")

    @app.put("/api/orders/{order_id}")
    async def put(order_id: str) -> str:
        if order_id == "broken":
            raise ValueError("s3cret")
        return order_id

    @app.post("/api/orders/batch")
    async def batch() -> None:
        await submissions.submit_all([submission()] * 2)

    async def followed(scope: Scope, receive: Receive, send: Send) -> None:
        with request_span(scope, send) as answer:
            await app(scope, receive, answer)

    return followed


@pytest.fixture
def app() -> ASGIApp:
    """Make an application whose requests are followed."""
    return _application(SubmissionSpans(RecordedSubmissions()))


async def test_request_is_told_by_its_route(app: ASGIApp, spans: Spans) -> None:
    """Neither its path nor its query is told: they name an order, or hold a key."""
    await AsgiClient(app).put("/api/orders/s3cret?code=s3cret", {"tag": "s3cret"})
    request = spans.one("PUT /api/orders/{order_id}")
    assert request.kind is SpanKind.SERVER
    assert request.parent is None
    assert dict(request.attributes or {}) == {
        "http.request.method": "PUT",
        "http.route": "/api/orders/{order_id}",
        "http.response.status_code": 200,
    }


async def test_request_for_nothing_is_told_without_its_path(app: ASGIApp, spans: Spans) -> None:
    """Anything can stand there."""
    await AsgiClient(app).get("/s3cret")
    assert "s3cret" not in spans.one("GET").to_json()


async def test_callers_trace_goes_on(app: ASGIApp, spans: Spans) -> None:
    """So the caller finds the order in its own trace."""
    await AsgiClient(app, {"traceparent": CALLERS}).put("/api/orders/1", {})
    assert parent_of(spans.one("PUT /api/orders/{order_id}")) == CALLERS[36:52]


@pytest.mark.parametrize(
    "header", ["", "00-1-2-3", "ff" + CALLERS[2:], CALLERS.replace("b7ad6b7169203331", 16 * "0")]
)
async def test_bad_header_begins_a_trace(app: ASGIApp, spans: Spans, header: str) -> None:
    """It is no reason to refuse a request."""
    answer = await AsgiClient(app, {"traceparent": header}).put("/api/orders/1", {})
    assert answer.status == 200
    assert spans.one("PUT /api/orders/{order_id}").parent is None


async def test_hosts_span_is_the_server_span(app: ASGIApp, spans: Spans) -> None:
    """In Azure the host has made one, of which ours is a part."""
    await AsgiClient(_handed_over(app), {"traceparent": CALLERS}).put("/api/orders/1", {})
    request = spans.one("PUT /api/orders/{order_id}")
    assert (request.kind, parent_of(request)) == (SpanKind.INTERNAL, HOSTS[36:52])


def _handed_over(app: ASGIApp) -> ASGIApp:
    async def with_trace(scope: Scope, receive: Receive, send: Send) -> None:
        trace = SimpleNamespace(trace_parent=HOSTS)
        await app({**scope, "azure_functions.trace_context": trace}, receive, send)

    return with_trace


async def test_failure_of_ours_fails_the_span(app: ASGIApp, spans: Spans) -> None:
    """Its class is told, its text isn't."""
    with pytest.raises(ValueError, match="s3cret"):
        await AsgiClient(app).put("/api/orders/broken", {})
    failed = spans.one("PUT")
    assert failed.status.status_code is StatusCode.ERROR
    assert "s3cret" not in failed.to_json()


async def test_orders_of_a_batch_have_traces_of_their_own(app: ASGIApp, spans: Spans) -> None:
    """Each is linked to the request; five hundred orders in one trace could not be read."""
    await AsgiClient(app, {"traceparent": CALLERS}).post("/api/orders/batch", {})
    request = traceparent_of(spans.one("POST /api/orders/batch"))
    submitted = [span for span in spans.all() if span.name == "submit"]
    assert [links_of(span) for span in submitted] == [[request]] * 2
    assert len({request[:35], *(traceparent_of(span)[:35] for span in submitted)}) == 3
