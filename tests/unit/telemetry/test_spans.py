"""Spans of requests, messages, tasks and sweeps: one trace for an order, and allowed facts only."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from azure.servicebus.aio import ServiceBusClient
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.trace import SpanKind, StatusCode, get_current_span
from starlette.types import ASGIApp, Receive, Scope, Send

from functions.bus.messages import QueuedMessages
from functions.bus.sender import Outgoing, QueueSender
from functions.messages.reading import each_order
from functions.pattern.identity import TaskId
from functions.pattern.ports import Submissions
from functions.pattern.records import TaskRecord
from functions.pattern.request_figures import BusFigures
from functions.telemetry.fields import Field
from functions.telemetry.instruments import LatestFigure
from functions.telemetry.spans import (
    SubmissionSpans,
    decision_span,
    message_span,
    request_span,
    run_steps_span,
    span,
    step_span,
    sweep_span,
)
from functions.web.application import bare_application
from tests.fakes.asgi import AsgiClient
from tests.fakes.clock import FakeClock
from tests.fakes.interventions import recovery, supervised
from tests.fakes.messages import received
from tests.fakes.queues import RecordedSubmissions
from tests.fakes.tasks import FIRST, SECOND, claimed, pending, started, told
from tests.fakes.workflows import LINE, TASK, each, submission, workflow
from tests.unit.bus.test_sender import BusClient
from tests.unit.supervisor.conftest import Bench
from tests.unit.telemetry.conftest import Measured, Spans, links_of, parent_of, series, traceparent_of


def test_span_carries_its_facts(spans: Spans) -> None:
    """Under the names of the allow-list, and nothing besides."""
    with span("step drone", {Field.TASK: "t-1", Field.EPOCH: 2}):
        pass
    assert dict(spans.one("step drone").attributes or {}) == {"task.id": "t-1", "task.epoch": 2}


def test_exception_is_told_by_its_class(spans: Spans) -> None:
    """Its text may quote a payload; the exception itself goes on."""
    with pytest.raises(ValueError, match="s3cret"), span("claim", {}):
        raise ValueError("s3cret")
    failed = spans.one("claim")
    assert failed.status.status_code is StatusCode.ERROR
    assert dict(failed.attributes or {}) == {"error.type": "ValueError"}
    assert (failed.events, failed.status.description) == ((), None)


def test_spans_nest_and_end(spans: Spans) -> None:
    """What begins inside is below; afterwards there is no current span."""
    with span("outer", {}), span("inner", {}):
        pass
    outer, inner = spans.one("outer"), spans.one("inner")
    assert parent_of(inner) == traceparent_of(outer)[36:52]
    assert not get_current_span().get_span_context().is_valid


ORDERS = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SUPERVISORS = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def _order() -> TaskRecord:
    record = pending(LINE)
    return replace(record, order=replace(record.order, traceparent=ORDERS))


def _recovered() -> TaskRecord:
    running = told(_order(), claimed(), started("pick"))
    return supervised(running, replace(recovery(), traceparent=SUPERVISORS))


def test_step_lies_in_the_orders_trace(spans: Spans) -> None:
    """Although the Scheduler hands it no context; it tells task, epoch, step, Agent and direction."""
    with step_span(_order(), LINE.shape.steps[0], FIRST):
        pass
    step = spans.one("step pick")
    assert traceparent_of(step)[:35] == ORDERS[:35]
    assert parent_of(step) == ORDERS[36:52]
    assert dict(step.attributes or {}) == {
        "task.id": TASK,
        "task.workflow": "line",
        "task.epoch": 1,
        "step.name": "pick",
        "step.agent": "pick",
        "step.direction": "do",
    }
    assert links_of(step) == []


def test_items_are_told_apart_by_their_number(spans: Spans) -> None:
    """They have their step's name: a view of all its spans is one of few names."""
    record = pending(workflow(each("send")))
    with step_span(record, record.steps[2].shape, FIRST):
        pass
    attributes = spans.one("step send").attributes or {}
    assert (attributes["step.name"], attributes["step.item"]) == ("send", 2)


def test_recovered_epoch_is_linked_to_the_supervisor(spans: Spans) -> None:
    """Runs and steps alike; a late turn of the epoch before is not."""
    record = _recovered()
    with run_steps_span(record, SECOND), step_span(record, LINE.shape.steps[0], SECOND):
        pass
    with step_span(record, LINE.shape.steps[1], FIRST):
        pass
    assert links_of(spans.one("run_steps")) == links_of(spans.one("step pick")) == [SUPERVISORS]
    late = spans.one("step send")
    assert links_of(late) == []
    assert (late.attributes or {})["task.epoch"] == 1


def test_decision_is_a_part_of_the_sweep_and_linked_to_the_order(spans: Spans) -> None:
    """The sweep is a trace of its own, wherever it was begun."""
    with run_steps_span(_order(), FIRST), sweep_span(), decision_span(_order(), "recover"):
        pass
    sweep, decision = spans.one("supervisor sweep"), spans.one("recover")
    assert sweep.parent is None
    assert parent_of(decision) == traceparent_of(sweep)[36:52]
    assert links_of(decision) == [ORDERS]
    assert (decision.attributes or {})["task.decision"] == "recover"


