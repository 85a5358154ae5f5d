"""Calling a remote service: what is tried again, what is not, and for how long."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace

import pytest
from pydantic import SecretStr

from functions.agents import remote as remote_service
from functions.agents.credentials import BearerToken, KeyInHeader
from functions.agents.remote import RemoteService
from functions.agents.rest import RestAgent
from functions.pattern.definition import Json
from functions.pattern.errors import PermanentError, TransientError
from functions.pattern.identity import EffectKey
from functions.pattern.retry import Retry
from functions.pattern.states import FaultKind
from tests.fakes.agent_requests import KEY, agent_call
from tests.fakes.clock import FakeClock
from tests.fakes.remote_service import Answer, RemoteServiceFake
from tests.fakes.tasks import after
from tests.unit.agents.test_credentials import Issuer
from tests.unit.conftest import MakeRemote

MOST = 24 * 1024


async def _put(remote: RemoteService, *, within: float = 10, idempotent: bool = True) -> Json:
    call = agent_call(after(within), idempotent=idempotent)
    return await remote.put("task-1", call.request, call)


def test_attempt_is_ended_at_its_time_and_not_at_the_next_full_second() -> None:
    """Until then, the lease covers it, and after that, another instance may have the place."""
    assert remote_service._ATTEMPT_TIMEOUT.ceil_threshold > remote_service._ATTEMPT_SECONDS


async def test_request_says_what_under_which_key(service: RemoteServiceFake, make_remote: MakeRemote) -> None:
    """A PUT of the resource, as JSON, with the idempotency key."""
    assert await _put(make_remote()) == {"paid": True}
    [request] = service.received
    assert (request.method, request.path) == ("PUT", "/payments/task-1")
    assert request.body == b'{"amount": "4.90"}'
    assert request.headers["Content-Type"] == "application/json"
    assert request.headers["Idempotency-Key"] == KEY


async def test_what_is_added_to_a_collection_is_sent_again_under_its_key(
    service: RemoteServiceFake, make_remote: MakeRemote
) -> None:
    """A POST, which the service must know by the key alone; one that is not idempotent is sent once."""
    service.answers = [Answer(503), Answer(), Answer(503)]
    call = agent_call(after(10))
    assert await make_remote().post("bookings", call.request, call) == {"paid": True}
    with pytest.raises(TransientError):
        await make_remote().post("bookings", call.request, replace(call, idempotent=False))
    sent = [(each.method, each.path, each.headers["Idempotency-Key"]) for each in service.received]
    assert sent == [("POST", "/payments/bookings", KEY)] * 3


async def test_service_is_shown_what_it_asks_for(
    service: RemoteServiceFake, make_remote: MakeRemote, clock: FakeClock
) -> None:
    """A key in its header or a token, in each attempt, and nothing where it asks for nothing."""
    service.answers = [Answer(503), Answer()]
    await _put(make_remote(credential=KeyInHeader("x-functions-key", SecretStr("canary"))))
    await _put(make_remote(credential=BearerToken("api://pay/.default", Issuer(clock), clock)))
    await _put(make_remote())
    shown = [
        (each.headers.get("x-functions-key"), each.headers.get("Authorization")) for each in service.received
    ]
    assert shown == [("canary", None), ("canary", None), (None, "Bearer canary-1"), (None, None)]


@pytest.mark.parametrize("idempotent", [True, False])
async def test_token_that_does_not_come_harms_no_circuit(
    idempotent: bool,  # noqa: FBT001 - a parameter of the test
    service: RemoteServiceFake,
    make_remote: MakeRemote,
    clock: FakeClock,
) -> None:
    """It is asked for again until complete-by, also for what is sent once; no call goes without."""
    issuer = Issuer(clock)
    issuer.failing = True
    remote = make_remote(threshold=1, credential=BearerToken("api://pay/.default", issuer, clock))
    with pytest.raises(TransientError):
        await _put(remote, within=0.3, idempotent=idempotent)
    assert len(issuer.scopes) > 1
    assert service.received == []
    issuer.failing = False
    assert await _put(remote) == {"paid": True}


async def test_rest_agent_names_the_task_with_its_birth(
    service: RemoteServiceFake, make_remote: MakeRemote
) -> None:
    """A repeated call is the same payment; that of an earlier task with this id is another."""
    agent = RestAgent(make_remote())
    call = replace(agent_call(after(5)), effect_key=EffectKey("task-1.0a1b2c3d/payment/do"))
    assert await agent.do(call) == {"paid": True}
    await agent.undo(call)
    assert [each.path for each in service.received] == ["/payments/task-1.0a1b2c3d"] * 2


async def test_service_that_fails_twice_is_tried_a_third_time(
    service: RemoteServiceFake, make_remote: MakeRemote
) -> None:
    """Each attempt carries the same key, so that the service can tell them to be one."""
    service.answers = [Answer(503), Answer(503), Answer(201)]
    assert await _put(make_remote()) == {"paid": True}
    assert [request.headers["Idempotency-Key"] for request in service.received] == [KEY] * 3
    assert len({request.body for request in service.received}) == 1


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 599])
async def test_transient_status_is_tried_again(
    status: int, service: RemoteServiceFake, make_remote: MakeRemote
) -> None:
    """It may pass."""
    service.answers = [Answer(status), Answer()]
    assert await _put(make_remote()) == {"paid": True}


@pytest.mark.parametrize(
    ("header", "least"), [("1", 0.95), ("Sat, 21 Nov 2026 10:00:01 GMT", 0.85)], ids=["seconds", "date"]
)
async def test_service_that_asks_to_be_left_alone_is(
    header: str, least: float, service: RemoteServiceFake, make_remote: MakeRemote
) -> None:
    """`Retry-After` counts instead of our own backoff."""
    service.answers = [Answer(503, headers={"Retry-After": header}), Answer()]
    start = asyncio.get_running_loop().time()
    await _put(make_remote())
    assert asyncio.get_running_loop().time() - start >= least


async def test_retry_after_beyond_complete_by_is_not_waited_for(
    service: RemoteServiceFake, make_remote: MakeRemote
) -> None:
    """The Agent ends at complete-by, whatever the service asks for."""
    service.answers = [Answer(503, headers={"Retry-After": "3600"})]
    async with asyncio.timeout(60):
        with pytest.raises(TransientError, match="payment did not do it by complete-by"):
            await _put(make_remote(), within=1)
    assert len(service.received) == 1


@pytest.mark.parametrize("status", [300, 304, 400, 401, 404, 409, 410, 422])
async def test_refusal_is_for_good(status: int, service: RemoteServiceFake, make_remote: MakeRemote) -> None:
    """One call, no retry; the reason names service and status."""
    service.answers = [Answer(status, pieces=())]
    with pytest.raises(PermanentError, match=f"^payment answered {status}$"):
        await _put(make_remote())
    assert len(service.received) == 1


async def test_redirect_is_not_followed(service: RemoteServiceFake, make_remote: MakeRemote) -> None:
    """Addresses come from the settings only."""
    service.answers = [Answer(307, headers={"Location": f"{service.address}/elsewhere"}), Answer()]
    with pytest.raises(PermanentError, match="payment answered 307"):
        await _put(make_remote())
    assert [request.path for request in service.received] == ["/payments/task-1"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<html>", "what can't be used: not JSON"),
        (b"\xff", "what can't be used: not JSON"),
        (b'{"paid":NaN}', "what can't be used: paid: not a finite number"),
        (b'{"paid":"\\ud800"}', "what can't be used: not JSON"),
        (b"[" * 150 + b"]" * 150, r"what can't be used: [\[0\]]+…: nested deeper"),
        (b"[" * 20_000, "what can't be used: not JSON"),
        (b"[1]", "what is not a JSON object"),
        (b"null", "what is not a JSON object"),
    ],
)
async def test_answer_that_does_not_parse_is_for_good(
    body: bytes, reason: str, service: RemoteServiceFake, make_remote: MakeRemote
) -> None:
    """A service that speaks another language will not learn ours by being asked again."""
    service.answers = [Answer(pieces=(body,))]
    with pytest.raises(PermanentError, match=f"payment answered {reason}"):
        await _put(make_remote())


async def test_answer_without_a_body_is_an_empty_result(
    service: RemoteServiceFake, make_remote: MakeRemote
) -> None:
    """204 is a success."""
    service.answers = [Answer(204, pieces=())]
    assert await _put(make_remote()) == {}


async def test_answer_in_pieces_is_read_whole(service: RemoteServiceFake, make_remote: MakeRemote) -> None:
    """Networks cut where they like."""
    service.answers = [Answer(pieces=(b'{"re', b'ceipt":', b"17}"))]
    assert await _put(make_remote()) == {"receipt": 17}


async def test_answer_as_large_as_may_be_is_taken(
    service: RemoteServiceFake, make_remote: MakeRemote
) -> None:
    """24 KiB are kept in the step's row."""
    body = b'{"a":"%s"}' % (b"x" * (MOST - 8))
    service.answers = [Answer(pieces=(body[:9_000], body[9_000:]))]
    assert len((await _put(make_remote()))["a"]) == MOST - 8


