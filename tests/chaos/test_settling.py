"""The platform has settled when no task, message or caller is left, or when the time is over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import pytest
from aiohttp import web

from functions.core.record import TaskRecord
from functions.storage.table_contract import TransientStorageError
from tests.chaos import evidence
from tests.chaos.callers import Callers
from tests.chaos.evidence import Tables, settle
from tests.chaos.plan import make_plan
from tests.fakes.web_server import served
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
    monkeypatch.setattr(evidence, "_LOOK_EVERY", 0.01)


async def test_settling_is_waited_for() -> None:
    """The tables are down, a task is unfinished, then finished; its message is not sent, then sent.

    Notices wait for their reader, and do not keep the platform from settling.
    """
    looks = (TransientStorageError("away"), {ORDER: _UNFINISHED}, {ORDER: _PROCESSED})
    notices = {"name": "notices-demo", "active": 9}
    assert await _settled(_Tables(*looks, unsent=["!send|1"]), notices, within=PATIENCE) == []


@pytest.mark.parametrize(
    ("record", "queue", "expected"),
    [
        (None, {}, f"{ORDER}: it has no task"),
        (_UNFINISHED, {}, f"{ORDER}: Pending in epoch 1: None"),
        (_PROCESSED, {"name": "agent-replies", "scheduled": 1}, "queue agent-replies holds 1 messages"),
        (_PROCESSED, {"name": "notices-demo", "dead_lettered": 2}, "queue notices-demo holds 2 messages"),
        (_PROCESSED, None, f"{ORDER}: its caller has no answer"),
    ],
)
async def test_leftover_is_named(
    record: TaskRecord | None, queue: dict[str, Any] | None, expected: str
) -> None:
    """When the time is over, there is a line for each leftover."""
    tables = _Tables({} if record is None else {ORDER: record})
    leftovers = await _settled(tables, queue or {}, within=0.03, waits=queue is None)
    assert leftovers == [expected]


async def _settled(
    tables: _Tables, queue: dict[str, Any], *, within: float, waits: bool = False
) -> Sequence[str]:
    async def queues(_request: web.Request) -> web.Response:
        return web.json_response([{"name": "submissions", **_EMPTY, **queue}])

    callers = Callers(["http://localhost"], _PLAN.orders)
    if not waits:
        callers.waiting.clear()
    application = web.Application()
    application.add_routes([web.get("/queues", queues)])
    async with served(application) as url:
        _, leftovers = await settle(cast("Tables", tables), url, callers, within)
    return leftovers
