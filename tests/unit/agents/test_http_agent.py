"""Agents over HTTP: requests, results, retries, and calls that must not be repeated."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from random import Random
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr

from functions.agents import agent_call, http_agent
from functions.agents.agent_call import NotBegunError, RefusedError, UnusableResultError
from functions.agents.http_agent import (
    Call,
    Found,
    HttpAgent,
    RestAgent,
    ServiceError,
    StatusRefusedError,
    retry_after_seconds,
)
from functions.core.definition.step_definition import Retry
from functions.core.record import Direction
from functions.core.task_events import OutcomeKind
from functions.http.destinations import new_session
from functions.messaging.agent_messages import Finding
from functions.service_credentials import HeaderKey, NoTokenError
from tests.fakes.remote_service import Answer
from tests.fakes.storage_process import virtual_now
from tests.unit.agents.conftest import KEY, new_call, saying
from tests.unit.conftest import Service

NOW = datetime(2026, 11, 21, 10, 0, 0, 123456, tzinfo=UTC)
PAID = '{"paid":true}'
_PATH = "/payments/task-1.0a1b2c3d"


class Charge(BaseModel):
    """The result of a payment."""

    reference: str
    token: SecretStr


class CardAgent(HttpAgent):
    """An Agent of one's own, as an author writes it."""

    fences_starts = True

    async def do(self, call: Call) -> Charge:
        """Charge once."""
        return await self.post("charges", call.request, call, returns=Charge)

    async def undo(self, call: Call) -> None:
        """Refund."""
        await self.post("refunds", call.request, call)

    async def find(self, call: Call) -> Found[Charge]:
        """Look up the charge."""
        return await self.get(f"charges/{call.effect_key}", call, returns=Charge)


async def _do(service: Service, *, seconds: float = 10, **fields: object) -> str:
    async with asyncio.timeout(60):
        return await RestAgent(service.access()).carry_out(new_call(seconds, **fields))


# Requests and results


async def test_rest_agent_puts_and_deletes_the_resource_of_its_task(service: Service) -> None:
    """The recorded request, as JSON, under the effect key; an item has a resource of its own."""
    agent: agent_call.Agent = RestAgent(service.access())
    assert await agent.carry_out(new_call()) == PAID
    await agent.carry_out(new_call(step="seats.3", effect_key="task-1.0a1b2c3d/seats.3/do"))
    await agent.carry_out(new_call(direction=Direction.UNDO, effect_key="task-1.0a1b2c3d/payment/undo"))
    assert service.requests == [
        ("PUT", _PATH, KEY),
        ("PUT", f"{_PATH}.3", "task-1.0a1b2c3d/seats.3/do"),
        ("DELETE", _PATH, "task-1.0a1b2c3d/payment/undo"),
    ]
    assert service.received[0].body == b'{"amount":"4.90"}'
    assert service.received[0].headers["Content-Type"] == "application/json"


async def test_own_agent_does_undoes_and_finds(service: Service) -> None:
    """A secret of the result is recorded as it is: a later step sends it."""
    charge = {"reference": "C-7", "token": "canary", "more": 1}
    service.answers = [saying(charge), saying({}, 201), saying(charge)]
    agent = CardAgent(service.access())
    assert json.loads(await agent.carry_out(new_call())) == {"reference": "C-7", "token": "canary"}
    assert await agent.carry_out(new_call(direction=Direction.UNDO)) == "{}"
    found = await agent.find(new_call())
    assert (found.finding, json.loads(found.result)["reference"]) == (Finding.DONE, "C-7")
    assert found.value is not None
    assert found.value.reference == "C-7"
    assert [path for _, path, _ in service.requests] == [
        "/payments/charges",
        "/payments/refunds",
        f"/payments/charges/{KEY}",
    ]


@pytest.mark.parametrize(("status", "kind"), [(404, OutcomeKind.NOT_BEGUN), (410, OutcomeKind.UNKNOWN)])
async def test_only_404_is_a_look_up_that_says_not_done(
    status: int, kind: OutcomeKind, service: Service
) -> None:
    """And it restarts the step only because this Agent fences starts."""
    service.answers = [Answer(status, ())]
    outcome = await agent_call.look_up(CardAgent(service.access()), new_call(), virtual_now())
    assert outcome.kind is kind


async def test_agent_that_defines_neither_undo_nor_find(service: Service) -> None:
    """It refuses an undo, and a look-up stays unknown."""
    agent = HttpAgent(service.access())
    with pytest.raises(RefusedError, match="cannot undo"):
        await agent.carry_out(new_call(direction=Direction.UNDO))
    assert (await agent.find(new_call())).finding is Finding.UNKNOWN


