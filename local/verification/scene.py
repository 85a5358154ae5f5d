"""What the checks of a deployment share: its clients, and what they have made there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import aiohttp

from local.callers.cases import Submission
from local.callers.client import ApiAnswer, OrderClient, OrderStatus
from local.callers.services import SampleServices
from local.verification.credentials import KEY, OPERATOR_KEY, Credentials

_TIMEOUT = aiohttp.ClientTimeout(total=30)
_REFUSED = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}


class NotWorkingError(Exception):
    """What was seen is not what a working deployment shows."""


class NotRunError(Exception):
    """A check has no sense here, with the reason: it is neither passed nor failed."""


@dataclass(slots=True)
class Scene:
    """One deployment; `patience` is in seconds, for each thing that is waited for."""

    orders: OrderClient
    services: SampleServices
    operator: aiohttp.ClientSession
    patience: float
    #: What may be there because of us.
    made: list[Submission] = field(default_factory=list)
    #: The order that was processed first.
    processed: Submission | None = None

    @classmethod
    @asynccontextmanager
    async def at(
        cls, url: str, operators: str, credentials: Credentials, patience: float
    ) -> AsyncIterator[Scene]:
        """Open the clients for the block; `operators` is where their pages are."""
        pages = operators.rstrip("/") + "/"
        async with (
            OrderClient.at(url, credentials.caller) as orders,
            SampleServices.at(url, credentials.services) as services,
            aiohttp.ClientSession(pages, headers=credentials.operator, timeout=_TIMEOUT) as operator,
        ):
            yield cls(orders, services, operator, patience)

    async def submit(self, submission: Submission) -> None:
        """Submit it, and remember that it may be there. Raises `NotWorkingError` if it is refused."""
        self.made.append(submission)
        answer = await self.orders.put(submission.case.resource, submission.id, submission.body())
        if not answer.is_good:
            # Of anything else than a refusal nobody knows whether it was taken.
            if answer.status < HTTPStatus.INTERNAL_SERVER_ERROR:
                self.made.remove(submission)
            raise NotWorkingError(f"PUT {submission.id}: {explained(answer, KEY)}")

    async def until_finished(self, submission: Submission) -> OrderStatus:
        """Wait for its end. Raises `NotWorkingError` unless that is what its case expects."""
        last: OrderStatus | None = None
        try:
            async for order in self.orders.follow(submission.id, self.patience, submission.case.resource):
                last = order
        except TimeoutError:
            seen = "never seen" if last is None else f"still {last.state}, with {_steps(last)},"
            raise NotWorkingError(f"{submission.id} {seen} after {self.patience:g} s") from None
        unmet = submission.case.expectation.unmet(last)
        if last is None or unmet is not None:
            raise NotWorkingError(f"{submission.id} {unmet}")
        return last

    async def read(self, path: str) -> Any:
        """Read what operators see. Raises `NotWorkingError` when it is refused."""
        async with self.operator.get(f"api/ops{path}") as response:
            answer = ApiAnswer(response.status, await response.text())
            if not answer.is_good:
                raise NotWorkingError(f"GET api/ops{path}: {explained(answer, OPERATOR_KEY)}")
            return await response.json(content_type=None) if path else answer.text


def explained(answer: ApiAnswer, key: str) -> str:
    """Say what a refusal means, if it is one of the key or token; `key` is the variable to look at."""
    if answer.status in _REFUSED:
        name = key if key == KEY else f"{key} or {KEY}"
        return f"{answer.status}, the key or token is refused ({name})"
    return str(answer)


def _steps(order: OrderStatus) -> str:
    return ", ".join(f"{step.name} {step.state}" for step in order.steps) or "no step"
