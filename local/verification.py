"""`python -m local verify`: checks a deployment as its callers and operators see it, and prints a table."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp import ClientError
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from local.callers.cases import Case, NoSampleServicesError, SampleServices, Submission, example_orders
from local.callers.client import (
    ApiAnswer,
    OrderClient,
    OrderRefusedError,
    OrderState,
    OrderStatus,
    UnknownResourceError,
)
from local.platform import StartRefusedError

KEY, OPERATOR_KEY, SERVICES_KEY = "VERIFY_KEY", "VERIFY_OPERATOR_KEY", "VERIFY_SERVICES_KEY"
TOKEN, OPERATOR_TOKEN = "VERIFY_TOKEN", "VERIFY_OPERATOR_TOKEN"

_ON_THIS_MACHINE = {"127.0.0.1", "localhost", "::1"}
_TIMEOUT = aiohttp.ClientTimeout(total=30)
_REFUSED = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
_LOOK_EVERY = 0.5
#: A look at a queue may fail once, as when its connection was lost.
_LOOKS = 2
#: Seconds for which the overview caches the figures of queues.
_REMEMBERED = 5.5


@dataclass(frozen=True, slots=True)
class Credentials:
    """The headers of each kind of request; a key or token that is not given is the caller's."""

    caller: Mapping[str, str] = field(repr=False)
    operator: Mapping[str, str] = field(repr=False)
    services: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, environment: Mapping[str, str], *urls: str) -> Credentials:
        """Read them. Raises `StartRefusedError` where a secret would go over a network as plain text."""
        key, token = environment.get(KEY, ""), environment.get(TOKEN, "")
        made = cls(
            caller=_headers(key, token),
            operator=_headers(environment.get(OPERATOR_KEY) or key, environment.get(OPERATOR_TOKEN) or token),
            services=_headers(environment.get(SERVICES_KEY) or key, token),
        )
        for url in urls:
            parts = urlsplit(url)
            if parts.scheme != "https" and parts.hostname not in _ON_THIS_MACHINE and any(made.all()):
                raise StartRefusedError(f"{url} is not https: no key or token is sent there.")
        return made

    def all(self) -> tuple[Mapping[str, str], ...]:
        """Return the headers of every kind."""
        return self.caller, self.operator, self.services


def _headers(key: str, token: str) -> dict[str, str]:
    key_header = {"x-functions-key": key} if key else {}
    return key_header | ({"Authorization": f"Bearer {token}"} if token else {})


class NotWorkingError(Exception):
    """The observation differs from a working deployment's."""


class NotRunError(Exception):
    """A check does not apply here; the text is the reason."""


@dataclass(slots=True)
class Scene:
    """One deployment. Each wait has a timeout in seconds."""

    orders: OrderClient
    services: SampleServices
    operator: aiohttp.ClientSession
    patience: float
    #: The submissions that may exist in the deployment.
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
        """Submit it, and record it in `made`. Raises `NotWorkingError` if it is rejected."""
        self.made.append(submission)
        answer = await self.orders.put(submission.case.resource, submission.id, submission.body())
        if not answer.is_good:
            # After any other failure, the deployment may have accepted it.
            if answer.status < HTTPStatus.INTERNAL_SERVER_ERROR:
                self.made.remove(submission)
            raise NotWorkingError(f"PUT {submission.id}: {explained(answer, KEY)}")

    async def until_finished(self, submission: Submission) -> OrderStatus:
        """Wait for its end. Raises `NotWorkingError` unless its case expects that end."""
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
        """Read a page or figures of operators. Raises `NotWorkingError` if the request is rejected."""
        async with self.operator.get(f"api/ops{path}") as response:
            answer = ApiAnswer(response.status, await response.text())
            if not answer.is_good:
                raise NotWorkingError(f"GET api/ops{path}: {explained(answer, OPERATOR_KEY)}")
            return await response.json(content_type=None) if path else answer.text


def explained(answer: ApiAnswer, key: str) -> str:
    """Return the cause of a refusal in words; `key` is the variable of the key."""
    if answer.status in _REFUSED:
        name = key if key == KEY else f"{key} or {KEY}"
        return f"{answer.status}, the key or token is refused ({name})"
    return str(answer)


def _steps(order: OrderStatus) -> str:
    return ", ".join(f"{step.name} {step.state}" for step in order.steps) or "no step"


async def is_healthy(scene: Scene) -> str:
    """Look whether the application and its state store answer."""
    health = await scene.orders.health()
    if health.status != HTTPStatus.OK:
        raise NotWorkingError(f"GET api/health: {health}")
    return "the application and its state store answer"