@pytest.mark.parametrize(
    ("status", "direction"), [(404, Direction.UNDO), (410, Direction.UNDO), (204, Direction.DO)]
)
async def test_success_without_an_answer(status: int, direction: Direction, service: Service) -> None:
    """Nothing is left to undo, and the result is empty."""
    service.answers = [Answer(status, ())]
    assert await _do(service, direction=direction) == "{}"


async def test_credential_is_sent_with_each_attempt(service: Service) -> None:
    """A key in its header."""
    service.answers = [Answer(503), Answer()]
    credential = HeaderKey("x-functions-key", SecretStr("canary"))
    await RestAgent(service.access(credential=credential)).carry_out(new_call())
    await _do(service)
    keys = [each.headers.get("x-functions-key") for each in service.received]
    assert keys == ["canary", "canary", None]


@pytest.mark.parametrize("status", [300, 304, 307, 400, 401, 404, 409, 410, 422])
async def test_other_statuses_are_refusals(status: int, service: Service) -> None:
    """One call, no redirect; the reason names service and status."""
    service.answers = [Answer(status, (), {"Location": f"{service.address}/elsewhere"})]
    with pytest.raises(StatusRefusedError, match=f"^payment answered {status}$") as refusal:
        await _do(service)
    assert (refusal.value.has_unanswered, refusal.value.status) == (False, status)
    assert [path for _, path, _ in service.requests] == [_PATH]


async def test_refusal_quotes_the_answer_in_part(service: Service) -> None:
    """At most 500 characters of it."""
    service.answers = [Answer(422, ("文".encode() * 9_000,))]
    with pytest.raises(RefusedError) as refusal:
        await _do(service)
    assert str(refusal.value) == "payment answered 422: " + "文" * 500


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<html>", "payment answered no JSON: "),
        (b"\xff", "payment answered no JSON: "),
        (b'{"paid":"\\ud800"}', "payment answered no JSON: "),
        (b"[" * 20_000, "payment answered no JSON: "),
        (b"[1]", "payment answered no JSON object"),
        (b"null", "payment answered no JSON object"),
        (b'{"paid":NaN}', "result.paid has a number that is no finite double"),
        (b'{"a":' + b"[" * 150 + b"]" * 150 + b"}", "result.a is nested deeper"),
        (b'{"a":"' + b"x" * 40_000 + b'"}', "the result has "),
        (b'"' + b"x" * 70_000 + b'"', "payment answered more than 65536 bytes"),
    ],
)
async def test_unusable_answer_of_a_success(
    body: bytes, reason: str, service: Service, *, idempotent: bool
) -> None:
    """The step is done, and is not sent again: the same answer would follow."""
    service.answers = [Answer(pieces=(body,))]
    with pytest.raises(UnusableResultError, match=f"^{reason}"):
        await _do(service, idempotent=idempotent)
    assert len(service.received) == 1


async def test_answer_that_its_model_rejects(service: Service) -> None:
    """The text names the field, and no value; the result of an undo does not matter."""
    service.answers = [saying({"reference": 7, "token": "canary"}), Answer(pieces=(b"OK",))]
    agent = CardAgent(service.access())
    with pytest.raises(UnusableResultError, match=r"^payment: Charge rejects it: reference: ") as error:
        await agent.carry_out(new_call())
    assert "canary" not in str(error.value)
    assert await agent.carry_out(new_call(direction=Direction.UNDO)) == "{}"


async def test_request_that_json_cannot_hold_is_refused(service: Service) -> None:
    """The service is not called."""
    agent = HttpAgent(service.access())
    with pytest.raises(RefusedError, match=r"^request\.amount has a number"):
        await agent.post("charges", {"amount": float("nan")}, new_call())
    assert service.received == []


class BookingAgent(HttpAgent):
    """Books, and reads the confirmation."""

    async def do(self, call: Call) -> Charge:
        """Book."""
        await self.put("booking", call.request, call)
        return await self.read("booking", call, returns=Charge)

    async def undo(self, call: Call) -> None:
        """Cancel, and read the confirmation."""
        await self.do(call)


async def test_only_an_answer_that_is_read_must_be_usable(service: Service) -> None:
    """The second request follows any answer to the first one. An undo is repeated until it is complete."""
    agent, unusable = BookingAgent(service.access()), Answer(pieces=(b"OK",))
    kinds = {Direction.DO: OutcomeKind.DONE_WITHOUT_RESULT, Direction.UNDO: OutcomeKind.UNKNOWN}
    for direction, kind in kinds.items():
        call = new_call(direction=direction)
        service.answers = [unusable, saying({"reference": "C-7", "token": ""}), *[unusable] * 3]
        ended = [(await agent_call.carry_out(agent, call, virtual_now())).kind for _ in range(2)]
        assert ended == [OutcomeKind.DONE, kind]
        answer = await agent.post("booking", {}, call)
        for read in (dict, len, list, lambda it: it["a"], lambda it: it.get("a"), lambda it: {} | it):
            with pytest.raises(UnusableResultError):
                read(answer)
    service.answers = [saying({"paid": True})]
    assert await agent.post("booking", {}, call, returns=dict) == {"paid": True}
    assert len(service.received) == 11


