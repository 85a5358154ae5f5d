"""`python -m local bench`: its tables, flame graph and exit code; counts of the host, and measured apps."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from functions.workflow import Results
from local.bench import orders
from local.bench.five_steps.workflow import PARCEL, PARCELS
from local.bench.orders import Figures, completed_orders, history_events, until_completed
from local.bench.probes import flame_graph
from local.bench.workloads import FIVE_STEPS, ORDERS, Workload
from local.platform import ROOT, PlatformError

_BENCH = (sys.executable, "-m", "local", "bench", "--hosts", "2", "--in-memory")
#: Three platforms start one after the other, on a machine that may be busy.
_WHOLE_RUN = 600


@pytest.mark.process
@pytest.mark.timeout(_WHOLE_RUN)
def test_a_run_prints_two_tables_and_writes_the_flame_graph(tmp_path: Path) -> None:
    """Each workload has its costs, and exit code 0 says that every order was processed."""
    graph = tmp_path / "host.svg"
    run = subprocess.run(
        [*_BENCH, "--orders", "10", "--spike", "1000", "--profile", str(graph)],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    for count in ("table transactions", "rows written", "Durable history events"):
        phases = re.findall(rf"{count} an order +│ +([\d.]+) +│ +([\d.]+) ", run.stdout)
        assert [min(map(float, costs)) > 0 for costs in phases] == [True] * 4
    assert re.search("one at a time.+10 at once.+half of that rate.+10 orders/s ", run.stdout, re.DOTALL)
    cpu: dict[str, list[float]] = {}
    for process in ("host", "host-2", "broker", "azurite", "client", "all hosts"):
        loads = re.findall(rf"CPU an order, {process} \(ms\) +│ +([\d.]+) +│ +([\d.]+) ", run.stdout)
        assert len(loads) == 4
        cpu[process] = [float(load) for phase in loads for load in phase]
        memory = re.search(rf"memory, {process} +│ [1-9]\d* MiB +│ [1-9]\d* MiB ", run.stdout)
        assert (memory is None) == (process == "all hosts")
    sums = map(sum, zip(cpu["host"], cpu["host-2"], strict=True))
    assert cpu["all hosts"] == pytest.approx(list(sums), abs=0.02)
    assert min(cpu["host-2"]) > 0
    assert re.search(r"longest garbage collection \(CPU\) +│ [\d.]+ ms +│ [\d.]+ ms ", run.stdout)
    assert re.search(r"not accepted, lost +│ 0, 0 ", run.stdout)
    assert re.search(r"a spike of 1000 orders +│ [\d,]+/s ", run.stdout)
    assert re.search(r"azure-functions-durable [\d.]+, ", run.stdout)
    assert "<svg" in graph.read_text()
    assert [path.name for path in tmp_path.iterdir()] == [graph.name]


#: The visible events of an orchestration with one activity.
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


async def test_counts_of_all_hosts_are_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An order may have its run in one host, and its end in another; it is complete when both are.

    Orders that do not end are named. The counts of a phase exclude those of earlier phases.
    """
    monkeypatch.setattr(orders, "_PATIENCE", 3.0)
    shown = set[int]()
    async with AsyncExitStack() as stack:
        sessions = []
        for runs, ended in ((1, 3), (4, 0)):
            server = await stack.enter_async_context(TestServer(_host(runs, ended)))
            sessions.append(await stack.enter_async_context(aiohttp.ClientSession(server.make_url("/"))))
        assert await completed_orders(sessions, "agent_replies") == 3
        with pytest.raises(TimeoutError, match=r"^2 orders were not completed within 3 s$"):
            await until_completed(sessions, "agent_replies", 5, shown.add)
    assert shown == {3}
    before, after = Figures(1, 2, 3, 4, 5, 6, 7), Figures(11, 22, 33, 44, 55, 66, 77)
    assert after.since(before) == Figures(10, 20, 30, 40, 50, 60, 70)


@pytest.mark.parametrize("workload", [ORDERS, FIVE_STEPS])
def test_an_app_has_the_host_json_and_the_queues_of_the_application(
    workload: Workload, tmp_path: Path
) -> None:
    """And its settings: orders cost here what they cost on the local platform."""
    options = workload.options(tmp_path)
    assert (options.app / "host.json").read_bytes() == (ROOT / "host.json").read_bytes()
    assert (options.app / "function_app.py").read_bytes() == workload.function_app.read_bytes()
    assert options.queues == ROOT / "infra" / "queues.json"
    sample = "local.settings.sample.json"
    assert (options.app / sample).read_bytes() == (ROOT / sample).read_bytes()


def test_the_five_steps_run_in_order() -> None:
    """Each step needs the previous step, and its request is the whole payload."""
    specs = PARCELS.specs
    assert [spec.needs for spec in specs] == [frozenset(), *(frozenset({spec.name}) for spec in specs[:-1])]
    parcel = PARCELS.payload.model_validate(PARCEL)
    requests = [step.request(parcel, Results({}, "")) for step in PARCELS.steps.values() if step.request]
    assert requests == [PARCEL] * 5


async def test_an_ended_process_is_an_error_with_its_reason(tmp_path: Path) -> None:
    """The error is raised before the block."""
    gone = await asyncio.create_subprocess_exec("true")
    await gone.wait()
    with pytest.raises(PlatformError, match=r"^py-spy did not sample the host: ") as refused:
        async with flame_graph(gone.pid, tmp_path / "graph.svg"):
            pytest.fail("the block was entered")
    assert re.fullmatch(r"[^\n]+", str(refused.value))