async def order_is_processed(scene: Scene) -> str:
    """Submit an order, and follow it to its end."""
    submission = await _new(scene, Case.ORDER)
    await scene.submit(submission)
    order = await scene.until_finished(submission)
    scene.processed = submission
    return f"{order.id} {order.state}, {order.seconds:.2f} s by its own clock"


async def same_again_changes_nothing(scene: Scene) -> str:
    """Submit the same order under the same id."""
    order = _processed(scene)
    resource = order.case.resource
    before = await scene.orders.look_at(order.id, resource)
    answer = await scene.orders.put(resource, order.id, order.body())
    if answer.status != HTTPStatus.ACCEPTED:
        raise NotWorkingError(f"PUT {order.id} again: {explained(answer, KEY)}")
    if await scene.orders.look_at(order.id, resource) != before:
        raise NotWorkingError(f"{order.id} is another one than before")
    return "accepted, and the order is as it was"


async def other_content_is_refused(scene: Scene) -> str:
    """Submit another order under the same id."""
    order, (_, *others) = _processed(scene), example_orders()
    if not others:
        raise NotRunError("the payload's model has one example only: add another one")
    answer = await scene.orders.put(order.case.resource, order.id, others[0])
    if answer.status != HTTPStatus.CONFLICT:
        raise NotWorkingError(f"PUT {order.id} with other content: {explained(answer, KEY)}")
    return "refused with 409"


async def delivery_is_undone(scene: Scene) -> str:
    """Submit a delivery whose last service refuses it; the earlier steps are undone there."""
    submission = await _new(scene, Case.NO_DRONE)
    try:
        await scene.services.prepare(submission)
    except NoSampleServicesError:
        raise NotRunError("no sample services here, which could refuse") from None
    try:
        await scene.submit(submission)
        order = await scene.until_finished(submission)
    finally:
        left = await scene.services.what_stands(submission)  # this also ends the refusal
    if left is not None:
        raise NotWorkingError(f"{submission.id}: {left}")
    return f"{order.id} {order.state}, and nothing is left at the services"


async def batch_is_processed(scene: Scene) -> str:
    """Submit two orders in one request."""
    batch = [await _new(scene, Case.ORDER) for _ in range(2)]
    scene.made += batch
    try:
        await scene.orders.submit_batch(Case.ORDER.resource, [each.in_batch() for each in batch])
    except OrderRefusedError as refusal:
        if refusal.status is not None and refusal.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            scene.made = [each for each in scene.made if each not in batch]
            raise NotWorkingError(explained(ApiAnswer(refusal.status, str(refusal)), KEY)) from None
        raise
    await asyncio.gather(*map(scene.until_finished, batch))
    return f"{len(batch)} orders {OrderState.PROCESSED}"


async def made_is_cancelled(scene: Scene) -> str:
    """Cancel the submissions, and name those that can't be cancelled."""
    if not scene.made:
        raise NotRunError("nothing was made")
    outcomes = await asyncio.gather(*(_cancelled(scene, each) for each in scene.made))
    left = [outcome for outcome in outcomes if outcome is not None]
    if left:
        raise NotWorkingError(f"left behind: {'; '.join(left)}")
    return f"{len(scene.made)} made, all of them undone"


async def _cancelled(scene: Scene, submission: Submission) -> str | None:
    """Cancel, and wait for the undo; otherwise return the remaining state in words."""
    resource, name = submission.case.resource, f"{submission.case.resource}/{submission.id}"
    order = None
    try:
        async with asyncio.timeout(scene.patience):
            # A submission on its queue can't be cancelled yet; a rejected cancel may be accepted later.
            while True:
                order = await scene.orders.look_at(submission.id, resource)
                if order is not None and order.state in {OrderState.COMPENSATED, OrderState.REJECTED}:
                    return None
                answer = await scene.orders.cancel(resource, submission.id)
                if answer.status == HTTPStatus.CONFLICT:
                    return f"{name}, {answer.text}"
                await asyncio.sleep(_LOOK_EVERY)
    except TimeoutError:
        seen = "was never recorded, and may come yet" if order is None else f"is {order.state}"
        return f"{name} {seen}"


def _processed(scene: Scene) -> Submission:
    if scene.processed is None:
        raise NotRunError("no order was processed")
    return scene.processed


async def _new(scene: Scene, case: Case) -> Submission:
    try:
        await scene.orders.require(case.resource)
    except UnknownResourceError:
        raise NotRunError(f"no workflow serves {case.resource} here") from None
    return Submission.new("verify", case)


async def queues_answer(scene: Scene) -> str:
    """Look into each queue, as the console does."""
    for looks in range(1, _LOOKS + 1):
        queues = (await scene.read("/overview"))["queues"]
        silent = [each["queue"] for each in queues if each["waiting"] is None or each["dead"] is None]
        if not silent:
            return f"{len(queues)} queues answer"
        if looks < _LOOKS:
            await asyncio.sleep(_REMEMBERED)
    raise NotWorkingError(f"can't be looked into: {', '.join(silent)}")