async def test_read_without_a_usable_answer_after_a_change_is_no_refusal(service: Service) -> None:
    """The step is done; before a change it is refused."""
    service.answers = [Answer(201, ()), Answer(404)]
    with pytest.raises(UnusableResultError, match="answered 404"):
        await BookingAgent(service.access()).carry_out(new_call())
    for answer in (Answer(404), saying({})):
        service.answers = [answer]
        with pytest.raises(RefusedError):
            await HttpAgent(service.access()).read("booking", new_call(), returns=Charge)


class _TwoChangesAgent(HttpAgent):
    async def do(self, call: Call) -> None:
        made = await self.post("reservations", call.request, call)
        if made.get("declined"):
            raise RefusedError("declined")
        await self.post("charges", made, call)


async def test_refusal_after_an_accepted_change(service: Service) -> None:
    """Or one without an answer: the request is never rebuilt, or its outcome is unknown."""
    agent, too_large = _TwoChangesAgent(service.access()), [saying({"id": "x" * 40_000})]  # for the second
    for idempotent, expected in ((True, (OutcomeKind.REFUSED, True)), (False, (OutcomeKind.UNKNOWN, False))):
        own = [saying({"declined": True})], (OutcomeKind.REFUSED, False)  # the Agent's own verdict
        given = ([Answer(first, ()), Answer(409)] for first in (201, 503))
        for service.answers, found in (*((each, expected) for each in (*given, too_large)), own):
            outcome = await agent_call.carry_out(agent, new_call(idempotent=idempotent), virtual_now())
            assert (outcome.kind, outcome.has_unanswered) == found


class _ParallelAgent(HttpAgent):
    async def do(self, call: Call) -> None:
        late = asyncio.create_task(self.post("charges", call.request, call))
        await asyncio.sleep(0.05)
        await asyncio.gather(late, self.post("fees", call.request, call))


async def test_refusal_beside_an_unanswered_request_of_a_payment_is_unknown(service: Service) -> None:
    """The request that is under way may take effect."""
    service.answers = [Answer(201, (), seconds=0.5), Answer(409)]
    call = new_call(idempotent=False)
    outcome = await agent_call.carry_out(_ParallelAgent(service.access()), call, virtual_now())
    assert outcome.kind is OutcomeKind.UNKNOWN


# Retries

FAULTS = {
    **{f"{status}": Answer(status) for status in (408, 425, 429, 500, 504, 599)},
    "503 retry": Answer(503, headers={"Retry-After": "0"}),
    "hangs up": Answer(hangs_up=True),
    "cut off": Answer(breaks_off=True),
}
each_fault = pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)


@each_fault
async def test_repeatable_call_is_retried_under_its_key(fault: Answer, service: Service) -> None:
    """With the same body."""
    service.answers = [fault, fault, Answer()]
    assert await _do(service) == PAID
    assert service.requests == [("PUT", _PATH, KEY)] * len(service.received)
    assert len({each.body for each in service.received}) == 1
    assert len(service.received) >= 3


@each_fault
@pytest.mark.parametrize("direction", Direction)
async def test_call_that_must_not_be_repeated_is_sent_once(
    fault: Answer, direction: Direction, service: Service
) -> None:
    """The outcome is unknown."""
    service.answers = [fault, Answer()]
    with pytest.raises(ServiceError):
        await _do(service, idempotent=False, direction=direction)
    assert len(service.received) == 1


@pytest.mark.parametrize(
    ("header", "least"), [("1", 0.95), ("Thu, 01 Jan 2026 00:00:02 GMT", 0.85)], ids=["seconds", "date"]
)
async def test_retry_after_is_obeyed(header: str, least: float, service: Service) -> None:
    """Instead of the backoff."""
    service.answers = [Answer(503, headers={"Retry-After": header}), Answer()]
    start = asyncio.get_running_loop().time()
    await _do(service)
    assert asyncio.get_running_loop().time() - start >= least


async def test_retry_after_beyond_the_deadline_ends_the_call(service: Service) -> None:
    """At once, with the reason."""
    service.answers = [Answer(503, headers={"Retry-After": "3600"})]
    with pytest.raises(ServiceError, match=r"^payment answered 503$"):
        await _do(service)
    assert len(service.received) == 1


