"""The platform has settled when no task, message or caller is left, or when the time is over."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from azure.core.exceptions import ServiceRequestError

from tests.chaos.callers import Callers
from tests.chaos.evidence import settling
from tests.chaos.evidence.settling import settle
from tests.chaos.evidence.tables import Tables
from tests.chaos.plan import make_plan
from tests.chaos.planted_evidence import task
from tests.local.platform.processes import PATIENCE
from tests.simulation.checks.rows import TaskRows

_EMPTY = {"active": 0, "scheduled": 0, "deferred": 0, "dead_lettered": 0}
_PLAN = make_plan(1, 1, 1)
ORDER = _PLAN.orders[0].id


class _Tables:
    """Returns the next of its contents at each look, and then the last one again."""

    def __init__(self, *looks: dict[str, TaskRows] | Exception) -> None:
        self._looks: Iterator[dict[str, TaskRows] | Exception] = iter(looks)
        self._last: dict[str, TaskRows] | Exception = {}

    async def look(self) -> dict[str, TaskRows]:
        self._last = next(self._looks, self._last)
        if isinstance(self._last, Exception):
            raise self._last
        return self._last


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "_LOOK_EVERY", 0.01)


async def test_settling_is_waited_for() -> None:
    """The tables are down, a task is unfinished, then finished but not announced, then announced."""
    end = TaskRows(task=task("Processed", 1))
    tables = _Tables(
        ServiceRequestError("away"),
        {ORDER: TaskRows(task=task("Processing", 1))},
        {ORDER: end.model_copy(update={"outbox": ("!send|1",)})},
        {ORDER: end},
    )
    assert await _settled(tables, within=PATIENCE) == []


@pytest.mark.parametrize(
    ("rows", "queue", "expected"),
    [
        (None, {}, f"{ORDER}|has no task"),
        (TaskRows(task=task("Pending", 1)), {}, f"{ORDER}|is Pending in epoch 1: None"),
        (
            TaskRows(task=task("Error", 1)),
            {"name": "scheduler-requests", "scheduled": 1},
            "queue scheduler-requests holds 1 messages",
        ),
        (
            TaskRows(task=task("Error", 1)),
            {"name": "notices-demo", "dead_lettered": 2},
            "queue notices-demo holds 2 messages",
        ),
    ],
)
async def test_leftover_is_named(rows: TaskRows | None, queue: dict[str, Any], expected: str) -> None:
    """When the time is over, there is a line for each leftover."""
    assert await _settled(_Tables({ORDER: rows} if rows else {}), queue, within=0.03) == [expected]


async def test_order_whose_caller_has_no_answer_is_left() -> None:
    """Its caller sends it again."""
    tables = _Tables({ORDER: TaskRows(task=task("Processed", 1))})
    assert await _settled(tables, within=0.03, waits=True) == [f"{ORDER}|its caller has no answer"]


async def test_notices_wait_for_their_reader() -> None:
    """They do not keep the platform from settling."""
    tables = _Tables({ORDER: TaskRows(task=task("Error", 1))})
    assert await _settled(tables, {"name": "notices-demo", "active": 9}, within=PATIENCE) == []


async def _settled(
    tables: _Tables, queue: dict[str, Any] | None = None, *, within: float, waits: bool = False
) -> list[str]:
    callers = Callers(["http://localhost"], _PLAN.orders)
    if not waits:
        callers.waiting.clear()
    figures = {"name": "submissions", **_EMPTY, **(queue or {})}
    async with _admin(figures) as url:
        _, leftovers = await settle(cast("Tables", tables), url, callers, within)
    return list(leftovers)


@asynccontextmanager
async def _admin(figures: dict[str, Any]) -> AsyncIterator[str]:
    async def queues(_request: web.Request) -> web.Response:
        return web.json_response([figures])

    application = web.Application()
    application.add_routes([web.get("/queues", queues)])
    async with TestServer(application) as server:
        yield str(server.make_url("")).rstrip("/")
