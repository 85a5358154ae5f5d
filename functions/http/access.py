"""Access to the HTTP applications: callers and their roles, caps, and the checks before each request."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from time import monotonic_ns
from urllib.parse import urlsplit

from fastapi import FastAPI, Request
from pyrate_limiter import Duration, Rate, TokenBucket
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from functions.http.bodies import BodyLimit, ReadRoute
from functions.http.problems import ProblemError, answer_to, documented_problems, handle_errors
from functions.telemetry.spans import request_span


class Role(StrEnum):
    """The app roles of `infra/app-roles.json`. Steps may name other roles for their events."""

    #: Submits orders, and sees those that it submitted.
    SUBMITTER = "Submitter"
    #: Sees every task, and cannot act.
    READER = "Reader"
    #: Sees every task, and acts on tasks and rejected messages.
    OPERATOR = "Operator"


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller. Its `name` is recorded. `has_every_role` includes roles that only steps name."""

    name: str
    roles: frozenset[str]
    has_every_role: bool = False

    def may_see(self, submitter: str) -> bool:
        """Return whether this caller may see an order that `submitter` sent."""
        return self.has(Role.READER, Role.OPERATOR) or submitter == self.name

    def has(self, *roles: str) -> bool:
        """Return whether this caller has one of `roles`."""
        return self.has_every_role or not self.roles.isdisjoint(roles)

    def check(self, *roles: str) -> None:
        """Require one of `roles`. Raises `ProblemError` 403 with their names."""
        if not self.has(*roles):
            named = " or ".join(sorted(roles))
            text = f"The caller lacks the role {named}. Assign the app role in Entra ID (AUTH_MODE=easyauth)."
            raise ProblemError(HTTPStatus.FORBIDDEN, text)

    def check_bears(self, role: str, submitter: str) -> None:
        """Require a role for an order of `submitter`. Raises `ProblemError` 403."""
        self.check(role)
        if not self.bears(role, submitter):
            raise ProblemError(HTTPStatus.FORBIDDEN, "Only the submitter of the task can send this event.")

    def bears(self, role: str, submitter: str) -> bool:
        """Return whether this caller has a role for an order of `submitter`; `Submitter`: for own ones."""
        return self.has(role) and (role != Role.SUBMITTER or submitter == self.name)


type Identify = Callable[[Headers], Caller]


def identify_as(caller: Caller) -> Identify:
    """Identify the sender of every request as `caller`."""
    return lambda _headers: caller


_BUCKET = TokenBucket()
#: Callers whose allowances are remembered before those of idle ones are removed.
_MOST_REMEMBERED = 1_000


class Allowance:
    """A caller's token bucket for a minute's requests; a batch may overdraw it.

    `time` returns the nanoseconds of a monotonic clock.
    """

    def __init__(self, per_minute: int, time: Callable[[], int]) -> None:
        self._nanoseconds = time
        self._rate = Rate(per_minute, Duration.MINUTE)
        self._overdraft = Rate(per_minute, Duration.MINUTE, burst=1_000_000_000)  # larger than any batch
        self._state = _BUCKET.initial([self._rate])
        self.in_flight = 0

    def spend(self, tokens: int) -> None:
        """Take tokens, also more than the bucket has."""
        self._state, _ = _BUCKET.step([self._overdraft], self._state, self._now(), tokens)

    def wait(self) -> float:
        """Return the seconds until the next request is admitted."""
        _, decision = _BUCKET.step([self._rate], self._state, self._now(), 1)
        return (decision.retry_after_ms or 0) / 1_000

    def _now(self) -> int:
        return self._nanoseconds() // 1_000_000  # the bucket counts milliseconds

    def is_idle(self) -> bool:
        """Return whether the bucket is full and no request is under way."""
        return self.in_flight == 0 and _BUCKET.consumed([self._rate], self._state, self._now()) == 0


class Caps:
    """Rejects requests of a caller above `per_minute` orders and requests, and `in_flight` at a time."""

    def __init__(self, per_minute: int, in_flight: int, time: Callable[[], int] = monotonic_ns) -> None:
        self._per_minute, self._in_flight, self._time = per_minute, in_flight, time
        self._allowances: dict[str, Allowance] = {}

    @contextmanager
    def admitted(self, caller: Caller) -> Iterator[Allowance]:
        """Count a request during the block, and yield the caller's allowance. Raises `ProblemError` 429."""
        allowance = self._allowance_of(caller.name)
        if allowance.in_flight >= self._in_flight:
            raise _too_many(f"At most {self._in_flight} requests at a time.", seconds=1)
        if wait := allowance.wait():
            raise _too_many(f"At most {self._per_minute} submissions and requests a minute.", seconds=wait)
        allowance.spend(1)
        allowance.in_flight += 1
        try:
            yield allowance
        finally:
            allowance.in_flight -= 1

    def _allowance_of(self, name: str) -> Allowance:
        if name not in self._allowances:
            if len(self._allowances) >= _MOST_REMEMBERED:
                busy = {each: it for each, it in self._allowances.items() if not it.is_idle()}
                self._allowances = busy
            self._allowances[name] = Allowance(self._per_minute, self._time)
        return self._allowances[name]


