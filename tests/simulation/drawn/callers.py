"""The callers of a run: each submits its order, tells its events, and cancels it where that was drawn."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from http import HTTPStatus

from functions.pattern.states import Way
from tests.simulation.checks.rows import names
from tests.simulation.drawn.load import DrawnOrder
from tests.simulation.run.platform import Platform
from tests.simulation.run.rows import births, rows_of_table

#: Seconds until a caller whose request has failed repeats it, and how often.
_AGAIN = 5.0
_MOST_TRIES = 200


class Callers:
    """Keeps what callers were answered: evidence, and all that they can know."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._at_work: list[asyncio.Task[None]] = []
        self.accepted: dict[str, float] = {}
        self.cancelled: set[str] = set()
        self.refused: dict[str, object] = {}
        self.unanswered: list[str] = []

    def begin(self, orders: Sequence[DrawnOrder]) -> None:
        """Have every order submitted in its time."""
        for order in orders:
            self._begin(self._submit(order))
            for step in order.workflow.steps:
                if step.via is Way.EVENT and step.name not in order.untold:
                    self._begin(self._tell(order, step.name))
            if order.cancelled is not None:
                self._begin(self._cancel(order))

    @property
    def are_done(self) -> bool:
        """Tell whether every caller has its answers. Raises what went wrong with one."""
        for each in self._at_work:
            if each.done():
                each.result()
        return all(each.done() for each in self._at_work)

    def _begin(self, work: object) -> None:
        assert asyncio.iscoroutine(work)
        self._at_work.append(asyncio.get_running_loop().create_task(work))

    async def _submit(self, order: DrawnOrder) -> None:
        await asyncio.sleep(order.at)
        path = f"/api/{order.workflow.resource}/{order.id}"
        status, answer = await self._until_answered("PUT", path, order.body)
        if status in {200, 202}:
            self.accepted[order.id] = self._platform.world.loop.time()
        elif status:
            self.refused[order.id] = answer

    async def _tell(self, order: DrawnOrder, step: str) -> None:
        """Tell an event: before its step begins, or later; to what has ended, nobody can."""
        chance = self._platform.world.chance("events")
        await asyncio.sleep(order.at + chance.choice((2.0, 10.0, 40.0)))
        path = f"/api/{order.workflow.resource}/{order.id}/events/{step}"
        await self._until_answered("POST", path, {"yes": True})

    async def _cancel(self, order: DrawnOrder) -> None:
        await asyncio.sleep(order.at + (order.cancelled or 0.0))
        path = f"/api/{order.workflow.resource}/{order.id}"
        status, _ = await self._until_answered("DELETE", path, None)
        if status == 202:
            self.cancelled.add(order.id)

    async def _until_answered(self, method: str, path: str, body: object) -> tuple[int, object]:
        """Repeat a request until it has a clear answer (0: never); 404 is none before there is a task."""
        for _ in range(_MOST_TRIES):
            host = self._platform.running.usual("hosts of callers")
            if host is not None:
                status, answer = await self._platform.http(host, method, path, body)
                if (
                    status
                    and status < 500
                    and status != 429
                    and (status != HTTPStatus.NOT_FOUND or method == "PUT")
                ):
                    self._platform.world.tell("caller", f"{method} {path}: {status}")
                    return status, answer
                if status == HTTPStatus.NOT_FOUND and self._is_lost(path):
                    return status, None
            await asyncio.sleep(_AGAIN)
        self.unanswered.append(f"{method} {path} got no answer")
        return 0, None

    def _is_lost(self, path: str) -> bool:
        """Tell whether the order's message has died, or its task is there, and has not what is asked for."""
        if path.split("/")[3] in births(self._platform.tables):
            return True
        return names(rows_of_table(self._platform.tables, "Rejected"), path.split("/")[3])
