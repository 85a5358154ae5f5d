"""Agents that call remote services over HTTP, with a deadline and retries. Times are UTC.

`HttpAgent` is the base class of an Agent of one's own. `RestAgent` serves the steps without one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from http import HTTPStatus
from random import Random, SystemRandom
from typing import Any, NoReturn

import aiohttp
from pydantic import BaseModel, Secret, SecretBytes, SecretStr, ValidationError
from pydantic_core import from_json, to_jsonable_python
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception

from functions.agents import agent_call
from functions.agents.agent_call import Call, Changes, NotBegunError, RefusedError, UnusableResultError
from functions.core.definition.step_definition import Retry
from functions.core.error_texts import error_text
from functions.core.json_values import UnfitValueError, json_text
from functions.core.record import Direction
from functions.http.destinations import is_traced
from functions.messaging.agent_messages import Finding
from functions.service_credentials import Credential, NoTokenError
from functions.telemetry.instruments import RETRIES, Field
from functions.telemetry.spans import call_span, current_traceparent, record_status, trace_headers

#: The names for authors of Agents.
__all__ = ["Call", "Found", "HttpAgent", "RestAgent", "content_of", "resource_of"]

_log = logging.getLogger(__name__)

#: Seconds of one attempt that may be repeated.
_ATTEMPT_SECONDS = 10.0
#: Seconds before the deadline in which the outcome is recorded.
_RECORD_SECONDS = 0.1
_MOST_ANSWER_BYTES = 64 * 1024
#: Characters of an answer in an error text.
_MOST_EXCERPT = 500

#: A request: JSON, or a dict that JSON can hold.
type Body = str | Mapping[str, object]


class ServiceError(Exception):
    """The service failed or did not answer by the deadline. The outcome is unknown."""


class StatusRefusedError(RefusedError):
    """The service answered with a status that no retry changes."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class _UnusableAnswer(Mapping[str, Any]):
    """An answer that cannot be used: an Agent that reads it in any way raises `error`."""

    def __init__(self, error: UnusableResultError) -> None:
        self.error = error

    def _raise(self, *_: object) -> NoReturn:
        raise self.error

    __getitem__ = __iter__ = __len__ = __or__ = __ror__ = _raise


