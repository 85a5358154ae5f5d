"""`python -m local demo`: many orders and deliveries at once, and their outcomes as tables."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import batched

from azure.servicebus import ServiceBusReceiveMode
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from local.callers.cases import Case, SampleServices, Submission, submissions
from local.callers.client import OrderClient, OrderStatus
from local.progress import Phase, Phases

REPLY_QUEUE = "notices-demo"
#: Seconds in which the last notices must arrive.
_NOTICES_WITHIN = 15.0
_AT_ONCE = 100
_CONCURRENCY = 16
#: The most submissions that the API accepts in one batch.
_BATCH = 500
#: Seconds between two looks at the notices, or rounds of status requests for the unfinished orders.
_LOOK_EVERY = 0.25
#: The timeout of the demo in seconds: a fixed part, and one for each order.
_PATIENCE = 60.0
_PATIENCE_PER_ORDER = 0.5
#: The notices about one order: received; then completed, or compensated.
_NOTICES_AN_ORDER = 2
_TICK = Text("✓", style="green")
_CROSS = Text("✗", style="red")


@asynccontextmanager
async def counted_notices(connection: str | None, order_ids: set[str]) -> AsyncIterator[Counter[str]]:
    """Count the notices about orders by kind during the block; without a connection nothing is received."""
    counts = Counter[str]()
    if connection is None:
        yield counts
        return
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    async with (
        ServiceBusClient.from_connection_string(connection) as client,
        client.get_queue_receiver(REPLY_QUEUE, receive_mode=mode) as receiver,
    ):
        counting = asyncio.create_task(_count(receiver, order_ids, counts))
        try:
            yield counts
        finally:
            counting.cancel()
            await asyncio.gather(counting, return_exceptions=True)


async def _count(receiver: ServiceBusReceiver, order_ids: set[str], counts: Counter[str]) -> None:
    while True:
        for message in await receiver.receive_messages(_AT_ONCE, max_wait_time=1):
            notice = json.loads(str(message))
            if notice["id"] in order_ids:
                counts[notice["kind"]] += 1


@dataclass(slots=True)
class DemoResult:
    """The observations of each submission: its last status, and its remaining resources at services."""

    submissions: Sequence[Submission]
    #: By id; one that is missing never had a status.
    orders: dict[str, OrderStatus] = field(default_factory=dict)
    #: By id, in words.
    leftovers: dict[str, str] = field(default_factory=dict)
    submit_seconds: list[float] = field(default_factory=list)
    batch_seconds: list[float] = field(default_factory=list)
    #: Notices on the reply queue, by kind; empty without a connection.
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
        finished = {key for key, order in self.orders.items() if order.is_finished}
        return [each for each in self.submissions if each.id not in finished]


async def run_demo(
    url: str, console: Console, *, orders: int, deliveries: int, service_bus: str | None = None
) -> DemoResult:
    """Submit orders and deliveries to the application at `url`, and wait until all are finished.

    With `service_bus`, a connection string, it also counts the notices to callers. Submissions that are not
    finished in time keep their last status. Raises `OrderRefusedError`, and `UnknownResourceError` before
    anything is submitted.
    """
    result = DemoResult(submissions(orders, deliveries))
    reply_to, total = None if service_bus is None else REPLY_QUEUE, len(result.submissions)
    async with (
        counted_notices(service_bus, {each.id for each in result.submissions}) as result.notices,
        SampleServices.at(url) as services,
        OrderClient.at(url) as client,
    ):
        for resource in sorted({each.case.resource for each in result.submissions}):
            await client.require(resource)
        await _for_each(result.submissions, services.prepare)
        with Phases(console) as phases:
            await _submit_all(client, result, phases.begin("submitted", total), reply_to)
            await _until_finished(client, result, phases.begin("finished", total))
        await _find_resources_left(services, result)
        deadline = time.monotonic() + _NOTICES_WITHIN
        expected = 0 if reply_to is None else _NOTICES_AN_ORDER * total
        while result.notices.total() < expected and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_EVERY)  # another process sends them
    return result


async def _submit_all(client: OrderClient, result: DemoResult, phase: Phase, reply_to: str | None) -> None:
    """Submit the deliveries in batches, and the orders one by one."""
    submitted = 0

    async def submit(order: Submission) -> None:
        nonlocal submitted
        body, start = order.body(reply_to), time.perf_counter()
        await client.submit(order.case.resource, order.id, body)
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


async def _find_resources_left(services: SampleServices, result: DemoResult) -> None:
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


def summary(result: DemoResult) -> Group:
    """Return the tables to print."""
    return Group(_cases(result), _figures(result))


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least `percent` of `values` do not exceed (nearest rank)."""
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def orders_per_second(orders: Collection[OrderStatus]) -> float | None:
    """Return finished orders per second, from the first submission to the last end; `None` without an end."""
    ends = [order.finished_at for order in orders if order.finished_at]
    if not ends:
        return None
    seconds = (max(ends) - min(order.submitted_at for order in orders)).total_seconds()
    return len(ends) / seconds if seconds > 0 else None


def _cases(result: DemoResult) -> Table:
    table = Table("", "case", "count", "expected", "outcome", title="Outcome of each case")
    for case in Case:
        tried = [each for each in result.submissions if each.case is case]
        if tried:
            came = Counter(result.unmet(each) or case.expectation.state for each in tried)
            good = came.keys() == {case.expectation.state}
            words = ", ".join(f"{count} {what}" for what, count in came.most_common())
            table.add_row(
                _TICK if good else _CROSS, case.label, str(len(tried)), case.expectation.state, words
            )
    return table


def _figures(result: DemoResult) -> Table:
    table = Table("measure", "value", title="Figures")
    for kind, count in sorted(result.notices.items()):
        table.add_row(f"notices: {kind}", str(count))
    end_to_end = [order.seconds for order in result.orders.values() if order.seconds is not None]
    rate = orders_per_second(result.orders.values())
    table.add_row("submit one p50 / p99", _percentiles(result.submit_seconds))
    table.add_row("submit a batch p50 / p99", _percentiles(result.batch_seconds))
    table.add_row("end to end p50 / p99", _percentiles(end_to_end))
    table.add_row("orders/s", "-" if rate is None else f"{rate:.1f}")
    return table


def _percentiles(seconds: Sequence[float]) -> str:
    if not seconds:
        return "-"
    return f"{percentile(seconds, 50) * 1000:.0f} ms / {percentile(seconds, 99) * 1000:.0f} ms"
