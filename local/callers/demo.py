"""`python -m local demo`: many orders at once, and how they fared."""

from __future__ import annotations

import asyncio
import sys
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Self

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

from local.callers.client import Order, OrderClient, OrderState
from local.callers.notices import REPLY_QUEUE, listening

#: Calls on their way at one time.
_CONCURRENCY = 16
#: Seconds between two rounds of looks at the orders that are not finished.
_LOOK_EVERY = 0.25
#: Seconds that all orders get: a fixed part, and one for each, both far above what any machine needs.
_PATIENCE = 60.0
_PATIENCE_PER_ORDER = 0.5
#: What a caller is told of an order that succeeds: received, completed.
_NOTICES_AN_ORDER = 2


@dataclass(slots=True)
class DemoResult:
    """What was seen: seconds of each submission, and each order as last seen (`None`: never)."""

    orders: dict[str, Order | None]
    submit_seconds: list[float] = field(default_factory=list)
    #: Notices on the reply queue, by kind; empty where nobody listened.
    notices: Counter[str] = field(default_factory=Counter)

    @property
    def all_processed(self) -> bool:
        """Whether every order was carried out."""
        return all(order and order.state is OrderState.PROCESSED for order in self.orders.values())

    @property
    def unfinished(self) -> list[str]:
        """Ids of the orders that have not been seen finished."""
        return [order_id for order_id, order in self.orders.items() if not (order and order.is_finished)]


async def run_demo(url: str, count: int, console: Console, service_bus: str | None = None) -> DemoResult:
    """Submit `count` orders to the application at `url` and wait until all are finished.

    With `service_bus`, a connection string, it listens for the notices that callers get. Orders that
    are not finished in time stay as they were last seen. Raises `OrderRefusedError`.
    """
    result = DemoResult(dict.fromkeys(f"demo-{uuid.uuid4().hex[:16]}" for _ in range(count)))
    reply_to = None if service_bus is None else REPLY_QUEUE
    async with listening(service_bus) as notices:
        notices.watch(set(result.orders))
        with _Bars(count, console) as bars:
            async with OrderClient.at(url) as client:
                await _submit_all(client, result, bars, reply_to)
                await _until_finished(client, result, bars)
        if reply_to is not None:
            await notices.until(_NOTICES_AN_ORDER * count)
    result.notices = notices.counts
    return result


class _Bars:
    """Two progress bars; plain lines where there is no terminal."""

    def __init__(self, total: int, console: Console) -> None:
        self._total = total
        self._console = console
        self._last_line = ""
        columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(
            *columns, console=console, disable=not console.is_terminal, redirect_stderr=sys.stderr.isatty()
        )
        self._bars = {name: self._progress.add_task(name, total=total) for name in ("submitted", "finished")}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, name: str, completed: int) -> None:
        self._progress.update(self._bars[name], completed=completed)

    def say(self, name: str, completed: int) -> None:
        """Show, and where there is no terminal print a line if it is a new one."""
        self.show(name, completed)
        line = f"{name} {completed} of {self._total}"
        if line != self._last_line and not self._console.is_terminal:
            self._console.print(line, highlight=False)
            self._last_line = line


async def _submit_all(client: OrderClient, result: DemoResult, bars: _Bars, reply_to: str | None) -> None:
    async def submit(order_id: str) -> None:
        start = time.perf_counter()
        await client.submit(order_id, reply_to)
        result.submit_seconds.append(time.perf_counter() - start)
        bars.show("submitted", len(result.submit_seconds))

    await _for_each(result.orders, submit)
    bars.say("submitted", len(result.submit_seconds))


async def _until_finished(client: OrderClient, result: DemoResult, bars: _Bars) -> None:
    async def look(order_id: str) -> None:
        result.orders[order_id] = await client.look_at(order_id)

    deadline = time.monotonic() + _PATIENCE + _PATIENCE_PER_ORDER * len(result.orders)
    while (unfinished := result.unfinished) and time.monotonic() < deadline:
        await asyncio.sleep(_LOOK_EVERY)
        await _for_each(unfinished, look)
        bars.say("finished", len(result.orders) - len(result.unfinished))


async def _for_each(order_ids: Iterable[str], call: Callable[[str], Awaitable[None]]) -> None:
    """Call for each order, a few at a time. Raises the first failure, after which no more are called."""
    limit = asyncio.Semaphore(_CONCURRENCY)

    async def limited(order_id: str) -> None:
        async with limit:
            await call(order_id)

    try:
        async with asyncio.TaskGroup() as calls:
            for order_id in order_ids:
                calls.create_task(limited(order_id))
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