class _FailedAttemptError(Exception):
    """One attempt failed transiently. With `may_have_arrived`, the service may have received the request."""

    may_have_arrived = False

    def __init__(self, text: str, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Found[R](agent_call.LookUpAnswer):
    """The answer of a look-up; `value` is the result if the step was done."""

    value: R | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteService:
    """The access to one remote service below `address`.

    Connections of `once_session` are used for one request. Requests of a session that `new_session` did not
    make count as sent, even if they fail to connect. `retry` applies to calls without their own.
    """

    name: str
    address: str
    now: Callable[[], datetime]
    session: Callable[[], aiohttp.ClientSession]
    once_session: Callable[[], aiohttp.ClientSession]
    credential: Credential | None = None
    retry: Retry = field(default_factory=Retry)
    random: Random = field(default_factory=SystemRandom)


class _Sending:
    """One request. It `has_left` once its first byte may be sent. A change is then unanswered until `end`."""

    def __init__(self, service: RemoteService, changes: Changes, *, is_change: bool, is_once: bool) -> None:
        self.session = service.once_session() if is_once else service.session()
        self.is_once, self.has_left = is_once, False
        self._changes, self._is_change = changes, is_change
        if not is_traced(self.session):
            self.leave()

    def leave(self) -> None:
        """Record that the request leaves."""
        if self._is_change and not self.has_left:
            self._changes.unanswered += 1
        self.has_left = True

    def end(self) -> None:
        """Record that the request has a clear answer."""
        if self._is_change:
            self._changes.unanswered -= 1


class HttpAgent:
    """Wraps one remote service. A subclass defines `do`, and `undo` and `find` where the service can.

    The methods `post`, `put` and `delete` send the effect key as `Idempotency-Key`. 408, 425, 429, 5xx and
    lost connections are retried until the deadline; `Retry-After` is obeyed. A call that is not `idempotent`
    is retried only as long as no request can have left. Redirects are not followed.

    The methods raise `RefusedError` (`StatusRefusedError` for a status), `NotBegunError` if nothing was sent,
    `ServiceError`, and `UnusableResultError` for an unusable answer, without `returns` when it is read. If a
    request was accepted and a later one refused, the outcome of a call that is not `idempotent` is unknown.
    """

    #: After "not done" of `find`, the service rejects every earlier request of this start.
    fences_starts: bool = False

    def __init__(self, service: RemoteService) -> None:
        self._service = service

    async def do(self, call: Call) -> BaseModel | Mapping[str, Any] | None:
        """Do the step; return its result."""
        raise NotImplementedError

    async def undo(self, call: Call) -> None:  # noqa: ARG002 - for subclasses
        """Undo the step, done or not, and prevent that a late request does it."""
        raise RefusedError("its Agent cannot undo")

    async def find(self, call: Call) -> agent_call.LookUpAnswer:  # noqa: ARG002 - for subclasses
        """Look up whether the step was done."""
        return Found[Any](Finding.UNKNOWN)

    async def carry_out(self, call: Call) -> str:
        """Do or undo a step; return the result as JSON."""
        changes = call.changes
        try:
            if call.direction is Direction.DO:
                return _result_text(await self.do(call))
            await self.undo(call)
        except RefusedError as error:
            is_later = changes.is_accepted and isinstance(error, StatusRefusedError)
            error.has_unanswered |= changes.open > 0 or changes.unanswered > 0 or is_later
            raise
        except (NotBegunError, UnusableResultError) as error:
            is_pending = changes.open > 0 or changes.unanswered > 0
            if is_pending or (isinstance(error, NotBegunError) and changes.is_accepted):
                raise ServiceError(str(error)) from None
            raise
        except asyncio.CancelledError:
            if changes.is_cut_off and not changes.has_begun:
                raise agent_call.NothingSentError from None
            raise
        return "{}"

    async def post[R: BaseModel | dict[str, Any] = dict[str, Any]](
        self, path: str, json: Body, call: Call, *, returns: type[R] | None = None
    ) -> R:
        """Send `POST`; return the answer, `{}` if it is empty."""
        answer: R = await self._change("POST", path, json, call, returns)
        return answer

    async def put[R: BaseModel | dict[str, Any] = dict[str, Any]](
        self, path: str, json: Body, call: Call, *, returns: type[R] | None = None
    ) -> R:
        """Send `PUT`; return the answer, `{}` if it is empty."""
        answer: R = await self._change("PUT", path, json, call, returns)
        return answer

    async def delete(self, path: str, call: Call) -> None:
        """Send `DELETE`; 404 and 410 are successes."""
        try:
            await self._change("DELETE", path, "", call)
        except StatusRefusedError as error:
            if error.status not in {HTTPStatus.NOT_FOUND, HTTPStatus.GONE}:
                raise

    async def read[R: BaseModel](self, path: str, call: Call, *, returns: type[R]) -> R:
        """Send `GET` in `do` for data that the step needs, and return the answer.

        Without a usable answer the step is refused; after a change it is done without a usable result.
        """
        try:
            answer: R = self._parsed(await self._send("GET", path, b"", call), returns)
        except (RefusedError, UnusableResultError) as error:
            if call.changes.is_accepted:
                raise UnusableResultError(str(error)) from None
            if isinstance(error, RefusedError):
                raise
            raise RefusedError(str(error)) from None
        return answer

    async def get[R: BaseModel](self, path: str, call: Call, *, returns: type[R]) -> Found[R]:
        """Send `GET` in `find`, and return whether the step was done (2xx) or not done (404).

        Raises an error for any other answer.
        """
        try:
            answer: R = self._parsed(await self._send("GET", path, b"", call), returns)
        except StatusRefusedError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return Found(Finding.NOT_DONE)
        return Found(Finding.DONE, _result_text(answer), answer)

    async def _change(
        self, method: str, path: str, json: Body, call: Call, returns: type[Any] | None = None
    ) -> Any:
        """Send a request that changes something; return its answer."""
        try:
            text = json if isinstance(json, str) else json_text("request", dict(json))
        except UnfitValueError as error:
            raise RefusedError(str(error), has_unanswered=call.changes.is_accepted) from None
        content = await self._send(method, path, text.encode(), call)
        call.changes.is_accepted = True
        try:
            return self._parsed(content, None if returns is dict else returns)
        except UnusableResultError as error:
            if returns is not None:
                raise
            return _UnusableAnswer(error)

    async def _send(self, method: str, path: str, body: bytes, call: Call) -> bytes:
        """Send a request until it has a clear answer; return the body of a success."""
        service, changes = self._service, call.changes
        is_change = method != "GET"
        may_repeat = call.idempotent or not is_change

        is_any_sent = False

        async def attempt() -> bytes:
            nonlocal is_any_sent
            sending = _Sending(service, changes, is_change=is_change, is_once=not may_repeat)
            try:
                answer = await self._attempt(method, path, body, call, sending)
            except RefusedError:
                sending.end()
                raise
            except _FailedAttemptError as error:
                error.may_have_arrived = sending.has_left
                raise
            finally:
                is_any_sent = is_any_sent or sending.has_left
            sending.end()
            return answer

        attempts = AsyncRetrying(
            retry=retry_if_exception(
                lambda error: (
                    isinstance(error, _FailedAttemptError) and (may_repeat or not error.may_have_arrived)
                )
            ),
            wait=partial(_wait, call.retry or service.retry, service.random),
            stop=lambda state: state.upcoming_sleep >= self._seconds_left(call),
            before_sleep=partial(_log_retry, service.name),
            reraise=True,
        )
        if is_change:
            changes.open += 1
        try:
            return await attempts(attempt)
        except asyncio.CancelledError:
            changes.is_cut_off = True
            if is_any_sent and not is_change:
                changes.unanswered += 1
            raise
        except _FailedAttemptError as error:
            if is_any_sent or changes.unanswered or changes.is_accepted:
                raise ServiceError(str(error)) from None
            raise NotBegunError(str(error)) from None
        finally:
            if is_change:
                changes.open -= 1

    async def _attempt(self, method: str, path: str, body: bytes, call: Call, sending: _Sending) -> bytes:
        """Send a request once, one that must not be repeated with all of the time left."""
        service, is_once = self._service, sending.is_once
        headers = {"Content-Type": "application/json"}
        if method != "GET":
            headers["Idempotency-Key"] = call.effect_key
        try:
            headers |= {} if service.credential is None else await service.credential.headers()
        except NoTokenError as error:
            raise _FailedAttemptError(f"{service.name}: {error}") from error
        left = self._seconds_left(call)
        if left <= 0:
            raise _FailedAttemptError(f"{service.name}: the deadline has passed")
        timeout = aiohttp.ClientTimeout(
            total=left if is_once else min(left, _ATTEMPT_SECONDS),
            sock_connect=5,
            ceil_threshold=60,  # aiohttp rounds longer times up to full seconds
        )
        try:
            with call_span(service.name, method) as span:
                request = sending.session.request(
                    method,
                    f"{service.address.rstrip('/')}/{path.lstrip('/')}",
                    data=body,
                    headers=headers | trace_headers(current_traceparent()),
                    allow_redirects=False,
                    timeout=timeout,
                    trace_request_ctx=sending.leave,
                    middlewares=(self._send_once,),
                )
                async with request as answer:
                    record_status(span, answer.status)
                    content = await _content_of(answer)
        except (aiohttp.ClientError, OSError) as error:
            raise self._no_answer(error) from error
        self._check_status(answer, content)
        return content

    async def _send_once(
        self, request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Convert lost connections: aiohttp repeats `PUT` and `DELETE` after its own errors."""
        try:
            return await send(request)
        except (aiohttp.ClientError, OSError) as error:
            raise self._no_answer(error) from error

    def _no_answer(self, error: Exception) -> _FailedAttemptError:
        return _FailedAttemptError(f"{self._service.name}: {type(error).__name__}")

    def _check_status(self, answer: aiohttp.ClientResponse, content: bytes) -> None:
        status, text = answer.status, f"{self._service.name} answered {answer.status}"
        if status in {408, 425, 429} or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            retry_after = retry_after_seconds(answer.headers.get("Retry-After", ""), self._service.now())
            raise _FailedAttemptError(text, retry_after)
        if status >= HTTPStatus.MULTIPLE_CHOICES:
            excerpt = content[: 4 * _MOST_EXCERPT].decode(errors="replace")[:_MOST_EXCERPT]
            raise StatusRefusedError(f"{text}: {excerpt}" if excerpt else text, status)

    def _parsed(self, content: bytes, model: type[Any] | None) -> Any:
        """Return an answer as its model, without a model as a dict. Raises `UnusableResultError`."""
        name = self._service.name
        if len(content) > _MOST_ANSWER_BYTES:
            raise UnusableResultError(f"{name} answered more than {_MOST_ANSWER_BYTES} bytes")
        content = content or b"{}"
        try:
            answer = from_json(content) if model is None else model.model_validate_json(content)
        except ValidationError as error:
            raise UnusableResultError(f"{name}: {error_text(error)}") from None
        except ValueError as error:
            raise UnusableResultError(f"{name} answered no JSON: {error}") from None
        if model is None and not isinstance(answer, dict):
            raise UnusableResultError(f"{name} answered no JSON object")
        return answer

    def _seconds_left(self, call: Call) -> float:
        """Return the seconds in which the service must have answered."""
        return (call.complete_by - self._service.now()).total_seconds() - _RECORD_SECONDS


class RestAgent(HttpAgent):
    """Sends the request as `PUT {url}/{task}.{run id}`, and an undo as `DELETE`, which leaves a tombstone."""

    async def do(self, call: Call) -> Mapping[str, Any]:
        """Create the resource of the task or of its item."""
        return await self.put(resource_of(call), call.request, call)

    async def undo(self, call: Call) -> None:
        """Delete the resource, and prevent that a late request creates it."""
        await self.delete(resource_of(call), call)


def resource_of(call: Call) -> str:
    """Return the name of a task's resource at a service: `{task}.{run id}`, of an item `….{item}`."""
    resource, item = call.effect_key.partition("/")[0], call.step.partition(".")[2]
    return f"{resource}.{item}" if item else resource


def content_of(call: Call) -> dict[str, Any]:
    """Return the request of a call as a dict."""
    content: dict[str, Any] = from_json(call.request)
    return content


def retry_after_seconds(header: str, now: datetime) -> float | None:
    """Return the seconds of a `Retry-After` header (RFC 9110 §10.2.3), None if it is unusable."""
    if header.strip().isdecimal():
        return float(header.strip())
    try:
        at = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - now).total_seconds())


