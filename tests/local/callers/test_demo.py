"""The demo and `run`: the orders that they send, what they follow, and the summary."""

from __future__ import annotations

import asyncio
import io
import json
import shlex
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from pydantic import create_model
from rich.console import Console

from functions.workflow import Step, Workflow
from local.callers import cases, demo
from local.callers.cases import Case, Submission, example_orders, submissions
from local.callers.client import (
    SAMPLE_DELIVERY,
    CalledStep,
    OrderRefusedError,
    OrderState,
    OrderStatus,
)
from local.callers.demo import DemoResult, orders_per_second, percentile, run_demo, summary
from local.callers.one_order import next_command, show_one_order
from local.command_line import main
from local.commands import demo_at
from local.platform import StartRefusedError
from tests.fakes.application import ERRANDS

_STEPS = ("account", "package", "transport", "drone", "delivery")
_AT = "2026-11-21T10:00:00+00:00"
SUBMITTED = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
#: From the queue to the end: no status yet, then each state.
HAPPY_LIFE = (None, "Accepted", "Pending", "Processing", "Processed")


@dataclass(slots=True)
class CannedDeliveries:
    """The deliveries of one API. The services in `left_behind` keep their resource after its undo."""

    has_services: bool = True
    left_behind: frozenset[str] = frozenset()
    #: The received requests: the size of each batch, and each delivery by its id.
    batches: list[int] = field(default_factory=list)
    bodies: dict[str, dict[str, Any]] = field(default_factory=dict)
    suspended: set[str] = field(default_factory=set)
    faults: set[str] = field(default_factory=set)
    refused_drones: set[str] = field(default_factory=set)

    def routes(self) -> list[web.RouteDef]:
        """Return the API's routes, and those of the services if there are any."""
        api = [
            web.post("/api/deliveries", self._submit),
            web.post("/api/deliveries/batch", self._submit),
            web.get("/api/deliveries/{id}", self._look),
        ]
        services = [
            web.put("/api/services/accounts/{id}", self._suspend),
            web.put("/api/services/drones/faults/{id}", self._refuse),
            web.delete("/api/services/drones/faults/{id}", self._end),
            web.get("/api/services/{service}/{id}", self._resource),
        ]
        return api + services if self.has_services else api

    async def _submit(self, request: web.Request) -> web.Response:
        orders = (await request.json())["deliveries"]
        self.batches.append(len(orders))
        self.bodies |= {order["id"]: order for order in orders}
        results = [{"index": index, "status": 202, "id": each["id"]} for index, each in enumerate(orders)]
        return web.json_response({"results": results})

    async def _look(self, request: web.Request) -> web.Response:
        order_id = request.match_info["id"]
        steps = self._steps(order_id)
        state = "Processed" if steps["delivery"] == "Completed" else "Compensated"
        shown = [{"name": name, "state": of_step} for name, of_step in steps.items()]
        order = {"id": order_id, "state": state, "submitted_at": _AT, "finished_at": _AT, "steps": shown}
        return web.json_response(order)

    def _steps(self, order_id: str) -> dict[str, str]:
        delivery = self.bodies[order_id]
        steps = dict.fromkeys(_STEPS, "Completed")
        if delivery["dropoff"]["latitude"] > 47:
            steps["transport"] = "Skipped"
        if order_id in self.refused_drones:
            steps |= {"package": "Undone", "drone": "Undone", "delivery": "Not started"}
        if delivery["account"] in self.suspended:
            steps = dict.fromkeys(_STEPS, "Not started") | {"account": "Refused"}
        return steps

    async def _suspend(self, request: web.Request) -> web.Response:
        assert await request.json() == {"suspended": True}
        self.suspended.add(request.match_info["id"])
        return web.Response(status=201)

    async def _refuse(self, request: web.Request) -> web.Response:
        assert await request.json() == {"kind": "refuse"}
        self.refused_drones.add(request.match_info["id"])
        self.faults.add(request.match_info["id"])
        return web.Response(status=204)

    async def _end(self, request: web.Request) -> web.Response:
        self.faults.discard(request.match_info["id"])
        return web.Response(status=204)

    async def _resource(self, request: web.Request) -> web.Response:
        service, order_id = request.match_info["service"], request.match_info["id"]
        if order_id in self.faults:
            return web.Response(status=422)
        if order_id not in self.refused_drones:
            return web.Response(status=404)
        return web.json_response({"undone_at": None if service in self.left_behind else _AT})


