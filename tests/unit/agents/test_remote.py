"""Calls of a remote service: results, retries, waits, and calls that are made once."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from datetime import timedelta
from random import Random
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from functions.agents import remote as remote_service
from functions.agents.credentials import BearerToken, KeyInHeader
from functions.agents.remote import RemoteService
from functions.agents.rest import RestAgent
from functions.agents.tries import Turns, backoff_seconds, retry_after_seconds
from functions.pattern.definition import Json
from functions.pattern.errors import NotSentError, PermanentError, TransientError, UnusableAnswerError
from functions.pattern.identity import EffectKey
from functions.pattern.retry import Retry
from functions.pattern.states import FaultKind
from functions.pattern.texts import excerpt
from tests.fakes.agent_requests import KEY, agent_call
from tests.fakes.chance import seeded
from tests.fakes.clock import START, FakeClock
from tests.fakes.remote_service import Answer
from tests.fakes.tasks import after
from tests.unit.agents.test_endpoints import Issuer
from tests.unit.conftest import Service

MOST = 24 * 1024


async def _put(remote: RemoteService, *, within: float = 10, idempotent: bool = True) -> Json:
    call = agent_call(after(within), idempotent=idempotent)
    return await remote.put("task-1", call.request, call)


def test_attempt_is_ended_at_its_time_and_not_at_the_next_full_second() -> None:
    """Until then, the lease covers it, and after that, another instance may have the place."""
    assert remote_service._ATTEMPT_TIMEOUT.ceil_threshold > remote_service._ATTEMPT_SECONDS


async def test_request_says_what_under_which_key(service: Service) -> None:
    """A PUT of the resource, as JSON, with the idempotency key."""
    assert await _put(service.caller()) == {"paid": True}
    [request] = service.received
    assert (request.method, request.path) == ("PUT", "/payments/task-1")
    assert request.body == b'{"amount": "4.90"}'
    assert request.headers["Content-Type"] == "application/json"
    assert request.headers["Idempotency-Key"] == KEY


async def test_what_is_added_to_a_collection_is_sent_again_under_its_key(service: Service) -> None:
    """A POST, which the service must know by the key alone; one that is not idempotent is sent once."""
    service.answers = [Answer(503), Answer(), Answer(503)]
    call = agent_call(after(10))
    assert await service.caller().post("bookings", call.request, call) == {"paid": True}
    with pytest.raises(TransientError):
        await service.caller().post("bookings", call.request, replace(call, idempotent=False))
    sent = [(each.method, each.path, each.headers["Idempotency-Key"]) for each in service.received]
    assert sent == [("POST", "/payments/bookings", KEY)] * 3


async def test_service_is_shown_what_it_asks_for(service: Service, clock: FakeClock) -> None:
    """A key in its header or a token, in each attempt, and nothing where it asks for nothing."""
    service.answers = [Answer(503), Answer()]
    await _put(service.caller(credential=KeyInHeader("x-functions-key", SecretStr("canary"))))
    await _put(service.caller(credential=BearerToken("api://pay/.default", Issuer(clock), clock)))
    await _put(service.caller())
    shown = [
        (each.headers.get("x-functions-key"), each.headers.get("Authorization")) for each in service.received
    ]
    assert shown == [("canary", None), ("canary", None), (None, "Bearer canary-1"), (None, None)]


@pytest.mark.parametrize("idempotent", [True, False])
async def test_token_that_does_not_come_harms_no_circuit(
    idempotent: bool,  # noqa: FBT001 - a parameter of the test
    service: Service,
    clock: FakeClock,
) -> None:
    """It is asked for again until complete-by, also for what is sent once; no call goes without."""
    issuer = Issuer(clock)
    issuer.failing = True
    remote = service.caller(threshold=1, credential=BearerToken("api://pay/.default", issuer, clock))
    with pytest.raises(TransientError):
        await _put(remote, within=0.3, idempotent=idempotent)
    assert len(issuer.scopes) > 1
    assert service.received == []
    issuer.failing = False
    assert await _put(remote) == {"paid": True}


async def test_rest_agent_names_the_task_with_its_birth(service: Service) -> None:
    """A repeated call is the same payment; that of an earlier task with this id is another."""
    agent = RestAgent(service.caller())
    call = replace(agent_call(after(5)), effect_key=EffectKey("task-1.0a1b2c3d/payment/do"))
    assert await agent.do(call) == {"paid": True}
    await agent.undo(call)
    assert [each.path for each in service.received] == ["/payments/task-1.0a1b2c3d"] * 2


async def test_service_that_fails_twice_is_tried_a_third_time(service: Service) -> None:
    """Each attempt carries the same key, so that the service can tell them to be one."""
    service.answers = [Answer(503), Answer(503), Answer(201)]
    assert await _put(service.caller()) == {"paid": True}
    assert [request.headers["Idempotency-Key"] for request in service.received] == [KEY] * 3
    assert len({request.body for request in service.received}) == 1


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 599])
async def test_transient_status_is_tried_again(status: int, service: Service) -> None:
    """It may pass."""
    service.answers = [Answer(status), Answer()]
    assert await _put(service.caller()) == {"paid": True}


@pytest.mark.parametrize(
    ("header", "least"), [("1", 0.95), ("Sat, 21 Nov 2026 10:00:01 GMT", 0.85)], ids=["seconds", "date"]
)
async def test_service_that_asks_to_be_left_alone_is(header: str, least: float, service: Service) -> None:
    """`Retry-After` counts instead of our own backoff."""
    service.answers = [Answer(503, headers={"Retry-After": header}), Answer()]
    start = asyncio.get_running_loop().time()
    await _put(service.caller())
    assert asyncio.get_running_loop().time() - start >= least


async def test_retry_after_beyond_complete_by_is_not_waited_for(service: Service) -> None:
    """The Agent ends at complete-by, whatever the service asks for."""
    service.answers = [Answer(503, headers={"Retry-After": "3600"})]
    async with asyncio.timeout(60):
        with pytest.raises(TransientError, match="payment did not do it by complete-by"):
            await _put(service.caller(), within=1)
    assert len(service.received) == 1


@pytest.mark.parametrize("status", [300, 304, 400, 401, 404, 409, 410, 422])
async def test_refusal_is_for_good(status: int, service: Service) -> None:
    """One call, no retry; the reason names service and status."""
    service.answers = [Answer(status, pieces=())]
    with pytest.raises(PermanentError, match=f"^payment answered {status}$"):
        await _put(service.caller())
    assert len(service.received) == 1


async def test_redirect_is_not_followed(service: Service) -> None:
    """Addresses come from the settings only."""
    service.answers = [Answer(307, headers={"Location": f"{service.address}/elsewhere"}), Answer()]
    with pytest.raises(PermanentError, match="payment answered 307"):
        await _put(service.caller())
    assert [request.path for request in service.received] == ["/payments/task-1"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<html>", "what can't be used: not JSON"),
        (b"\xff", "what can't be used: not JSON"),
        (b'{"paid":NaN}', "what can't be used: not a finite number"),
        (b'{"paid":"\\ud800"}', "what can't be used: not JSON"),
        (b"[" * 150 + b"]" * 150, "what can't be used: nested deeper"),
        (b"[" * 20_000, "what can't be used: not JSON"),
        (b"[1]", "what is not a JSON object"),
        (b"null", "what is not a JSON object"),
    ],
)
async def test_answer_that_does_not_parse_is_for_good(body: bytes, reason: str, service: Service) -> None:
    """A service that speaks another language will not learn ours by being asked again."""
    service.answers = [Answer(pieces=(body,))]
    with pytest.raises(PermanentError, match=f"payment answered {reason}"):
        await _put(service.caller())


async def test_answer_without_a_body_is_an_empty_result(service: Service) -> None:
    """204 is a success."""
    service.answers = [Answer(204, pieces=())]
    assert await _put(service.caller()) == {}


async def test_answer_as_large_as_may_be_is_taken(service: Service) -> None:
    """24 KiB are kept in the step's row."""
    body = b'{"a":"%s"}' % (b"x" * (MOST - 8))
    service.answers = [Answer(pieces=(body[:9_000], body[9_000:]))]
    assert len((await _put(service.caller()))["a"]) == MOST - 8


