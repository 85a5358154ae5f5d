"""The webhook: where it may be, which format it gets, and what counts as taken."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import aiohttp
import pytest

from functions.operations.alerts.alerts import AlertFormat, Webhook, lost_alert
from functions.pattern.errors import TransientError
from tests.fakes.remote_service import Answer, RemoteServiceFake

LOSS = lost_alert("submissions", "m-1", None, "expired")


@pytest.fixture
async def service() -> AsyncIterator[RemoteServiceFake]:
    """Run a service that takes alerts."""
    async with RemoteServiceFake().running() as service:
        yield service


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    """Open an HTTP client."""
    async with aiohttp.ClientSession() as session:
        yield session


async def test_alert_is_posted_as_json(service: RemoteServiceFake, session: aiohttp.ClientSession) -> None:
    """To the very address that the settings name."""
    await Webhook(f"{service.address}/hook/s3cret", None, session=lambda: session).post(LOSS)
    [request] = service.received
    assert (request.method, request.path) == ("POST", "/hook/s3cret")
    assert request.headers["Content-Type"] == "application/json"
    assert json.loads(request.body)["event"] == "message lost"


async def test_format_can_be_set(service: RemoteServiceFake, session: aiohttp.ClientSession) -> None:
    """For a Teams webhook behind an address of one's own."""
    await Webhook(service.address, AlertFormat.TEAMS, session=lambda: session).post(LOSS)
    assert json.loads(service.received[0].body)["type"] == "message"


@pytest.mark.parametrize("status", [302, 404, 500])
async def test_alert_counts_as_taken_only_when_the_answer_says_so(
    service: RemoteServiceFake, session: aiohttp.ClientSession, status: int
) -> None:
    """A redirect is not followed; the address, a secret, is not told."""
    service.answers = [Answer(status, headers={"Location": "/elsewhere"})]
    with pytest.raises(TransientError, match=f"^alert webhook answered {status}$"):
        await _webhook(f"{service.address}/s3cret", session).post(LOSS)
    assert {request.path for request in service.received} == {"/s3cret"}
    assert len(service.received) == 4


async def test_service_that_fails_for_a_moment_is_asked_again(
    service: RemoteServiceFake, session: aiohttp.ClientSession
) -> None:
    """The queue would deliver the alert again at once, and not often."""
    service.answers = [Answer(503), Answer(429), Answer()]
    await _webhook(service.address, session).post(LOSS)
    assert len(service.received) == 3


async def test_address_that_nobody_answers_at_is_a_fault_that_may_pass(
    session: aiohttp.ClientSession,
) -> None:
    """And is not told either."""
    with pytest.raises(TransientError) as fault:
        await _webhook("http://127.0.0.1:1/s3cret", session).post(LOSS)
    assert "s3cret" not in str(fault.value)
    assert fault.value.__cause__ is None


@pytest.mark.parametrize(
    ("address", "alert_format"),
    [
        ("https://contoso.webhook.office.com/webhookb2/x", AlertFormat.TEAMS),
        ("https://prod-01.westeurope.logic.azure.com:443/workflows/x", AlertFormat.TEAMS),
        ("https://webhook.office.com.example.com/x", AlertFormat.GENERIC),
        ("https://alerts.example.com/x", AlertFormat.GENERIC),
    ],
)
def test_address_tells_the_format(address: str, alert_format: AlertFormat) -> None:
    """Teams is known by its hosts."""
    webhook = Webhook(address, None, session=_no_session)
    assert webhook._format is alert_format


def _webhook(address: str, session: aiohttp.ClientSession) -> Webhook:
    return Webhook(address, None, session=lambda: session, first_wait=0.001)


def _no_session() -> aiohttp.ClientSession:
    raise AssertionError("nothing is posted here")