@asynccontextmanager
async def canned_api(
    life: Sequence[str | None] = HAPPY_LIFE,
    *,
    submit_status: int = 202,
    deliveries: CannedDeliveries | None = None,
) -> AsyncIterator[str]:
    """Serve the API for the block, with `deliveries` if there are any, and yield its address."""
    looks: dict[str, int] = {}

    async def submit(request: web.Request) -> web.Response:
        await request.json()
        looks[request.match_info["id"]] = 0
        return web.json_response({"title": "canned"}, status=submit_status)

    async def look(request: web.Request) -> web.Response:
        order_id = request.match_info["id"]
        state = life[min(looks[order_id], len(life) - 1)]
        looks[order_id] += 1
        if state is None:
            return web.json_response({"title": "unknown"}, status=404)
        return web.json_response(_canned_order(order_id, state))

    app, orders = web.Application(), f"/api/{Case.ORDER.resource}"
    app.add_routes(
        [
            web.post(orders, submit),
            web.put(f"{orders}/{{id}}", submit),
            web.get(f"{orders}/{{id}}", look),
        ]
    )
    if deliveries is not None:
        app.add_routes(deliveries.routes())
    async with TestServer(app) as server:
        yield str(server.make_url("/"))


def _canned_order(order_id: str, state: str) -> dict[str, object]:
    finished = (SUBMITTED + timedelta(seconds=0.25)).isoformat() if state in {"Processed", "Error"} else None
    step = {
        "name": "payment",
        "state": "Completed" if finished else "Running",
        "started_at": SUBMITTED.isoformat(),
    }
    return {
        "id": order_id,
        "state": state,
        "workflow": "orders",
        "submitted_at": SUBMITTED.isoformat(),
        "finished_at": finished,
        "steps": [{**step, "finished_at": finished}],
        "last_error": "the card was refused" if state == "Error" else None,
    }