async def pages_are_served(scene: Scene) -> str:
    """Load the console, and what it shows of the order."""
    if "<title>" not in await scene.read(""):
        raise NotWorkingError("GET api/ops: no page")
    if scene.processed is None:
        raise NotRunError("the console is served, but no order was processed to be shown there")
    task = await scene.read(f"/tasks/{scene.processed.id}")
    steps = ", ".join(f"{step['name']} {step['state']}" for step in task["steps"])
    return f"the console, and a task by {task['order']['submitter']}: {steps}"


async def supervisor_sweeps(scene: Scene) -> str:
    """Wait for a sweep that began after this check did, by the deployment's own clock."""
    overview = await scene.read("/overview")
    began, last = datetime.fromisoformat(overview["at"]), overview["sweep"]
    try:
        async with asyncio.timeout(scene.patience):
            while last is None or datetime.fromisoformat(last["ended_at"]) <= began:
                await asyncio.sleep(_LOOK_EVERY)
                last = (await scene.read("/overview"))["sweep"]
    except TimeoutError:
        said = "no sweep was ever finished" if last is None else f"the last sweep ended {last['ended_at']}"
        raise NotWorkingError(f"{said}, none in {scene.patience:g} s: is the Supervisor on?") from None
    return f"a sweep ended {last['ended_at']}"


#: In this order; the last one cancels the submissions.
CHECKS: dict[str, Callable[[Scene], Awaitable[str]]] = {
    "health": is_healthy,
    "queues": queues_answer,
    "an order processed": order_is_processed,
    "the same again": same_again_changes_nothing,
    "other content under its id": other_content_is_refused,
    "a delivery undone": delivery_is_undone,
    "a batch": batch_is_processed,
    "operators' pages": pages_are_served,
    "the Supervisor": supervisor_sweeps,
    "cleaned up": made_is_cancelled,
}


class CheckMark(Enum):
    """The result of a check, as the table shows it."""

    PASSED = "[green]✓[/]"
    FAILED = "[red]✗ failed[/]"
    #: It does not apply here, or depends on a check that failed.
    NOT_RUN = "[yellow]- not run[/]"


@dataclass(frozen=True, slots=True)
class CheckLine:
    """One check: its verdict, its observation, and its time in seconds."""

    check: str
    verdict: CheckMark
    seen: str
    seconds: float


async def verify(scene: Scene, show: Callable[[CheckLine], None]) -> list[CheckLine]:
    """Run every check, also after a failed one; `show` the line of each."""
    lines: list[CheckLine] = []
    for name, check in CHECKS.items():
        started = time.perf_counter()
        try:
            verdict, seen = CheckMark.PASSED, await check(scene)
        except NotRunError as reason:
            verdict, seen = CheckMark.NOT_RUN, str(reason)
        except (NotWorkingError, OrderRefusedError) as fault:
            verdict, seen = CheckMark.FAILED, str(fault)
        except (ClientError, TimeoutError, ValueError, KeyError) as fault:
            # Another server returns an answer that is no JSON, or lacks a field.
            verdict, seen = CheckMark.FAILED, f"{type(fault).__name__}: {fault}"
        lines.append(CheckLine(name, verdict, seen, time.perf_counter() - started))
        show(lines[-1])
    return lines


async def verify_at(url: str, operators: str, patience: float) -> int:
    """Verify the deployment at `url`, and where `operators` are, with a timeout in seconds for each wait.

    Returns the exit code.
    """
    credentials = Credentials.of(os.environ, url, operators)
    console = Console(width=None if sys.stdout.isatty() else 140)

    def show(line: CheckLine) -> None:
        if console.is_terminal:
            console.print(f"{line.verdict.value} {line.check}")

    async with Scene.at(url, operators, credentials, patience) as scene:
        try:
            lines = await verify(scene, show)
        except asyncio.CancelledError:
            left = ", ".join(f"{each.case.resource}/{each.id}" for each in scene.made)
            console.print(f"stopped; left there: {left or 'nothing'}", soft_wrap=True)
            raise
    table = Table("", "check", "seen", "seconds", title=f"Verified: {url}")
    for line in lines:
        table.add_row(line.verdict.value, line.check, escape(line.seen), f"{line.seconds:.1f}")
    console.print(table)
    return exit_code(lines)


def exit_code(lines: Sequence[CheckLine]) -> int:
    """Return 0 only if every check passed, 1 after a failure, and 3 if a check was not run."""
    verdicts = {line.verdict for line in lines}
    if CheckMark.FAILED in verdicts:
        return 1
    return 3 if CheckMark.NOT_RUN in verdicts else 0