@pytest.mark.parametrize("idempotent", [True, False])
async def test_service_that_never_answers_costs_no_more_than_the_deadline(
    service: Service, *, idempotent: bool
) -> None:
    """The outcome is unknown."""
    service.answers = [Answer(hangs=True)]
    call = new_call(0.3, idempotent=idempotent)
    outcome = await agent_call.carry_out(RestAgent(service.access()), call, virtual_now())
    assert (outcome.kind, outcome.text) == (OutcomeKind.UNKNOWN, "ServiceError: payment: TimeoutError")
    assert virtual_now() < call.complete_by
    assert len(service.received) == 1


async def test_call_that_must_not_be_repeated_has_all_of_its_time(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No shorter limit ends it, as it ends an attempt that can be repeated."""
    monkeypatch.setattr(http_agent, "_ATTEMPT_SECONDS", 0.2)
    service.answers = [Answer(seconds=0.8)]
    assert await _do(service, idempotent=False) == PAID
    service.answers = [Answer(seconds=0.8), Answer()]
    assert await _do(service) == PAID
    assert len(service.received) == 3


async def test_step_has_its_own_waits(service: Service) -> None:
    """Instead of those of the settings."""
    service.answers = [Answer(503), Answer()]
    start = asyncio.get_running_loop().time()
    await _do(service, retry=Retry(first=8, longest=8))
    assert asyncio.get_running_loop().time() - start >= 2


class _NoToken:
    async def headers(self) -> dict[str, str]:
        raise NoTokenError("no token for api://pay")


@pytest.mark.parametrize("idempotent", [True, False])
async def test_service_that_was_not_reached_was_not_called(service: Service, *, idempotent: bool) -> None:
    """Neither without a token, nor over a refused connection (both are retried), nor after the deadline."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
        for access in (service.access(address=address), service.access(credential=_NoToken())):
            call = new_call(1, idempotent=idempotent)
            with pytest.raises(NotBegunError):
                await RestAgent(access).carry_out(call)
    with pytest.raises(NotBegunError):
        await _do(service, seconds=-1, idempotent=idempotent)
    assert service.received == []


async def test_refused_connection_after_an_attempt_without_answer_is_unknown(service: Service) -> None:
    """The attempt may have taken effect."""
    service.answers = [Answer(500)]

    class Agent(RestAgent):
        async def do(self, call: Call) -> Mapping[str, object]:
            with pytest.raises(ServiceError):
                await super().do(call)
            self._service = service.access(credential=_NoToken())
            return await super().do(call)

    with pytest.raises(ServiceError, match="no token"):
        await Agent(service.access()).carry_out(new_call(0.5, retry=Retry(first=9, longest=9)))


async def test_each_call_that_must_not_be_repeated_has_its_own_connection(service: Service) -> None:
    """The service may be closing one that was used before."""
    for idempotent in (True, True, False, False):
        await _do(service, idempotent=idempotent)
    first, second, one, two = (request.port for request in service.received)
    assert first == second
    assert len({first, one, two}) == 3


class _MovingResolver(AbstractResolver):
    """Knows no address at first, then a closed port, then the service."""

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
        return [
            ResolveResult(
                hostname=host,
                host="127.0.0.1",
                port=found,
                family=family,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
        ]

    async def close(self) -> None:
        """Hold nothing."""


async def test_call_that_has_not_left_is_retried_even_if_it_must_not_be_repeated(service: Service) -> None:
    """An unknown name and a refused connection are certain."""
    connector = aiohttp.TCPConnector(force_close=True, use_dns_cache=False, resolver=_MovingResolver(service))
    async with new_session(connector) as once:
        access = service.access(address="http://pay.example.com", once=once)
        assert await RestAgent(access).carry_out(new_call(idempotent=False)) == PAID
    assert len(service.received) == 1


@given(attempt=st.integers(1, 10_000), seed=st.integers())
def test_backoff_grows_within_bounds(attempt: int, seed: int) -> None:
    """It doubles up to ten seconds, and no retry is immediate."""

    class State:
        attempt_number = attempt
        outcome = None

    bound = 0.2 * 2 ** (attempt - 1) if attempt < 7 else 10
    wait = http_agent._wait(Retry(), Random(seed), State())  # type: ignore[arg-type]  # noqa: S311 - repeatable
    assert bound / 4 <= wait <= bound


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
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
def test_retry_after_is_read_as_http_has_it(header: str, seconds: float | None) -> None:
    """Seconds or a date (RFC 9110 §10.2.3)."""
    assert retry_after_seconds(header, NOW) == seconds


@given(st.text(st.characters(codec="latin-1")) | st.from_regex(r"\w{3}, \d+ Nov \d+ \d+:\d+:\d+ [+-]?\d+"))
def test_no_header_breaks_the_retries(header: str) -> None:
    """It is a time to wait, or unusable."""
    seconds = retry_after_seconds(header, NOW)
    assert seconds is None or seconds >= 0
