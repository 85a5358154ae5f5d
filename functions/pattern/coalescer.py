"""Group commit: what arrives while a flush is on its way is sent as one by the next."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextvars import Context
from dataclasses import dataclass
from typing import Protocol


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

    One flush at a time sends the oldest items that fit, and gives a result, or its error, for each in order.
    """

    def __init__(self, flush: Callable[[Sequence[ItemT]], Awaitable[Sequence[ResultT]]]) -> None:
        self._flush = flush
        self._waiting: deque[_Waiting[ItemT, ResultT]] = deque()
        self._worker: asyncio.Task[None] | None = None

    async def submit(self, item: ItemT) -> ResultT:
        """Send `item` with whatever else waits, and give its own result."""
        result: asyncio.Future[ResultT] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(item, result))
        if self._worker is None:
            # What it sends is not only this caller's: it works outside of the caller's context and trace.
            self._worker = asyncio.create_task(self._work(), context=Context())
        return await result

    async def _work(self) -> None:
        try:
            while batch := self._take():
                await self._send(batch)
        finally:
            self._worker = None

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
