"""Counts of the host are those of a phase, and all of Durable history is counted."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from local.bench import host_figures
from local.bench.host_figures import Figures, completed_orders, history_events, until_completed

#: What is shown of an orchestration with one activity.
_SHOWN = ("ExecutionStarted", "TaskCompleted", "ExecutionCompleted")


async def _instances(request: web.Request) -> web.Response:
    prefix = request.query["instanceIdPrefix"]
    return web.json_response([{"instanceId": f"{prefix}1"}, {"instanceId": f"{prefix}2"}])


async def _instance(_: web.Request) -> web.Response:
    return web.json_response({"historyEvents": [{"EventType": name} for name in _SHOWN]})


def _host(runs: int, ended: int) -> web.Application:
    """Return a host with `runs` completed orchestrations, which recorded the end of `ended` orders."""

    async def status(_: web.Request) -> web.Response:
        await asyncio.sleep(0)
        functions = {"agent_replies": {"succeeded": ended}}
        return web.json_response({"durable": {"orchestrations_completed": runs}, "functions": functions})

    app = web.Application()
    app.router.add_get("/admin/host/status", status)
    return app


async def test_every_event_of_every_instance_is_counted() -> None:
    """Two instances of one activity each, eight events in each: start, end, and three of each episode."""
    app = web.Application()
    app.router.add_get("/runtime/webhooks/durabletask/instances", _instances)
    app.router.add_get("/runtime/webhooks/durabletask/instances/{id}", _instance)
    figures = Figures(
        transactions=0, operations=0, reads=0, messages=0, episodes=4, activities=2, executions=0
    )
    async with TestServer(app) as server, aiohttp.ClientSession(server.make_url("/")) as session:
        assert await history_events(session, ["one"], figures) == 16


def test_counts_of_a_phase_leave_out_what_was_before() -> None:
    """Each count by itself."""
    before, after = Figures(1, 2, 3, 4, 5, 6, 7), Figures(11, 22, 33, 44, 55, 66, 77)
    assert after.since(before) == Figures(10, 20, 30, 40, 50, 60, 70)


async def test_counts_of_all_hosts_are_summed() -> None:
    """An order may have its run in one host, and its end in another."""
    async with AsyncExitStack() as stack:
        sessions = []
        for runs, ended in ((1, 3), (4, 0)):
            server = await stack.enter_async_context(TestServer(_host(runs, ended)))
            sessions.append(await stack.enter_async_context(aiohttp.ClientSession(server.make_url("/"))))
        assert await completed_orders(sessions, "agent_replies") == 3


async def test_orders_that_do_not_end_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """An order is complete when its orchestration and its last function are."""
    monkeypatch.setattr(host_figures, "_PATIENCE", 3.0)
    shown = set[int]()
    async with TestServer(_host(4, 3)) as server, aiohttp.ClientSession(server.make_url("/")) as session:
        with pytest.raises(TimeoutError, match=r"^2 orders were not completed within 3 s$"):
            await until_completed([session], "agent_replies", 5, shown.add)
    assert shown == {3}
