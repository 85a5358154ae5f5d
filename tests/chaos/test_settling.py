"""The platform has settled when no task, message or caller is left, or when the time is over."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from azure.core.exceptions import ServiceRequestError

from tests.chaos.evidence import settling
from tests.chaos.evidence.rows import TaskRows
from tests.chaos.evidence.settling import settle
from tests.chaos.evidence.tables import Tables
from tests.chaos.sample_evidence import ORDER, rows, task
from tests.local.platform.processes import PATIENCE

_EMPTY = {"active": 0, "scheduled": 0, "deferred": 0, "dead_lettered": 0}


class _Tables:
    """Returns the next of its contents at each read, and then the last one again."""

    def __init__(self, *looks: dict[str, TaskRows] | Exception, rejected: list[dict[str, Any]]) -> None:
        self._looks: Iterator[dict[str, TaskRows] | Exception] = iter(looks)
        self._last: dict[str, TaskRows] | Exception = {}
        self._rejected = rejected

    async def look_at_all(self) -> dict[str, TaskRows]:
        self._last = next(self._looks, self._last)
        if isinstance(self._last, Exception):
            raise self._last
        return self._last

    async def rejected(self) -> list[dict[str, Any]]:
        return self._rejected


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "_LOOK_EVERY", 0.01)


async def test_settling_is_waited_for() -> None:
    """The tables are down, a task is unfinished, then finished but not announced, then announced."""
    end = rows(task("Processed", 1))
    tables = _Tables(
        ServiceRequestError("away"),
        {ORDER: rows(task("Processing", 1))},
        {ORDER: end.model_copy(update={"outbox": ("!send|1",)})},
        {ORDER: end},
        rejected=[],
    )
    assert await _leftovers(tables, within=PATIENCE) == []


async def test_order_whose_message_was_dead_lettered_is_not_waited_for() -> None:
    """It never gets a task."""
    dead = {"Body0": f'{{"task_id":"{ORDER}"}}'.encode()}
    assert await _leftovers(_Tables({}, rejected=[dead]), within=PATIENCE) == []


@pytest.mark.parametrize(
    ("tables", "queue", "expected"),
    [
        (_Tables({}, rejected=[]), {}, f"1 orders have no task: ['{ORDER}']"),
        (
            _Tables({ORDER: rows(task("Pending", 1))}, rejected=[]),
            {},
            f"1 tasks are unfinished: ['{ORDER}']",
        ),
        (
            _Tables({ORDER: rows(task("Error", 1))}, rejected=[]),
            {"name": "scheduler-requests", "scheduled": 1},
            "queue scheduler-requests holds 1 messages",
        ),
        (
            _Tables({ORDER: rows(task("Error", 1))}, rejected=[]),
            {"name": "notices-demo", "dead_lettered": 2},
            "queue notices-demo holds 2 messages",
        ),
    ],
)
async def test_what_is_left_is_named(tables: _Tables, queue: dict[str, Any], expected: str) -> None:
    """When the time is over, what is unfinished is described."""
    assert await _leftovers(tables, queue, within=0.03) == [expected]


async def test_notices_wait_for_their_reader() -> None:
    """They do not keep the platform from settling."""
    tables = _Tables({ORDER: rows(task("Error", 1))}, rejected=[])
    assert await _leftovers(tables, {"name": "notices-demo", "active": 9}, within=PATIENCE) == []


async def _leftovers(tables: _Tables, queue: dict[str, Any] | None = None, *, within: float) -> list[str]:
    figures = {"name": "submissions", **_EMPTY, **(queue or {})}
    async with _admin(figures) as url:
        settled = await settle(cast("Tables", tables), url, [ORDER], list, within)
    return list(settled.leftovers)


@asynccontextmanager
async def _admin(figures: dict[str, Any]) -> AsyncIterator[str]:
    async def queues(_request: web.Request) -> web.Response:
        return web.json_response([figures])

    application = web.Application()
    application.add_routes([web.get("/queues", queues)])
    async with TestServer(application) as server:
        yield str(server.make_url("")).rstrip("/")