async def test_answer_that_is_too_large_is_for_good(service: Service) -> None:
    """It is not read to its end."""
    service.answers = [Answer(pieces=(b"x" * MOST, b"x"))]
    with pytest.raises(PermanentError, match=f"payment answered more than {MOST} bytes"):
        await _put(service.caller())


@pytest.mark.parametrize("idempotent", [True, False])
async def test_service_that_never_answers_costs_no_more_than_complete_by(
    service: Service, *, idempotent: bool
) -> None:
    """The outcome stays unknown: transient, not a refusal."""
    service.answers = [Answer(hangs=True)]
    async with asyncio.timeout(60):
        with pytest.raises(TransientError, match="payment did not do it by complete-by"):
            await _put(service.caller(), within=0.2, idempotent=idempotent)
    assert len(service.received) == 1


async def test_nothing_is_called_after_complete_by(service: Service) -> None:
    """Late work is silent."""
    with pytest.raises(TransientError):
        await _put(service.caller(), within=-1)
    assert service.received == []


async def test_service_that_is_not_there_is_tried_until_complete_by(service: Service) -> None:
    """A refused connection may pass."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(TransientError):
            await _put(service.caller(address=address), within=0.2)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"amount": float("nan")}, "its request can't be written as JSON: request.amount is nan"),
        ({"note": "x" * 65_536}, "its request has 65548 bytes; at most 65536 can be sent"),
    ],
    ids=["nan", "size"],
)
async def test_request_that_cannot_be_sent_is_refused_for_good(
    body: Json, reason: str, service: Service
) -> None:
    """The service is not called, and its circuit counts no failure."""
    remote = service.caller(threshold=1)
    with pytest.raises(PermanentError, match=f"^{reason}$"):
        await remote.put("task-1", body, agent_call(after(10)))
    assert service.received == []
    assert await _put(remote) == {"paid": True}


async def test_step_says_how_often_and_after_what_its_call_is_made_again(service: Service) -> None:
    """Its own policy stands before that of the settings."""
    service.answers = [Answer(503)]
    retry = Retry(attempts=2, first=0.01)
    for policy in (retry, replace(retry, on=frozenset({FaultKind.BUSY}))):
        call = replace(agent_call(after(10)), retry=policy)
        with pytest.raises(TransientError, match="503"):
            await service.caller().put("task-1", call.request, call)
    assert len(service.received) == 2 + 1


async def test_refusal_says_what_the_service_said(service: Service) -> None:
    """The text is not changed."""
    service.answers = [Answer(422, (b'{"detail":\n "card 4111 1111 1111 1111 is\x00blocked"}',))]
    with pytest.raises(PermanentError) as refusal:
        await _put(service.caller())
    assert (
        str(refusal.value) == 'payment answered 422: {"detail":\n "card 4111 1111 1111 1111 is\x00blocked"}'
    )


@pytest.mark.parametrize("body", [b"x" * 30_000, "文".encode() * 9_000, b"\xff" * 30_000])
def test_what_a_service_said_is_bounded(body: bytes) -> None:
    """In characters, in whichever script; what may be of a character that was cut is one."""
    assert len(excerpt(body)) == 500
    assert excerpt(body).endswith("…")


async def test_time_that_is_over_says_the_last_fault(service: Service) -> None:
    """Not only that it is over."""
    service.answers = [Answer(503), Answer(hangs=True)]
    with pytest.raises(TransientError) as late:
        await asyncio.wait_for(_put(service.caller(), within=2), 30)
    assert str(late.value) == "payment did not do it by complete-by (payment answered 503)"


def _random(seed: int) -> Random:
    return Random(seed)  # noqa: S311 - repeatable, and no secret


@given(attempt=st.integers(1, 10_000), seed=st.integers())
def test_backoff_grows_within_bounds(attempt: int, seed: int) -> None:
    """It doubles up to ten seconds, and is never so short that retries are immediate."""
    bound = 0.2 * 2 ** (attempt - 1) if attempt < 7 else 10
    assert bound / 4 <= backoff_seconds(attempt, _random(seed), Retry()) <= bound


def test_backoff_is_spread() -> None:
    """Callers that failed together do not come back together."""
    assert len({backoff_seconds(3, _random(seed), Retry()) for seed in range(20)}) == 20


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("7", 7),
        (" 7 ", 7),
        ("0", 0),
        ("Sat, 21 Nov 2026 10:00:10 GMT", 9.876544),
        ("Sat, 21 Nov 2026 10:00:10 -0000", 9.876544),
        ("Sat, 21 Nov 2026 12:00:10 +0200", 9.876544),
        ("Sat, 21 Nov 2026 09:59:00 GMT", 0),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("", None),
        ("²", None),
        ("Sat, 21 Nov 2026 99999999999999999999:00:00 GMT", None),
    ],
)
def test_retry_after_is_read_as_http_has_it(header: str | None, seconds: float | None) -> None:
    """Seconds or a date (RFC 9110 §10.2.3); a date that is over asks for nothing, rubbish is ignored."""
    assert retry_after_seconds(header, START) == seconds


@given(st.text(st.characters(codec="latin-1")) | st.from_regex(r"\w{3}, \d+ Nov \d+ \d+:\d+:\d+ [+-]?\d+"))
def test_no_header_can_break_the_retries(header: str) -> None:
    """Whatever a service sends, it is a time to wait or nothing."""
    seconds = retry_after_seconds(header, START)
    assert seconds is None or seconds >= 0


def test_turns_follow_each_other_at_twice_the_pace() -> None:
    """Half of those who come find a place, and none stays empty."""
    turns = Turns(seeded(1))
    assert [turns.next(START, pace=2) for _ in range(4)] == [
        after(1 + 0.25 * number) for number in (1, 2, 3, 4)
    ]


def test_turns_begin_anew_when_the_last_has_passed() -> None:
    """A second from now at least."""
    turns = Turns(seeded(1))
    turns.next(START, pace=2)
    assert turns.next(after(100), pace=2) == after(101.25)


def test_nobody_waits_longer_than_a_minute() -> None:
    """However many wait: they are spread over the second half of it."""
    turns = Turns(seeded(1))
    times = [turns.next(START, pace=0) for _ in range(1_000)]
    assert max(times) <= after(60)
    late = times[60:]
    assert min(late) >= after(30)
    assert len(set(late)) == len(late)
    assert max(late) - min(late) > timedelta(seconds=25)


FAULTS = {
    **{f"{status}": Answer(status) for status in (408, 425, 500, 504)},
    "429 retry": Answer(429, headers={"Retry-After": "0"}),
    "503 retry": Answer(503, headers={"Retry-After": "0"}),
    "hangs up": Answer(hangs_up=True),
    "cut off": Answer(breaks_off=True),
}

each_fault = pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)


async def _do(remote: RemoteService, *, idempotent: bool = False) -> Json:
    async with asyncio.timeout(60):
        call = agent_call(after(10), idempotent=idempotent)
        return await RestAgent(remote).do(call)


@each_fault
async def test_service_that_does_it_and_fails_gets_one_call(fault: Answer, service: Service) -> None:
    """The outcome is unknown, and known to be."""
    service.answers = [fault, Answer()]
    with pytest.raises(TransientError) as unknown:
        await _do(service.caller())
    assert not isinstance(unknown.value, NotSentError)
    assert len(service.received) == 1


@each_fault
async def test_idempotent_call_is_repeated_after_the_same_fault(fault: Answer, service: Service) -> None:
    """So it is idempotence that makes the difference."""
    service.answers = [fault, Answer()]
    assert await _do(service.caller(), idempotent=True) == {"paid": True}
    assert len(service.received) == 2


async def test_undo_that_hangs_up_gets_one_call_too(service: Service) -> None:
    """Where its caller says that it is not idempotent."""
    service.answers = [Answer(hangs_up=True), Answer()]
    with pytest.raises(TransientError):
        await RestAgent(service.caller()).undo(agent_call(after(10), idempotent=False))
    assert [request.method for request in service.received] == ["DELETE"]


async def test_slow_service_has_until_complete_by(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """No shorter limit ends its call, as it ends an attempt that can be repeated."""
    monkeypatch.setattr(remote_service, "_ATTEMPT_TIMEOUT", aiohttp.ClientTimeout(total=0.2))
    service.answers = [Answer(seconds=0.8)]
    assert await _do(service.caller()) == {"paid": True}
    assert len(service.received) == 1
    service.answers = [Answer(seconds=0.8), Answer()]
    assert await _do(service.caller(), idempotent=True) == {"paid": True}
    assert len(service.received) == 3


async def test_refusal_is_an_outcome(service: Service) -> None:
    """It was not done."""
    service.answers = [Answer(422)]
    with pytest.raises(PermanentError, match="payment answered 422") as refusal:
        await _do(service.caller())
    assert not isinstance(refusal.value, UnusableAnswerError)


@pytest.mark.parametrize("body", [b"<html>", b"[1]", b"x" * 25 * 1024], ids=["no JSON", "list", "too large"])
async def test_answer_that_cannot_be_used_is_no_refusal(body: bytes, service: Service) -> None:
    """It was done; only its result is not known."""
    service.answers = [Answer(pieces=(body,))]
    with pytest.raises(UnusableAnswerError):
        await _do(service.caller())
    assert len(service.received) == 1


async def test_each_call_has_a_connection_of_its_own(service: Service) -> None:
    """One that is kept may be closed by the service while the request is on its way."""
    remote = service.caller()
    for idempotent in (True, True, False, False):
        await _do(remote, idempotent=idempotent)
    kept, again, one, two = (request.port for request in service.received)
    assert kept == again
    assert len({kept, one, two}) == 3


class _MovingResolver(AbstractResolver):
    """Knows no address at first, then a port where nobody listens, then the service."""

    def __init__(self, service: Service) -> None:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            self._ports = [None, closed.getsockname()[1], urlsplit(service.address).port]

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the next address."""
        found = self._ports.pop(0)
        if found is None:
            raise OSError(f"{host}:{port} is unknown")
        numeric = socket.AI_NUMERICHOST
        return [
            ResolveResult(hostname=host, host="127.0.0.1", port=found, family=family, proto=0, flags=numeric)
        ]

    async def close(self) -> None:
        """Hold nothing."""