async def test_answer_that_is_too_large_is_for_good(
    service: RemoteServiceFake, make_remote: MakeRemote
) -> None:
    """It is not read to its end."""
    service.answers = [Answer(pieces=(b"x" * MOST, b"x"))]
    with pytest.raises(PermanentError, match=f"payment answered more than {MOST} bytes"):
        await _put(make_remote())


async def test_service_that_never_answers_costs_no_more_than_complete_by(
    service: RemoteServiceFake, make_remote: MakeRemote
) -> None:
    """The outcome stays unknown: transient, not a refusal."""
    service.answers = [Answer(hangs=True)]
    async with asyncio.timeout(60):
        with pytest.raises(TransientError, match="payment did not do it by complete-by"):
            await _put(make_remote(), within=0.2)


async def test_nothing_is_called_after_complete_by(
    service: RemoteServiceFake, make_remote: MakeRemote
) -> None:
    """Late work is silent."""
    with pytest.raises(TransientError):
        await _put(make_remote(), within=-1)
    assert service.received == []


async def test_service_that_is_not_there_is_tried_until_complete_by(make_remote: MakeRemote) -> None:
    """A refused connection may pass."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(TransientError):
            await _put(make_remote(address=address), within=0.2)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"amount": float("nan")}, "its request can't be written as JSON: request.amount is nan"),
        ({"note": "x" * 65_536}, "its request has 65548 bytes; at most 65536 can be sent"),
    ],
    ids=["nan", "size"],
)
async def test_request_that_cannot_be_sent_is_refused_for_good(
    body: Json, reason: str, service: RemoteServiceFake, make_remote: MakeRemote
) -> None:
    """The service is not called, and its circuit counts no failure."""
    remote = make_remote(threshold=1)
    with pytest.raises(PermanentError, match=f"^{reason}$"):
        await remote.put("task-1", body, agent_call(after(10)))
    assert service.received == []
    assert await _put(remote) == {"paid": True}


async def test_step_says_how_often_and_after_what_its_call_is_made_again(
    service: RemoteServiceFake, make_remote: MakeRemote
) -> None:
    """Its own policy stands before that of the settings."""
    service.answers = [Answer(503)]
    retry = Retry(attempts=2, first=0.01)
    for policy in (retry, replace(retry, on=frozenset({FaultKind.BUSY}))):
        call = replace(agent_call(after(10)), retry=policy)
        with pytest.raises(TransientError, match="503"):
            await make_remote().put("task-1", call.request, call)
    assert len(service.received) == 2 + 1
