"""The platform has settled when no task, message or caller is left, or when the time is over."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from functions.core.record import TaskRecord
from functions.storage.table_contract import TransientStorageError
from tests.chaos.callers import Callers
from tests.chaos.evidence import settling
from tests.chaos.evidence.settling import settle
from tests.chaos.evidence.tables import Tables
from tests.chaos.plan import make_plan
from tests.local.platform.processes import PATIENCE
from tests.unit.core.builders import new, run, spec

_EMPTY = {"active": 0, "scheduled": 0, "deferred": 0, "dead_lettered": 0}
_PLAN = make_plan(1, 1, 1)
ORDER = _PLAN.orders[0].id


_UNFINISHED = new(spec("pay"))
_PROCESSED = run(_UNFINISHED, "pay")


class _Tables:
    """Returns the next of its contents at each look, and then the last one again."""

    def __init__(self, *looks: dict[str, TaskRecord] | Exception, unsent: Sequence[str] = ()) -> None:
        self._looks: Iterator[dict[str, TaskRecord] | Exception] = iter(looks)
        self._last: dict[str, TaskRecord] | Exception = {}
        self._unsent = list(unsent)

    async def records(self) -> dict[str, TaskRecord]:
        self._last = next(self._looks, self._last)
        if isinstance(self._last, Exception):
            raise self._last
        return self._last

    async def unsent(self) -> list[str]:
        """Return the messages, which are sent after this look."""
        unsent, self._unsent = self._unsent, []
        return unsent


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "_LOOK_EVERY", 0.01)


async def test_settling_is_waited_for() -> None:
    """The tables are down, a task is unfinished, then finished; its message is not sent, then sent."""
    tables = _Tables(
        TransientStorageError("away"),
        {ORDER: _UNFINISHED},
        {ORDER: _PROCESSED},
        unsent=["!send|1"],
    )
    assert await _settled(tables, within=PATIENCE) == []


@pytest.mark.parametrize(
    ("record", "queue", "expected"),
    [
        (None, {}, f"{ORDER}: it has no task"),
        (_UNFINISHED, {}, f"{ORDER}: Pending in epoch 1: None"),
        (
            _PROCESSED,
            {"name": "scheduler-requests", "scheduled": 1},
            "queue scheduler-requests holds 1 messages",
        ),
        (_PROCESSED, {"name": "notices-demo", "dead_lettered": 2}, "queue notices-demo holds 2 messages"),
    ],
)
async def test_leftover_is_named(record: TaskRecord | None, queue: dict[str, Any], expected: str) -> None:
    """When the time is over, there is a line for each leftover."""
    tables = _Tables({} if record is None else {ORDER: record})
    assert await _settled(tables, queue, within=0.03) == [expected]


async def test_order_whose_caller_has_no_answer_is_left() -> None:
    """Its caller sends it again."""
    tables = _Tables({ORDER: _PROCESSED})
    assert await _settled(tables, within=0.03, waits=True) == [f"{ORDER}: its caller has no answer"]


async def test_notices_wait_for_their_reader() -> None:
    """They do not keep the platform from settling."""
    tables = _Tables({ORDER: _PROCESSED})
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