async def test_service_that_was_not_reached_is_tried_again(service: Service) -> None:
    """Nothing has left: neither when its name is unknown, nor when it refuses the connection."""
    connector = aiohttp.TCPConnector(force_close=True, use_dns_cache=False, resolver=_MovingResolver(service))
    async with aiohttp.ClientSession(connector=connector) as once:
        assert await _do(service.caller(address="http://pay.example.com", once=once)) == {"paid": True}
    assert len(service.received) == 1


async def test_open_circuit_is_waited_for(service: Service, clock: FakeClock) -> None:
    """Nothing has left; to give up would make an operator find that out."""
    service.answers = [Answer(503), Answer()]
    remote = service.caller(threshold=1, open_seconds=0.2)
    with pytest.raises(TransientError):
        await _do(remote, idempotent=True)
    waiting = asyncio.create_task(_do(remote))
    await asyncio.wait([waiting], timeout=0.1)
    assert len(service.received) == 1
    clock.advance(1)
    assert await waiting == {"paid": True}
    assert len(service.received) == 2


async def test_failing_call_counts_for_the_circuit(service: Service) -> None:
    """The service is as ill as after any other call."""
    service.answers = [Answer(503)]
    remote = service.caller(threshold=2)
    for _ in range(2):
        with pytest.raises(TransientError, match="payment answered 503"):
            await _do(remote)
    with pytest.raises(NotSentError, match="circuit open"):
        await _do(remote, idempotent=True)