def _wait(retry: Retry, random: Random, state: RetryCallState) -> float:
    """Return the seconds before the next attempt: exponential backoff with jitter, or a longer `Retry-After`.

    At least a quarter of the bound is waited. Source: Amazon Builders' Library, "Timeouts, retries and
    backoff with jitter".
    """
    error = None if state.outcome is None else state.outcome.exception()
    bound = retry.longest_wait(state.attempt_number)
    backoff = bound / 4 + random.random() * bound * 3 / 4
    retry_after = error.retry_after if isinstance(error, _FailedAttemptError) else None
    return max(backoff, retry_after or 0)


def _log_retry(service: str, state: RetryCallState) -> None:
    RETRIES.add(1, {Field.SERVICE: service})
    error = None if state.outcome is None else state.outcome.exception()
    _log.warning("%s; attempt %d follows in %.1f s", error, state.attempt_number + 1, state.upcoming_sleep)


async def _content_of(answer: aiohttp.ClientResponse) -> bytes:
    """Return the body, cut off after the largest usable size."""
    try:
        return await answer.content.readexactly(_MOST_ANSWER_BYTES + 1)
    except asyncio.IncompleteReadError as error:
        return error.partial


def _result_text(result: object) -> str:
    """Return a result as JSON. Raises `UnusableResultError`."""
    if isinstance(result, _UnusableAnswer):
        raise result.error
    try:
        return json_text("result", {} if result is None else _plain(result))
    except ValueError as error:
        raise UnusableResultError(str(error)) from None


def _plain(value: object) -> Any:
    """Return a value as JSON holds it. Secrets are written out: a later step may need them."""
    match value:
        case BaseModel():
            return _plain(value.model_dump(by_alias=True))
        case Secret() | SecretStr() | SecretBytes():
            return _plain(value.get_secret_value())
        case Mapping():
            return {name: _plain(member) for name, member in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case _:
            return to_jsonable_python(value)
