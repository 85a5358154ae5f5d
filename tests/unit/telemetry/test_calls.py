"""Calls of remote services carry the trace, and are told by the Agent's name and the status."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import aiohttp
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.trace import SpanKind, StatusCode

from functions.agents.breaker import Breaker
from functions.agents.remote import RemoteService
from functions.pattern.breaker import BreakerPolicy
from functions.pattern.errors import PermanentError
from functions.telemetry.fields import Field
from functions.telemetry.instruments import observe_breakers
from functions.telemetry.spans import span
from tests.fakes.breaker_rows import MemoryBreakerRows
from tests.fakes.chance import Least
from tests.fakes.clock import FakeClock
from tests.fakes.ports import fake_ports
from tests.fakes.remote_service import Answer, RemoteServiceFake
from tests.unit.agents.breaker.conftest import OPEN_FOR, Instances
from tests.unit.telemetry.conftest import Measured, Spans, parent_of, series, traceparent_of


@pytest.fixture
async def service() -> AsyncIterator[RemoteServiceFake]:
    """Run a service for the length of a test."""
    async with RemoteServiceFake().running() as service:
        yield service


@pytest.fixture
async def remote(service: RemoteServiceFake) -> AsyncIterator[RemoteService]:
    """Make the Agent's side of it."""
    ports = fake_ports(breakers=MemoryBreakerRows())
    policy = BreakerPolicy(failures=100, open_for=timedelta(seconds=60))
    async with aiohttp.ClientSession() as session:
        yield RemoteService(
            "drone",
            f"{service.address}/s3cret",
            ports,
            session=lambda: session,
            once_session=lambda: session,
            breaker=Breaker("drone", ports, policy),
            random=Least(),
        )


async def _call(remote: RemoteService) -> None:
    complete_by = FakeClock().now() + timedelta(seconds=10)
    await remote.get("t-1", complete_by=complete_by)


async def test_service_gets_the_trace(
    remote: RemoteService, service: RemoteServiceFake, spans: Spans
) -> None:
    """In its header; the span lies below the step's, and the address is told nobody."""
    with span("step drone", {Field.STEP: "drone"}):
        await _call(remote)
    call = spans.one("GET drone")
    assert service.received[0].headers["traceparent"] == traceparent_of(call)
    assert parent_of(call) == traceparent_of(spans.one("step drone"))[36:52]
    assert call.kind is SpanKind.CLIENT
    assert dict(call.attributes or {}) == {
        "peer.service": "drone",
        "http.request.method": "GET",
        "http.response.status_code": 200,
    }


async def test_service_gets_no_header_without_a_trace(
    remote: RemoteService, service: RemoteServiceFake
) -> None:
    """As when nothing is exported."""
    await _call(remote)
    assert "traceparent" not in service.received[0].headers


async def test_each_attempt_is_a_span_and_a_retry_is_counted(
    remote: RemoteService, service: RemoteServiceFake, spans: Spans, measured: Measured
) -> None:
    """One call that failed, and one that did not; a service sees which attempt it got."""
    service.answers = [Answer(503), Answer()]
    await _call(remote)
    failed, good = spans.all()
    assert (failed.status.status_code, good.status.status_code) == (StatusCode.ERROR, StatusCode.UNSET)
    told = [each.headers["traceparent"] for each in service.received]
    assert told == [traceparent_of(failed), traceparent_of(good)]
    assert measured.take() == {series("remote.retries", peer_service="drone"): 1}


async def test_refusal_fails_the_span_and_is_no_retry(
    remote: RemoteService, service: RemoteServiceFake, spans: Spans, measured: Measured
) -> None:
    """Its body is not told."""
    service.answers = [Answer(422, (b'{"detail":"s3cret"}',))]
    with pytest.raises(PermanentError):
        await _call(remote)
    refused = spans.one("GET drone")
    assert (refused.attributes or {})["error.type"] == "422"
    assert "s3cret" not in refused.to_json()
    assert measured.take() == {}


async def test_breaker_shows_its_state() -> None:
    """Closed, open, and half-open while it tries one call."""
    reader = InMemoryMetricReader()
    meter = MeterProvider([reader], shutdown_on_exit=False).get_meter("one application's")
    measured = Measured(reader)
    instances = Instances()
    breaker = instances.start()
    observe_breakers(lambda: {"drone": breaker.state}, meter)
    level = series("breaker.state", peer_service="drone")
    assert measured.levels()[level] == 0
    await instances.open_breaker(breaker)
    assert measured.levels()[level] == 2
    instances.clock.advance(OPEN_FOR)
    instances.drones.fault = None
    probe, answered = await instances.call_held(breaker)
    assert measured.levels()[level] == 1
    answered.set()
    await probe
    assert measured.levels()[level] == 0