def _too_many(detail: str, *, seconds: float) -> ProblemError:
    headers = {"Retry-After": str(math.ceil(seconds))}
    return ProblemError(HTTPStatus.TOO_MANY_REQUESTS, detail, headers=headers)


def allowance_of(request: Request) -> Allowance:
    """Return the allowance of the caller, for a route whose request counts as several."""
    allowance: Allowance = request.scope["allowance"]
    return allowance


GUARDED = documented_problems(401, 403, 429, 500)

#: Raises `ProblemError` for a request that is rejected.
type RequestCheck = Callable[[Scope], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The roles that callers need: `reading` for GET and HEAD, `writing` for other methods.

    `open_paths` need no role. Paths `by_route` need any role, and their routes check which one.
    """

    reading: Collection[str]
    writing: Collection[str]
    open_paths: Collection[str] = ()
    by_route: re.Pattern[str] | None = None


@dataclass(frozen=True, slots=True)
class Guard:
    """The identification of callers, and their caps."""

    identify: Identify
    caps: Caps

    def protect(
        self, app: FastAPI, access: Access, bodies: BodyLimit, check: RequestCheck | None = None
    ) -> None:
        """Guard `app`, before its routes are added. `check` may reject the request of an admitted caller."""
        app.router.route_class = ReadRoute
        handle_errors(app)
        app.add_middleware(AccessMiddleware, guard=self, access=access, bodies=bodies, check=check)

    def admit(self, scope: Scope, headers: Headers, access: Access) -> Caller:
        """Return the caller. Raises `ProblemError`: 401 for unknown callers, 403 for those without a role."""
        path: str = scope["path"]
        if path in access.open_paths:
            return Caller(f"anybody at {path}", frozenset())  # no other caller has this name
        caller = self.identify(headers)
        if not (caller.roles and access.by_route is not None and access.by_route.fullmatch(path)):
            caller.check(*(access.reading if scope["method"] in {"GET", "HEAD"} else access.writing))
        return caller


def caller_of(request: Request) -> Caller:
    """Return the admitted caller. A dependency of FastAPI would take a tenth of the time of each request."""
    caller: Caller = request.scope["caller"]
    return caller


class AccessMiddleware:
    """Checks the caller, the caps, the request and its body, and passes the request on, in one span."""

    def __init__(
        self, app: ASGIApp, *, guard: Guard, access: Access, bodies: BodyLimit, check: RequestCheck | None
    ) -> None:
        self._app, self._guard, self._access = app, guard, access
        self._bodies, self._check = bodies, check

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with request_span(scope, send) as answer:
            try:
                await self._admit(scope, receive, answer)
            except Exception as error:  # noqa: BLE001 - an unexpected error can be of any type
                await answer_to(error, scope)(scope, receive, answer)

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        scope["caller"] = caller = self._guard.admit(scope, headers, self._access)
        with self._guard.caps.admitted(caller) as scope["allowance"]:
            if self._check is not None:
                self._check(scope)
            await self._bodies.read(scope, headers, receive)
            await self._app(scope, receive, send)


#: With any value: a page of another origin can't send it without a CORS preflight, which we never allow.
OWN_HEADER = "X-Requested-With"


def check_origin(scope: Scope) -> None:
    """Reject changes that another site's page sends. Raises `ProblemError` 403."""
    if scope["method"] in {"GET", "HEAD", "OPTIONS"}:
        return
    headers = Headers(scope=scope)
    if not headers.get(OWN_HEADER):
        raise ProblemError(HTTPStatus.FORBIDDEN, f"Send the header {OWN_HEADER}, with any value.")
    if headers.get("Sec-Fetch-Site", "same-origin") != "same-origin" or not _is_own(headers):
        raise ProblemError(HTTPStatus.FORBIDDEN, "A page of another site may not send this request.")


def _is_own(headers: Headers) -> bool:
    """Return whether the page has our host. If TLS ends before the application, the scheme differs."""
    origin = headers.get("Origin")
    if origin is None:
        return True
    try:
        return urlsplit(origin).netloc.lower() == headers.get("Host", "").lower() != ""
    except ValueError:
        return False
