"""`python -m local demo`: many orders and deliveries at once, and their outcomes."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import batched

from rich.console import Console

from local.callers.cases import Case, Submission, submissions
from local.callers.client import OrderClient, OrderStatus
from local.callers.notices import REPLY_QUEUE, listening
from local.callers.services import SampleServices
from local.progress import Phase, Phases

#: Requests in flight at one time.
_CONCURRENCY = 16
#: The most submissions that the API accepts in one batch.
_BATCH = 500
#: Seconds between two rounds of status requests for the unfinished orders.
_LOOK_EVERY = 0.25
#: Seconds until the demo gives up: a fixed part, and one for each order, far above what any machine needs.
_PATIENCE = 60.0
_PATIENCE_PER_ORDER = 0.5
#: The notices about one order: received; then completed, or compensated.
_NOTICES_AN_ORDER = 2


@dataclass(slots=True)
class DemoResult:
    """What was observed of each submission: its last status, and what a service still holds of it."""

    submissions: Sequence[Submission]
    #: By id; one that is missing never had a status.
    orders: dict[str, OrderStatus] = field(default_factory=dict)
    #: By id, in words.
    leftovers: dict[str, str] = field(default_factory=dict)
    #: Seconds of each request with one order.
    submit_seconds: list[float] = field(default_factory=list)
    #: Seconds of each request with a batch.
    batch_seconds: list[float] = field(default_factory=list)
    #: Notices on the reply queue, by kind; empty when nobody listened.
    notices: Counter[str] = field(default_factory=Counter)

    def unmet(self, submission: Submission) -> str | None:
        """Return the unexpected outcome in words, or `None` when it is as expected."""
        seen = self.orders.get(submission.id)
        return submission.case.expectation.unmet(seen) or self.leftovers.get(submission.id)

    @property
    def all_as_expected(self) -> bool:
        """Whether every outcome is as expected."""
        return not any(self.unmet(each) for each in self.submissions)

    @property
    def unfinished(self) -> list[Submission]:
        """The submissions that are not known to be finished."""
        return [each for each in self.submissions if not self._is_finished(each.id)]

    def _is_finished(self, order_id: str) -> bool:
        order = self.orders.get(order_id)
        return order is not None and order.is_finished


async def run_demo(
    url: str, console: Console, *, orders: int, deliveries: int, service_bus: str | None = None
) -> DemoResult:
    """Submit so many orders and deliveries to the application at `url`, and wait until all are finished.

    With `service_bus`, a connection string, it also counts the notices to callers. Submissions that are not
    finished in time keep their last status. Raises `OrderRefusedError`, and `UnknownResourceError` before
    anything is submitted.
    """
    result = DemoResult(submissions(orders, deliveries))
    reply_to = None if service_bus is None else REPLY_QUEUE
    async with (
        listening(service_bus) as notices,
        SampleServices.at(url) as services,
        OrderClient.at(url) as client,
    ):
        for resource in sorted({each.case.resource for each in result.submissions}):
            await client.require(resource)
        notices.watch({each.id for each in result.submissions})
        await _for_each(result.submissions, services.prepare)
        total = len(result.submissions)
        with Phases(console) as phases:
            await _submit_all(client, result, phases.begin("submitted", total), reply_to)
            await _until_finished(client, result, phases.begin("finished", total))
        await _look_for_leftovers(services, result)
        if reply_to is not None:
            await notices.until(_NOTICES_AN_ORDER * len(result.submissions))
    result.notices = notices.counts
    return result


async def _submit_all(client: OrderClient, result: DemoResult, phase: Phase, reply_to: str | None) -> None:
    """Submit the deliveries in batches, and the orders one by one."""
    submitted = 0

    async def submit(order: Submission) -> None:
        nonlocal submitted
        start = time.perf_counter()
        await client.submit(order.id, reply_to)
        result.submit_seconds.append(time.perf_counter() - start)
        submitted += 1
        phase.show(submitted)

    deliveries = [each for each in result.submissions if each.case is not Case.ORDER]
    for batch in batched(deliveries, _BATCH, strict=False):
        start = time.perf_counter()
        await client.submit_batch("deliveries", [each.in_batch(reply_to) for each in batch])
        result.batch_seconds.append(time.perf_counter() - start)
        submitted += len(batch)
        phase.show(submitted)
    await _for_each([each for each in result.submissions if each.case is Case.ORDER], submit)


async def _until_finished(client: OrderClient, result: DemoResult, phase: Phase) -> None:
    async def look(submission: Submission) -> None:
        order = await client.look_at(submission.id, submission.case.resource)
        if order is not None:
            result.orders[submission.id] = order

    deadline = time.monotonic() + _PATIENCE + _PATIENCE_PER_ORDER * phase.total
    while (unfinished := result.unfinished) and time.monotonic() < deadline:
        await asyncio.sleep(_LOOK_EVERY)
        await _for_each(unfinished, look)
        phase.show(phase.total - len(result.unfinished))


async def _look_for_leftovers(services: SampleServices, result: DemoResult) -> None:
    async def look(submission: Submission) -> None:
        if (left := await services.what_stands(submission)) is not None:
            result.leftovers[submission.id] = left

    await _for_each(result.submissions, look)


async def _for_each(each: Iterable[Submission], call: Callable[[Submission], Awaitable[None]]) -> None:
    """Call for each, a few at a time. The first failure ends all calls, and is raised."""
    limit = asyncio.Semaphore(_CONCURRENCY)

    async def limited(submission: Submission) -> None:
        async with limit:
            await call(submission)

    try:
        async with asyncio.TaskGroup() as calls:
            for submission in each:
                calls.create_task(limited(submission))
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
