"""Calls one remote service: deadline, retries of transient faults, circuit breaker, size limit."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from http import HTTPStatus
from random import Random, SystemRandom

import aiohttp
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt

from functions.agents.breaker import Breaker, CircuitOpenError
from functions.agents.credentials import Credential
from functions.agents.places import CutOff
from functions.agents.tries import backoff_seconds, retry_after_seconds
from functions.pattern.definition import Json
from functions.pattern.errors import NotSentError, PermanentError, TransientError, UnusableAnswerError
from functions.pattern.identity import EffectKey
from functions.pattern.ports import AgentCall, Ports
from functions.pattern.records import MAX_RESULT_BYTES
from functions.pattern.requests import request_bytes
from functions.pattern.retry import Retry
from functions.pattern.states import FaultKind
from functions.pattern.strict_json import NotJsonError, parse_json
from functions.pattern.texts import excerpt
from functions.telemetry.fields import Field
from functions.telemetry.instruments import RETRIES
from functions.telemetry.spans import call_span

_ATTEMPT_SECONDS = 10
_ATTEMPT_TIMEOUT = aiohttp.ClientTimeout(total=_ATTEMPT_SECONDS, ceil_threshold=60)  # else it is rounded up
#: Of what is sent once: connecting may be tried again, but an answer is awaited until complete-by.
_ONCE_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10)

_log = logging.getLogger(__name__)


class RemoteService:
    """One remote service, reached below one address that comes from the settings.

    Redirects are not followed. Answers of 408, 425, 429 and 5xx, timeouts and lost connections are
    transient: they are retried until complete-by, and counted by the circuit breaker; while the circuit is
    open, there is no retry. A call that is cut off at complete-by, because it began with too little time left
    for it, is no failure of the service. Any other answer that is not 2xx is a refusal, and permanent.

    What is not idempotent is sent once: it is tried again only while no request can have left (connection
    refused, no token, circuit open), and has until complete-by for its answer.
    """

    def __init__(
        self,
        name: str,
        address: str,
        ports: Ports,
        *,
        credential: Credential | None = None,
        session: Callable[[], aiohttp.ClientSession],
        once_session: Callable[[], aiohttp.ClientSession],
        breaker: Breaker,
        retry: Retry | None = None,
        random: Random | None = None,
    ) -> None:
        self._name = name
        self._retry = retry or Retry()
        self._address = address.rstrip("/")
        self._credential = credential
        self._session = session
        #: Its connections are never used twice: a request never meets one that the service is closing.
        self._once_session = once_session
        self._breaker = breaker
        self._clock = ports.clock
        self._random = random or SystemRandom()

    async def get(self, resource: str, complete_by: datetime, complete_within: float | None = None) -> Json:
        """Read the resource; `complete_within` (seconds) is the step's own time. Raises as `put` does."""
        attempt = partial(self._attempt, "GET", resource, b"", None)
        fair = _fair_seconds(complete_within, once=False)
        return await self._call(attempt, complete_by, _is_worth_a_retry, fair=fair)

    async def put(self, resource: str, body: Json, call: AgentCall) -> Json:
        """Create or replace the resource under the call's effect key; return the answer's JSON.

        Raises `PermanentError` on refusal, and `TransientError` when the service still fails at complete-by:
        at once if an idempotent call's circuit is open, or if another call's one request has failed.
        """
        return await self._change("PUT", resource, request_bytes(body), call)

    async def post(self, collection: str, body: Json, call: AgentCall) -> Json:
        """Add to a collection whose service goes by the call's effect key alone; otherwise as `put`."""
        return await self._change("POST", collection, request_bytes(body), call)

    async def delete(self, resource: str, call: AgentCall) -> None:
        """Undo the resource under the call's effect key, also a missing one. Raises as `put` does."""
        try:
            await self._change("DELETE", resource, b"", call)
        except PermanentError as refusal:
            if refusal.status not in {HTTPStatus.NOT_FOUND, HTTPStatus.GONE}:
                raise

    async def _change(self, method: str, resource: str, content: bytes, call: AgentCall) -> Json:
        once = not call.idempotent
        attempt = partial(self._attempt, method, resource, content, call.effect_key, once=once)
        again = _has_not_left if once else _is_worth_a_retry
        fair = _fair_seconds(call.complete_within, once=once)
        until, failed, retry = call.complete_by, call.failed, call.retry
        return await self._call(attempt, until, again, fair=fair, failed=failed, retry=retry, once=once)

    async def _call(
        self,
        attempt: Callable[[Mapping[str, str]], Awaitable[Json]],
        complete_by: datetime,
        again: Callable[[BaseException], bool],
        *,
        fair: float,
        failed: Callable[[Exception], Awaitable[None]] | None = None,
        retry: Retry | None = None,
        once: bool = False,
    ) -> Json:
        retry = retry or self._retry
        cut_off = partial(_cut_off, complete_by, once)
        late = f"{self._name} did not do it by complete-by"
        seconds = (complete_by - self._clock.now()).total_seconds()
        if seconds <= 0:  # the service is not called, and its circuit counts no failure
            raise TransientError(late)
        last: list[Exception] = []

        async def before_sleep(state: RetryCallState) -> None:
            fault = _fault_of(state)
            RETRIES.add(1, {Field.SERVICE: self._name})
            text = "%s; attempt %d follows in %.1f s"
            _log.warning(text, fault, state.attempt_number + 1, state.upcoming_sleep)
            if isinstance(fault, Exception):
                last[:] = [fault]
                if failed is not None:
                    await failed(fault)

        retrying = AsyncRetrying(
            retry=retry_if_exception(lambda it: again(it) and retry.is_worth_it(getattr(it, "fault", None))),
            stop=stop_after_attempt(retry.attempts),
            wait=partial(self._wait, retry),
            before_sleep=before_sleep,
            reraise=True,
        )
        try:
            async with asyncio.timeout(seconds) as limit:
                return await retrying(self._call_once, attempt, limit, cut_off, fair)
        except TimeoutError:
            raise TransientError(f"{late}{''.join(f' ({fault})' for fault in last)}") from None

    async def _call_once(
        self,
        attempt: Callable[[Mapping[str, str]], Awaitable[Json]],
        limit: asyncio.Timeout,
        cut_off: CutOff,
        fair: float,
    ) -> Json:
        """Call through the breaker, which counts no failure of whoever issues tokens.

        An answer ends the time limit: it is not lost while the breaker's row is written.
        """
        shown = {} if self._credential is None else await self._credential.headers()

        async def answered() -> Json:
            try:
                answer = await attempt(shown)
            except PermanentError:
                limit.reschedule(None)
                raise
            limit.reschedule(None)
            return answer

        return await self._breaker.call(answered, cut_off, fair=fair)

    async def _attempt(
        self,
        method: str,
        resource: str,
        content: bytes,
        key: EffectKey | None,
        shown: Mapping[str, str],
        *,
        once: bool = False,
    ) -> Json:
        headers = {"Content-Type": "application/json", **shown}
        if key is not None:
            headers["Idempotency-Key"] = key
        try:
            with call_span(self._name, method) as span:
                session = self._once_session() if once else self._session()
                request = session.request(
                    method,
                    f"{self._address}/{resource}",
                    data=content,
                    headers=headers | span.headers,
                    allow_redirects=False,
                    timeout=_ONCE_TIMEOUT if once else _ATTEMPT_TIMEOUT,
                    middlewares=(self._send_once,) if once else (),
                )
                async with request as answer:
                    span.answered(answer.status)
                    body = await _body_of(answer)
            return self._read(answer, body)
        except (aiohttp.ClientError, OSError) as error:
            raise self._no_answer(error) from error

    async def _send_once(
        self, request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Keep aiohttp from sending it again: it repeats a PUT or DELETE whose connection was lost."""
        try:
            return await send(request)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise NotSentError(f"{self._name}: {type(error).__name__}", fault=FaultKind.NO_ANSWER) from error
        except (aiohttp.ClientError, OSError) as error:
            raise self._no_answer(error) from error

    def _no_answer(self, error: Exception) -> TransientError:
        return TransientError(f"{self._name}: {type(error).__name__}", fault=FaultKind.NO_ANSWER)

    def _read(self, answer: aiohttp.ClientResponse, body: bytes) -> Json:
        is_busy = answer.status in {408, 425, 429}
        if is_busy or answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            retry_after = retry_after_seconds(answer.headers.get("Retry-After"), self._clock.now())
            kind = FaultKind.BUSY if is_busy else FaultKind.SERVER_ERROR
            text = f"{self._name} answered {answer.status}"
            raise TransientError(text, retry_after=retry_after, fault=kind)
        if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
            said = excerpt(body)
            text = f"{self._name} answered {answer.status}{said and f': {said}'}"
            raise PermanentError(text, status=answer.status)
        if len(body) > MAX_RESULT_BYTES:
            raise UnusableAnswerError(f"{self._name} answered more than {MAX_RESULT_BYTES} bytes")
        try:
            parsed = parse_json(body) if body else {}
        except NotJsonError as fault:
            raise UnusableAnswerError(f"{self._name} answered what can't be used: {fault}") from None
        if not isinstance(parsed, dict):
            raise UnusableAnswerError(f"{self._name} answered what is not a JSON object")
        return parsed

    def _wait(self, retry: Retry, state: RetryCallState) -> float:
        fault = _fault_of(state)
        asked = fault.retry_after if isinstance(fault, TransientError) else None
        own = backoff_seconds(state.attempt_number, self._random, retry)
        if isinstance(fault, CircuitOpenError):  # a little later, since one call alone will be let through
            return own + (asked or 0)
        return own if asked is None else asked


def _fair_seconds(complete_within: float | None, *, once: bool) -> float:
    """Give the time that a call must have for its cut-off to count; 0 where the step's is not known."""
    if complete_within is None:
        return 0
    return 0.9 * (complete_within if once else min(complete_within, _ATTEMPT_SECONDS))


def _cut_off(complete_by: datetime, once: bool, now: datetime) -> datetime:  # noqa: FBT001 - bound beforehand
    return complete_by if once else min(complete_by, now + timedelta(seconds=_ATTEMPT_SECONDS))


def _fault_of(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None


def _is_worth_a_retry(fault: BaseException) -> bool:
    return isinstance(fault, TransientError) and not isinstance(fault, CircuitOpenError)


def _has_not_left(fault: BaseException) -> bool:
    return isinstance(fault, NotSentError)


async def _body_of(answer: aiohttp.ClientResponse) -> bytes:
    """Read the body, but not much more of it than a result may hold."""
    body = b""
    async for piece in answer.content.iter_any():
        body += piece
        if len(body) > MAX_RESULT_BYTES:
            break
    return body