@pytest.fixture(autouse=True)
def _example(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send the example of a workflow of the tests."""
    monkeypatch.setattr(cases, "FIRST_WORKFLOW", ERRANDS.workflow)


async def _run(url: str, orders: int, deliveries: int = 0) -> DemoResult:
    return await run_demo(url, Console(file=io.StringIO()), orders=orders, deliveries=deliveries)


async def test_demo_follows_every_order_to_its_end() -> None:
    """Services refuse the cases that say so, and no refusal of a drone remains. Lines replace the bars."""
    screen, canned = io.StringIO(), CannedDeliveries()
    async with canned_api(deliveries=canned) as url:
        result = await run_demo(url, Console(file=screen, width=80), orders=4, deliveries=16)
    assert result.all_as_expected
    assert len(result.submit_seconds) == 4
    states = Counter((each.case, result.orders[each.id].state) for each in result.submissions)
    assert states == {
        (Case.ORDER, OrderState.PROCESSED): 4,
        (Case.NEAR, OrderState.PROCESSED): 8,
        (Case.FAR, OrderState.PROCESSED): 4,
        (Case.SUSPENDED, OrderState.COMPENSATED): 2,
        (Case.NO_DRONE, OrderState.COMPENSATED): 2,
    }
    assert len(canned.refused_drones) == 2
    assert canned.faults == set()
    submitted, finished = ["submitted: 20 …", "submitted: 20 of 20"], ["finished: 20 …", "finished: 20 of 20"]
    assert screen.getvalue().splitlines() == [*submitted, *finished]


@pytest.mark.parametrize("service", ["packages", "drones", "deliveries"])
async def test_what_was_not_undone_at_its_service_is_found(service: str) -> None:
    """Although the application says that it was. The size of a batch is limited."""
    canned = CannedDeliveries(left_behind=frozenset({service}))
    async with canned_api(deliveries=canned) as url:
        result = await _run(url, 0, 501)
    assert canned.batches == [500, 1]
    assert len(result.batch_seconds) == 2
    assert not result.all_as_expected
    unmet = {each.case: result.unmet(each) for each in result.submissions if result.unmet(each)}
    assert unmet == {Case.NO_DRONE: f"there is still something at {service}"}


@pytest.mark.parametrize(("life", "code"), [(HAPPY_LIFE, 0), (("Error",), 1)])
async def test_the_exit_code_shows_whether_all_ended_as_expected(
    life: tuple[str | None, ...], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """One order in `Error` is a demo that failed."""
    async with canned_api(life, deliveries=CannedDeliveries()) as url:
        assert await demo_at(url, 2, 4) == code
    assert "orders/s" in capsys.readouterr().out


async def test_what_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is in the summary with its last status."""
    monkeypatch.setattr(demo, "_PATIENCE", 0.1)
    monkeypatch.setattr(demo, "_PATIENCE_PER_ORDER", 0)
    async with canned_api(["Processing"]) as url:
        result = await _run(url, 2)
    assert len(result.unfinished) == 2
    assert [result.unmet(each) for each in result.submissions] == ["Processing", "Processing"]


async def test_demo_that_can_not_succeed_ends_with_the_reason_or_the_fix(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An API that refuses the sample gets no further requests; an application may serve no samples.

    Without `deliveries`, the error names the option that omits them, and no order is submitted.
    """
    async with canned_api(submit_status=503) as url:
        with pytest.raises(OrderRefusedError, match=r"503.*canned"):
            await _run(url, 50)
    async with canned_api(deliveries=CannedDeliveries(has_services=False)) as url:
        with pytest.raises(OrderRefusedError, match=r"SAMPLE_SERVICES=1.*--deliveries 0"):
            await _run(url, 1, 8)
    async with canned_api() as url:
        arguments = ["demo", "--orders", "2", "--url", url]
        assert await asyncio.to_thread(main, [*arguments, "--deliveries", "1"]) == 2
        line = "There is no resource 'deliveries' here: leave it out with `--deliveries 0`.\n"
        assert capsys.readouterr() == ("", line)
        assert await asyncio.to_thread(main, [*arguments, "--deliveries", "0"]) == 0


def test_payload_without_an_example_is_named_with_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first workflow of an adopter may have none."""
    step = Step("pick", request=lambda _line, _results: {})
    monkeypatch.setattr(
        cases, "FIRST_WORKFLOW", Workflow("lines", payload=create_model("Line"), steps=[step])
    )
    fix = 'add model_config = ConfigDict(json_schema_extra={"examples": [{…}]})'
    with pytest.raises(StartRefusedError) as refusal:
        example_orders()
    assert str(refusal.value) == f"test_demo.py: Line has no example order to send: {fix}"


def _order(state: OrderState, steps: dict[str, str], last_error: str | None = None) -> OrderStatus:
    shown = tuple(CalledStep(name=name, state=of_step) for name, of_step in steps.items())
    at = datetime(2026, 11, 21, tzinfo=UTC)
    return OrderStatus(id="a", state=state, submitted_at=at, steps=shown, last_error=last_error)


def test_a_few_deliveries_try_every_case() -> None:
    """Every submission has an id of its own, and names its reply queue, if there is one."""
    made = submissions(2, 8)
    assert [each.case for each in made[:2]] == [Case.ORDER, Case.ORDER]
    assert {each.case for each in made[2:6]} == set(Case) - {Case.ORDER}
    assert len({each.id for each in made}) == 10
    near = Submission("demo-1", Case.NEAR)
    assert near.in_batch() == SAMPLE_DELIVERY | {"id": "demo-1"}
    assert near.in_batch("notices-demo") == {**near.in_batch(), "reply_to": "notices-demo"}


def test_an_unexpected_outcome_is_described() -> None:
    """No status, another state, or a step in another state."""
    expectation = Case.NEAR.expectation
    steps = dict(expectation.steps)
    assert expectation.unmet(None) == "never seen"
    assert expectation.unmet(_order(OrderState.ERROR, steps, "no drone")) == "Error (no drone)"
    assert expectation.unmet(_order(OrderState.PENDING, steps)) == "Pending"
    assert (
        expectation.unmet(_order(OrderState.PROCESSED, steps | {"transport": "Completed"}))
        == "Processed, but transport Completed"
    )
    del steps["drone"]
    assert expectation.unmet(_order(OrderState.PROCESSED, steps)) == "Processed, but drone None"


async def _screen(*life: str | None) -> list[str]:
    """Return the printed lines of an order with the states of `life`."""
    screen = io.StringIO()
    async with canned_api(life) as url:
        await show_one_order(url.rstrip("/"), Console(file=screen, width=100))
    return screen.getvalue().splitlines()


async def test_each_change_is_a_line_where_there_is_no_terminal() -> None:
    """A log file shows the same progress; an unchanged state is not repeated. An error has its reason.

    The command to try next can be pasted into a shell as it is.
    """
    lines = await _screen(None, "Pending", "Processing", "Processing", "Processed")
    states = ["Submitted:", "Pending", "Processing", "Processed", "Processed"]
    assert [line.split()[0] for line in lines] == states
    assert lines[-1] == "Processed after 0.25 s"
    assert (await _screen("Error"))[-1] == "Error after 0.25 s: the card was refused"
    words = shlex.split(next_command("http://127.0.0.1:7071"))
    assert words[:3] == ["curl", "-i", f"http://127.0.0.1:7071/api/{Case.ORDER.resource}"]
    assert json.loads(words[-1]) == example_orders()[0]


def _order_in(
    order_id: str, state: OrderState, seconds: float | None, case: Case = Case.ORDER
) -> OrderStatus:
    finished = SUBMITTED + timedelta(seconds=seconds) if seconds is not None else None
    steps = tuple(CalledStep(name=name, state=of_step) for name, of_step in case.expectation.steps.items())
    return OrderStatus(id=order_id, state=state, submitted_at=SUBMITTED, finished_at=finished, steps=steps)


def _printed(result: DemoResult) -> list[list[str]]:
    screen = io.StringIO()
    Console(file=screen, width=160).print(summary(result))
    return [
        [cell.strip() for cell in line.split("│")[1:-1]]
        for line in screen.getvalue().splitlines()
        if line.startswith("│")
    ]


def test_a_case_is_ticked_or_crossed() -> None:
    """With its number; each exception is named and counted."""
    submissions = [Submission("a", Case.NEAR), Submission("b", Case.NO_DRONE)]
    orders = {
        "a": _order_in("a", OrderState.PROCESSED, 1, Case.NEAR),
        "b": _order_in("b", OrderState.COMPENSATED, 1, Case.NO_DRONE),
    }
    rows = _printed(DemoResult(submissions, orders))
    assert ["✓", "delivery near by, no transport", "1", "Processed", "1 Processed"] in rows
    assert ["✓", "delivery, drone refused", "1", "Compensated", "1 Compensated"] in rows
    assert not [row for row in rows if row[0] == "✗"]
    orders = {name: _order_in(name, OrderState.PROCESSED, 0.5) for name in "ab"}
    orders["c"] = _order_in("c", OrderState.PENDING, None)
    result = DemoResult([Submission(each, Case.ORDER) for each in (*orders, "missing")], orders)
    row = ["✗", Case.ORDER.label, "4", "Processed", "2 Processed, 1 Pending, 1 never seen"]
    assert row in _printed(result)


def test_figures_are_the_services_own() -> None:
    """From submission to end."""
    orders = {"a": _order_in("a", OrderState.PROCESSED, 0.5), "b": _order_in("b", OrderState.ERROR, 2.0)}
    result = DemoResult([Submission(each, Case.ORDER) for each in orders], orders)
    result.submit_seconds, result.batch_seconds = [0.01, 0.02], [0.3]
    result.notices = Counter({"received": 2})
    rows = _printed(result)
    assert ["notices: received", "2"] in rows
    assert ["submit one p50 / p99", "10 ms / 20 ms"] in rows
    assert ["submit a batch p50 / p99", "300 ms / 300 ms"] in rows
    assert ["end to end p50 / p99", "500 ms / 2000 ms"] in rows
    assert ["orders/s", "1.0"] in rows


def test_figures_are_of_measured_values() -> None:
    """A percentile is the nearest rank; a rate is from the first submission to the last end."""
    assert [percentile(list(range(100, 0, -1)), each) for each in (50, 99, 100, 1)] == [50, 99, 100, 1]
    assert orders_per_second([_order_in("a", OrderState.PENDING, None)]) is None
    ended = [_order_in("a", OrderState.PROCESSED, 4), _order_in("b", OrderState.PROCESSED, 2)]
    assert orders_per_second(ended) == 0.5
