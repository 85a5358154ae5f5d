"""Calls one remote service: deadline, retries of transient faults, circuit breaker, size limit."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from http import HTTPStatus
from random import Random
from typing import Literal

import aiohttp
from pydantic import SecretStr
from pydantic_core import from_json
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
)

from functions.agents.breaker import Breaker, ServiceLeftAloneError
from functions.agents.retries import backoff_seconds, retry_after_seconds
from functions.pattern.definition import Json
from functions.pattern.errors import PermanentError, TransientError
from functions.pattern.identity import EffectKey
from functions.pattern.ports import Clock
from functions.pattern.records import MAX_RESULT_BYTES
from functions.telemetry.fields import Field
from functions.telemetry.http import call_span
from functions.telemetry.instruments import RETRIES

_MOST_ATTEMPTS = 100
_ATTEMPT_TIMEOUT = aiohttp.ClientTimeout(total=10)
_TRANSIENT_STATUSES = frozenset({408, 425, 429})
_SERVER_ERRORS = 500
_REFUSALS = 300
#: Where a service on Azure Functions looks for its key; others can be told to.
_KEY_HEADER = "x-functions-key"
_NOTHING_THERE = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.GONE})

Attempt = Callable[[], Awaitable[Json]]

_log = logging.getLogger(__name__)


class RemoteService:
    """One remote service, reached below one address that comes from the settings.

    Redirects are not followed. Answers of 408, 425, 429 and 5xx, timeouts and lost connections are
    transient: they are tried again until complete-by, and counted by the circuit breaker; once that is
    open, nothing is tried again. Any other answer that is not 2xx is a refusal, for good.
    """

    def __init__(
        self,
        name: str,
        address: str,
        *,
        key: SecretStr | None = None,
        session: Callable[[], aiohttp.ClientSession],
        breaker: Breaker,
        clock: Clock,
        random: Random,
    ) -> None:
        self._name = name
        self._address = address.rstrip("/")
        self._key = {} if key is None else {_KEY_HEADER: key.get_secret_value()}
        self._session = session
        self._breaker = breaker
        self._clock = clock
        self._random = random

    async def get(self, resource: str, complete_by: datetime) -> Json:
        """Read the resource, which needs no idempotency key; give the answer's JSON. Raises as `put` does."""

        async def attempt() -> Json:
            return await self._attempt("GET", resource, b"", None)

        return await self._persist(attempt, complete_by)

    async def put(self, resource: str, body: Json, key: EffectKey, complete_by: datetime) -> Json:
        """Make the resource be as `body` says, under idempotency key `key`; give the answer's JSON.

        `resource` is a task id, so it needs no quoting. Raises `PermanentError` on refusal, and
        `TransientError` when the service still fails at `complete_by`, or at once (as
        `ServiceLeftAloneError`) when its breaker is open.
        """
        content = json.dumps(body).encode()

        async def attempt() -> Json:
            return await self._attempt("PUT", resource, content, key)

        return await self._persist(attempt, complete_by)

    async def delete(self, resource: str, key: EffectKey, complete_by: datetime) -> None:
        """Undo the resource, under idempotency key `key`; one that is not there counts as undone.

        Raises as `put` does.
        """

        async def attempt() -> Json:
            try:
                return await self._attempt("DELETE", resource, b"", key)
            except PermanentError as refusal:
                if refusal.status in _NOTHING_THERE:
                    return {}
                raise

        await self._persist(attempt, complete_by)

    async def _persist(self, attempt: Attempt, complete_by: datetime) -> Json:
        late = TransientError(f"{self._name} did not do it by complete-by")
        seconds = (complete_by - self._clock.now()).total_seconds()
        if seconds <= 0:  # nothing is asked of the service any more, nor is that held against it
            raise late
        retrying = AsyncRetrying(
            retry=retry_if_exception(_is_worth_another_try),
            stop=stop_after_attempt(_MOST_ATTEMPTS),
            wait=self._wait,
            before_sleep=self._say_again,
            reraise=True,
        )
        try:
            async with asyncio.timeout(seconds):
                return await retrying(self._breaker.call, attempt)
        except TimeoutError:
            raise late from None

    async def _attempt(
        self, method: Literal["GET", "PUT", "DELETE"], resource: str, content: bytes, key: EffectKey | None
    ) -> Json:
        url = f"{self._address}/{resource}"
        idempotency = {"Idempotency-Key": key} if key else {}
        headers = {"Content-Type": "application/json", **self._key, **idempotency}
        try:
            with call_span(self._name, method) as span:
                headers |= span.headers
                async with self._session().request(
                    method,
                    url,
                    data=content,
                    headers=headers,
                    allow_redirects=False,
                    timeout=_ATTEMPT_TIMEOUT,
                ) as answer:
                    span.answered(answer.status)
                    body = await _body_of(answer)
            return self._read(answer, body)
        except (aiohttp.ClientError, OSError) as error:
            raise TransientError(f"{self._name}: {type(error).__name__}") from error

    def _read(self, answer: aiohttp.ClientResponse, body: bytes) -> Json:
        if answer.status in _TRANSIENT_STATUSES or answer.status >= _SERVER_ERRORS:
            retry_after = retry_after_seconds(answer.headers.get("Retry-After"), self._clock.now())
            raise TransientError(f"{self._name} answered {answer.status}", retry_after=retry_after)
        if answer.status >= _REFUSALS:
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

    def _say_again(self, state: RetryCallState) -> None:
        RETRIES.add(1, {Field.SERVICE: self._name})
        fault = state.outcome.exception() if state.outcome else None
        _log.warning(
            "%s; attempt %d follows in %.1f s", fault, state.attempt_number + 1, state.upcoming_sleep
        )


def _is_worth_another_try(fault: BaseException) -> bool:
    return isinstance(fault, TransientError) and not isinstance(fault, ServiceLeftAloneError)


async def _body_of(answer: aiohttp.ClientResponse) -> bytes:
    """Read the body, but little more of it than a result may hold."""
    body = b""
    async for piece in answer.content.iter_any():
        body += piece
        if len(body) > MAX_RESULT_BYTES:
            break
    return body
