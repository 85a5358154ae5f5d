"""Group commit: what arrives while flushes are on their way is sent as one by the next."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextvars import Context
from dataclasses import dataclass
from typing import Protocol

#: Turns of the event loop before a flush, in which what is ready at the same moment joins it.
_TURNS = 1


class Batchable(Protocol):
    """What can be sent together with others of its kind."""

    @property
    def key(self) -> Hashable:
        """Items with the same key never go in one flush."""

    @property
    def share(self) -> float:
        """The part of a flush's limit that the item takes: more than 0, at most 1."""


@dataclass(frozen=True, slots=True)
class _Waiting[ItemT: Batchable, ResultT]:
    item: ItemT
    result: asyncio.Future[ResultT]


class Coalescer[ItemT: Batchable, ResultT]:
    """Sends items together without ever making an idle sender wait.

    A flush sends the oldest items that fit, and gives a result, or its error, for each in order. Another one
    starts while fewer than `few` items are on their way: flushes overlap at a low rate, where each would be
    small anyway, and grow at a high one.
    """

    def __init__(
        self, flush: Callable[[Sequence[ItemT]], Awaitable[Sequence[ResultT]]], *, few: int = 1
    ) -> None:
        self._flush = flush
        self._few = few
        self._waiting: deque[_Waiting[ItemT, ResultT]] = deque()
        self._on_their_way = 0
        self._workers = set[asyncio.Task[None]]()
        self._collecting = False

    async def submit(self, item: ItemT) -> ResultT:
        """Send `item` with whatever else waits, and give its own result."""
        result: asyncio.Future[ResultT] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(item, result))
        self._begin()
        return await result

    def _begin(self) -> None:
        if self._waiting and not self._collecting and self._on_their_way < self._few:
            self._collecting = True
            # What it sends is not only this caller's: it works outside of the caller's context and trace.
            worker = asyncio.create_task(self._work(), context=Context())
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)

    async def _work(self) -> None:
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        self._collecting = False
        batch = self._take()
        self._on_their_way += len(batch)
        self._begin()
        try:
            if batch:
                await self._send(batch)
        finally:
            self._on_their_way -= len(batch)
            self._begin()

    async def _send(self, batch: list[_Waiting[ItemT, ResultT]]) -> None:
        try:
            results = await self._flush([each.item for each in batch])
        except BaseException as error:
            for each in batch:
                if not each.result.done():
                    each.result.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        for each, result in zip(batch, results, strict=True):
            if not each.result.done():
                each.result.set_result(result)

    def _take(self) -> list[_Waiting[ItemT, ResultT]]:
        """Take the oldest items that fit together, except those that nobody waits for any more."""
        batch: list[_Waiting[ItemT, ResultT]] = []
        keys = set[Hashable]()
        room = 1.0
        while self._waiting:
            item = self._waiting[0].item
            if batch and (item.share > room or item.key in keys):
                break
            each = self._waiting.popleft()
            if not each.result.done():
                batch.append(each)
                keys.add(item.key)
                room -= item.share
        return batch
