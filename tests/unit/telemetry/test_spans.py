"""Spans of requests, messages, decisions and calls of services; they carry allowed facts only."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode
from starlette.types import ASGIApp, Receive, Scope, Send

from functions.agents.agent_call import RefusedError
from functions.agents.http_agent import RestAgent
from functions.http.application import bare_application
from functions.telemetry.instruments import Field
from functions.telemetry.spans import decision_span, message_span, request_span, span
from tests.fakes.asgi import AsgiClient
from tests.fakes.remote_service import Answer
from tests.unit.agents.conftest import new_call
from tests.unit.conftest import Service
from tests.unit.core.builders import new, spec
from tests.unit.telemetry.conftest import Measured, Spans, links_of, parent_of, series, traceparent_of


def test_exception_is_told_by_its_class(spans: Spans) -> None:
    """Its text may quote a payload; the exception itself is raised."""
    with pytest.raises(ValueError, match="s3cret"), span("claim", {}):
        raise ValueError("s3cret")
    failed = spans.one("claim")
    assert failed.status.status_code is StatusCode.ERROR
    assert dict(failed.attributes or {}) == {"error.type": "ValueError"}
    assert (failed.events, failed.status.description) == ((), None)


def test_receiver_goes_on_with_the_senders_trace(spans: Spans) -> None:
    """Its span names the queue, and is below the sender's. An unusable trace begins another one."""
    with span("submit", {}):
        pass
    sent = traceparent_of(spans.one("submit"))
    with message_span("submissions", {"traceparent": sent, "other": b"s3cret"}):
        pass
    received = spans.one("process submissions")
    assert parent_of(received) == sent[36:52]
    assert dict(received.attributes or {}) == {"messaging.destination.name": "submissions"}
    strange: list[Any] = [None, {}, {"traceparent": b"00-1"}, {"traceparent": 7}]
    for properties in strange:
        with message_span("agent-replies", properties):
            pass
    assert [each.parent for each in spans.all()[2:]] == [None] * 4


CALLERS = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
HOSTS = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def app() -> ASGIApp:
    """Return an application whose requests are traced."""
    app = bare_application("Test")

    @app.put("/api/orders/{order_id}")
    async def put(order_id: str) -> str:
        return order_id

    async def followed(scope: Scope, receive: Receive, send: Send) -> None:
        with request_span(scope, send) as answer:
            await app(scope, receive, answer)

    return followed


async def test_request_is_told_by_its_route(app: ASGIApp, spans: Spans) -> None:
    """Neither its path nor its query is recorded: they name an order, or hold a key."""
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
    """The header may have any value."""
    await AsgiClient(app).get("/s3cret")
    assert "s3cret" not in spans.one("GET").to_json()


@pytest.mark.parametrize(
    ("header", "hosts", "parent"),
    [
        (CALLERS, None, CALLERS[36:52]),
        (CALLERS, HOSTS, HOSTS[36:52]),
        ("", None, None),
        ("00-1-2-3", None, None),
        ("ff" + CALLERS[2:], None, None),
        (CALLERS.replace("b7ad6b7169203331", 16 * "0"), None, None),
    ],
)
async def test_request_continues_a_trace(
    app: ASGIApp, spans: Spans, header: str, hosts: str | None, parent: str | None
) -> None:
    """That of the caller, or of the host, whose span is the server's in Azure. A bad header begins one."""

    async def handed_over(scope: Scope, receive: Receive, send: Send) -> None:
        trace = SimpleNamespace(trace_parent=hosts)
        await app({**scope, "azure_functions.trace_context": trace}, receive, send)

    client = AsgiClient(app if hosts is None else handed_over, {"traceparent": header})
    assert (await client.put("/api/orders/1", {})).status == 200
    request = spans.one("PUT /api/orders/{order_id}")
    kind = SpanKind.SERVER if hosts is None else SpanKind.INTERNAL
    assert (request.kind, parent_of(request)) == (kind, parent)


def test_decision_is_linked_to_the_trace_of_the_order(spans: Spans) -> None:
    """It belongs to the trace of its own request."""
    record = new(spec("a"), traceparent=CALLERS)
    with span("POST", {}), decision_span(record, "undo"):
        pass
    decision = spans.one("undo")
    assert parent_of(decision) == traceparent_of(spans.one("POST"))[36:52]
    assert links_of(decision) == [CALLERS]
    assert dict(decision.attributes or {}) == {
        "task.id": "t",
        "task.workflow": "w",
        "task.epoch": 1,
        "task.decision": "undo",
    }


async def test_call_is_a_span_and_its_service_gets_the_trace(service: Service, spans: Spans) -> None:
    """Below the span of the step; the address is not exported."""
    with span("step payment", {Field.STEP: "payment"}):
        await RestAgent(service.access()).carry_out(new_call())
    call = spans.one("PUT payment")
    assert service.received[0].headers["traceparent"] == traceparent_of(call)
    assert parent_of(call) == traceparent_of(spans.one("step payment"))[36:52]
    assert call.kind is SpanKind.CLIENT
    assert dict(call.attributes or {}) == {
        "peer.service": "payment",
        "http.request.method": "PUT",
        "http.response.status_code": 200,
    }


async def test_each_attempt_is_a_span_and_a_retry_is_counted(
    service: Service, spans: Spans, measured: Measured
) -> None:
    """The attempt that failed, and the one that succeeded."""
    service.answers = [Answer(503), Answer()]
    await RestAgent(service.access()).carry_out(new_call())
    failed, good = spans.all()
    assert (failed.status.status_code, good.status.status_code) == (StatusCode.ERROR, StatusCode.UNSET)
    assert [each.headers["traceparent"] for each in service.received] == [
        traceparent_of(failed),
        traceparent_of(good),
    ]
    assert measured.take() == {series("remote.retries", peer_service="payment"): 1}


async def test_refusal_fails_the_span_and_is_no_retry(
    service: Service, spans: Spans, measured: Measured
) -> None:
    """Its body is not exported."""
    service.answers = [Answer(422, (b'{"detail":"s3cret"}',))]
    with pytest.raises(RefusedError):
        await RestAgent(service.access()).carry_out(new_call())
    refused = spans.one("PUT payment")
    assert (refused.attributes or {})["error.type"] == "422"
    assert "s3cret" not in refused.to_json()
    assert measured.take() == {}


async def test_service_gets_no_header_without_a_trace(service: Service) -> None:
    """Nothing is exported."""
    await RestAgent(service.access()).carry_out(new_call())
    assert "traceparent" not in service.received[0].headers
