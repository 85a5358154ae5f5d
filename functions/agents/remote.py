"""Calls one remote service: deadline, retries of transient faults, circuit breaker, size limit."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from http import HTTPStatus
from random import Random, SystemRandom

import aiohttp
from pydantic_core import from_json
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt

from functions.agents.breaker import Breaker, CircuitOpenError
from functions.agents.credentials import Credential
from functions.pattern.definition import Json
from functions.pattern.errors import PermanentError, TransientError
from functions.pattern.identity import EffectKey
from functions.pattern.ports import Ports
from functions.pattern.records import MAX_RESULT_BYTES
from functions.pattern.requests import request_bytes
from functions.telemetry.fields import Field
from functions.telemetry.http import call_span
from functions.telemetry.instruments import RETRIES

_MOST_ATTEMPTS = 100
#: Seconds: the bound of the first wait, and of the longest.
_FIRST_WAIT, _LONGEST_WAIT = 0.2, 10.0
_MOST_DOUBLINGS = 16
_ATTEMPT_TIMEOUT = aiohttp.ClientTimeout(total=10)
_TRANSIENT_STATUSES = frozenset({408, 425, 429})
_NOTHING_THERE = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.GONE})

_log = logging.getLogger(__name__)


class RemoteService:
    """One remote service, reached below one address that comes from the settings.

    Redirects are not followed. Answers of 408, 425, 429 and 5xx, timeouts and lost connections are
    transient: they are retried until complete-by, and counted by the circuit breaker; while the circuit is
    open, there is no retry. Any other answer that is not 2xx is a refusal, and permanent.
    """

    def __init__(
        self,
        name: str,
        address: str,
        ports: Ports,
        *,
        credential: Credential | None = None,
        session: Callable[[], aiohttp.ClientSession],
        breaker: Breaker,
        random: Random | None = None,
    ) -> None:
        self._name = name
        self._address = address.rstrip("/")
        self._credential = credential
        self._session = session
        self._breaker = breaker
        self._clock = ports.clock
        self._random = random or SystemRandom()

    async def get(self, resource: str, complete_by: datetime) -> Json:
        """Read the resource, which needs no idempotency key; give the answer's JSON. Raises as `put` does."""
        return await self._call("GET", resource, b"", None, complete_by)

    async def put(self, resource: str, body: Json, key: EffectKey, complete_by: datetime) -> Json:
        """Create or replace the resource under idempotency key `key`; give the answer's JSON.

        `resource` is a task id, so it needs no quoting. Raises `PermanentError` on refusal, and
        `TransientError` when the service still fails at `complete_by`, or at once (as `CircuitOpenError`)
        when its circuit is open.
        """
        return await self._call("PUT", resource, request_bytes(body), key, complete_by)

    async def delete(self, resource: str, key: EffectKey, complete_by: datetime) -> None:
        """Undo the resource under idempotency key `key`; one that does not exist counts as undone.

        Raises as `put` does.
        """
        try:
            await self._call("DELETE", resource, b"", key, complete_by)
        except PermanentError as refusal:
            if refusal.status not in _NOTHING_THERE:
                raise

    async def _call(
        self, method: str, resource: str, content: bytes, key: EffectKey | None, complete_by: datetime
    ) -> Json:
        late = TransientError(f"{self._name} did not do it by complete-by")
        seconds = (complete_by - self._clock.now()).total_seconds()
        if seconds <= 0:  # the service is not called, and its circuit counts no failure
            raise late
        attempt = partial(self._attempt, method, f"{self._address}/{resource}", content, key)
        retrying = AsyncRetrying(
            retry=retry_if_exception(_is_worth_a_retry),
            stop=stop_after_attempt(_MOST_ATTEMPTS),
            wait=self._wait,
            before_sleep=self._log_retry,
            reraise=True,
        )
        try:
            async with asyncio.timeout(seconds):
                return await retrying(self._call_once, attempt)
        except TimeoutError:
            raise late from None

    async def _call_once(self, attempt: Callable[[Mapping[str, str]], Awaitable[Json]]) -> Json:
        """Call through the breaker, which counts no failure of whoever issues tokens."""
        shown = {} if self._credential is None else await self._credential.headers()
        return await self._breaker.call(partial(attempt, shown))

    async def _attempt(
        self, method: str, url: str, content: bytes, key: EffectKey | None, shown: Mapping[str, str]
    ) -> Json:
        headers = {"Content-Type": "application/json", **shown}
        if key is not None:
            headers["Idempotency-Key"] = key
        try:
            with call_span(self._name, method) as span:
                request = self._session().request(
                    method,
                    url,
                    data=content,
                    headers=headers | span.headers,
                    allow_redirects=False,
                    timeout=_ATTEMPT_TIMEOUT,
                )
                async with request as answer:
                    span.answered(answer.status)
                    body = await _body_of(answer)
            return self._read(answer, body)
        except (aiohttp.ClientError, OSError) as error:
            raise TransientError(f"{self._name}: {type(error).__name__}") from error

    def _read(self, answer: aiohttp.ClientResponse, body: bytes) -> Json:
        if answer.status in _TRANSIENT_STATUSES or answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            retry_after = retry_after_seconds(answer.headers.get("Retry-After"), self._clock.now())
            raise TransientError(f"{self._name} answered {answer.status}", retry_after=retry_after)
        if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
            raise PermanentError(f"{self._name} answered {answer.status}", status=answer.status)
        if len(body) > MAX_RESULT_BYTES:
            raise PermanentError(f"{self._name} answered more than {MAX_RESULT_BYTES} bytes")
        try:
            parsed = from_json(body, allow_inf_nan=False) if body else {}
        except ValueError:
            raise PermanentError(f"{self._name} answered what is not JSON") from None
        if not isinstance(parsed, dict):
            raise PermanentError(f"{self._name} answered what is not a JSON object")
        return parsed

    def _wait(self, state: RetryCallState) -> float:
        fault = state.outcome.exception() if state.outcome else None
        asked = fault.retry_after if isinstance(fault, TransientError) else None
        return asked if asked is not None else backoff_seconds(state.attempt_number, self._random)

    def _log_retry(self, state: RetryCallState) -> None:
        RETRIES.add(1, {Field.SERVICE: self._name})
        fault = state.outcome.exception() if state.outcome else None
        _log.warning(
            "%s; attempt %d follows in %.1f s", fault, state.attempt_number + 1, state.upcoming_sleep
        )


def _is_worth_a_retry(fault: BaseException) -> bool:
    return isinstance(fault, TransientError) and not isinstance(fault, CircuitOpenError)


async def _body_of(answer: aiohttp.ClientResponse) -> bytes:
    """Read the body, but not much more of it than a result may hold."""
    body = b""
    async for piece in answer.content.iter_any():
        body += piece
        if len(body) > MAX_RESULT_BYTES:
            break
    return body


def backoff_seconds(attempt: int, random: Random) -> float:
    """Give the wait after failed attempt `attempt` (from 1): exponential, with jitter.

    Source: Amazon Builders' Library, "Timeouts, retries and backoff with jitter". At least a quarter of the
    bound is waited, so that retries are never immediate.
    """
    bound = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(attempt - 1, _MOST_DOUBLINGS))
    return bound / 4 + random.random() * bound * 3 / 4


def retry_after_seconds(header: str | None, now: datetime) -> float | None:
    """Read a `Retry-After` header (RFC 9110 §10.2.3): seconds or an HTTP date; None when unusable."""
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header)
    try:
        at = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - now).total_seconds())