@pytest.mark.parametrize(
    "traceparent", [None, "", "00-1-2-3", "x" * 55, "00-" + 32 * "0" + "-00f067aa0ba902b7-01"]
)
def test_order_without_a_usable_trace_begins_one(spans: Spans, traceparent: str | None) -> None:
    """It was recorded while nothing was exported."""
    record = _order()
    with run_steps_span(replace(record, order=replace(record.order, traceparent=traceparent)), FIRST):
        pass
    assert spans.one("run_steps").parent is None


async def test_sweep_is_measured(measured: Measured) -> None:
    """How long it took and how many tasks it found overdue; none is a number, too."""
    bench = Bench()
    await bench.sweep()
    assert measured.take() == {series("sweep.duration"): 0}
    assert measured.levels()[series("tasks.overdue")] == 0
    bench.store.put(pending(LINE))
    bench.clock.advance(36)
    await bench.sweep()
    assert measured.levels()[series("tasks.overdue")] == 1


def test_old_figure_is_not_exported() -> None:
    """Another instance sweeps now, and knows better."""
    seconds = 0.0
    overdue = LatestFigure(120, lambda: seconds)
    assert overdue.read(CallbackOptions()) == []
    overdue.set(5)
    seconds = 120
    assert overdue.read(CallbackOptions()) == [Observation(5)]
    seconds = 121
    assert overdue.read(CallbackOptions()) == []


async def test_recovered_epoch_knows_the_supervisors_span(spans: Spans) -> None:
    """It is recorded with the epoch that ends, so that no message can lose it."""
    bench = Bench()
    bench.store.put(pending(LINE))
    bench.clock.advance(36)
    await bench.sweep()
    recovery = spans.one("recover")
    assert bench.store.record(TASK).history[-1].traceparent == traceparent_of(recovery)
    assert parent_of(recovery) == traceparent_of(spans.one("supervisor sweep"))[36:52]


@pytest.fixture
def client() -> BusClient:
    """Make a client that has sent nothing."""
    return BusClient()


def _sender(client: BusClient) -> QueueSender:
    return QueueSender(cast("ServiceBusClient", client), "submissions", BusFigures())


def _properties(client: BusClient) -> list[Any]:
    return [message.application_properties for batch in client.batches for message in batch]


async def test_each_message_of_a_batch_keeps_its_own_trace(spans: Spans, client: BusClient) -> None:
    """Though one of them causes the batch to be sent."""
    sender = _sender(client)

    async def submit(name: str) -> None:
        with span(name, {}):
            await sender.send(Outgoing(message_id=name, body=b"{}", subject="orders"))

    await asyncio.gather(*(submit(f"m-{number}") for number in range(3)))
    expected = [{"traceparent": traceparent_of(spans.one(f"m-{number}"))} for number in range(3)]
    assert _properties(client) == expected
    assert len(client.batches) < 3


async def test_orders_in_one_message_keep_their_own_traces(spans: Spans, client: BusClient) -> None:
    """Each goes on with the trace in which it was submitted."""
    submissions = SubmissionSpans(QueuedMessages(lambda _: _sender(client), FakeClock()))
    orders = [submission(task=TaskId(f"o-{number}")) for number in range(2)]
    assert await submissions.submit_all(orders) == [None, None]
    [[sent]] = client.batches
    carried: Any = sent.application_properties
    taken = each_order(received(b"".join(sent.body), sent.message_id, properties=carried))
    submitted = [traceparent_of(span) for span in spans.all() if span.name == "submit"]
    assert [dict(each.application_properties or {}) for each in taken] == [
        {"traceparent": each} for each in submitted
    ]


async def test_message_without_a_trace_has_no_properties(client: BusClient) -> None:
    """As when nothing is exported."""
    await _sender(client).send(Outgoing(message_id="m-1", body=b"{}", subject="orders"))
    assert _properties(client) == [None]


def test_receiver_goes_on_with_the_senders_trace(spans: Spans) -> None:
    """Its span tells the queue; it lies below the sender's."""
    with span("submit", {}):
        pass
    sent = traceparent_of(spans.one("submit"))
    with message_span("submissions", {"traceparent": sent, "other": b"s3cret"}):
        pass
    received = spans.one("process submissions")
    assert parent_of(received) == sent[36:52]
    assert dict(received.attributes or {}) == {"messaging.destination.name": "submissions"}


@pytest.mark.parametrize("properties", [None, {}, {"traceparent": b"00-1"}, {"traceparent": 7}])
def test_strange_message_begins_a_trace(spans: Spans, properties: dict[str, Any] | None) -> None:
    """Whoever sent it, and whatever it carries."""
    with message_span("agent-replies", properties):
        pass
    assert spans.one("process agent-replies").parent is None


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
