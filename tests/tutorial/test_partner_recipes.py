"""The recipes for services of others, with stand-ins that have an interface, or a limit, of their own."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import pytest
import pytest_asyncio
from aiohttp import web

from tests.e2e.caller import PATIENCE
from tests.fakes.web_server import served
from tests.tutorial.project import Cook, commands, cooking

#: The partner's limit of calls a second.
_ALLOWED = 2
#: The seconds between the looks at a job, and the looks until it is done.
_LOOK_AFTER = 0.3
_LOOKS = 2


class Partners:
    """Serve `/partner`, `/reports` and `/logistics`."""

    def __init__(self) -> None:
        self.url = ""
        #: Calls that came too soon, and those that were answered.
        self.too_many = 0
        self.looked_up: list[str] = []
        #: The jobs that never end; the looks at each job; the stopped jobs.
        self.endless: set[str] = set()
        self.looks: Counter[str] = Counter()
        self.stopped: set[str] = set()
        #: Shipments whose answer is lost; shipments by their key; cancellations by our reference.
        self.lost: set[str] = set()
        self.shipments: dict[str, dict[str, Any]] = {}
        self.cancelled: dict[str, str | None] = {}
        self._answered: deque[float] = deque([0.0] * _ALLOWED, maxlen=_ALLOWED)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Self]:
        """Serve on a free port."""
        app = web.Application()
        app.router.add_put("/partner/{id}", self._look_up)
        app.router.add_put("/reports/{id}", self._start)
        app.router.add_get("/reports/{id}", self._look)
        app.router.add_delete("/reports/{id}", self._stop)
        app.router.add_post("/logistics/shipments", self._ship)
        app.router.add_post("/logistics/cancellations", self._cancel)
        async with served(app) as self.url:
            yield self

    async def _look_up(self, request: web.Request) -> web.Response:
        now = asyncio.get_running_loop().time()
        if now - self._answered[0] < 1:
            self.too_many += 1
            return web.Response(status=429, headers={"Retry-After": "1"})
        self._answered.append(now)
        self.looked_up.append((await request.json())["address"])
        return web.json_response({"reference": f"of {self.looked_up[-1]}"})

    async def _start(self, request: web.Request) -> web.Response:
        return self._state(_task(request.match_info["id"]))

    async def _look(self, request: web.Request) -> web.Response:
        job = _task(request.match_info["id"])
        self.looks[job] += 1
        return self._state(job)

    async def _stop(self, request: web.Request) -> web.Response:
        self.stopped.add(_task(request.match_info["id"]))
        return web.Response()

    def _state(self, job: str) -> web.Response:
        look_at = datetime.now(UTC) + timedelta(seconds=_LOOK_AFTER)
        is_done = self.looks[job] >= _LOOKS and job not in self.endless
        url = "https://reports.example.com/1" if is_done else None
        return web.json_response({"done": is_done, "look_at": look_at.isoformat(), "url": url})

    async def _ship(self, request: web.Request) -> web.Response:
        key, ordered = request.headers["Idempotency-Key"], await request.json()
        reference = _task(ordered["reference"])
        self.shipments.setdefault(key, {**ordered, "number": f"L-{len(self.shipments) + 1}"})
        if reference in self.lost:
            await asyncio.Event().wait()
        return web.json_response({"number": self.shipments[key]["number"]})

    async def _cancel(self, request: web.Request) -> web.Response:
        cancelled = await request.json()
        self.cancelled[_task(cancelled["reference"])] = cancelled["number"]
        return web.Response()


def _task(resource: str) -> str:
    """Return the task of a resource, without the run id."""
    return resource.partition(".")[0]


pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

_SETTINGS = {
    "SUPERVISOR_SCHEDULE": "* * * * * *",
    "SUPERVISOR_THRESHOLD": "0",
    "EXTENDED_WAITS": "1",
    "SKEW_SECONDS": "0.5",
}
_ADDRESSES = ["Rua A 1", "Rua B 2", "Rua C 3", "Rua D 4"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def partners() -> AsyncIterator[Partners]:
    """Serve them."""
    async with Partners().serving() as partners:
        yield partners


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cook(tmp_path_factory: pytest.TempPathFactory, partners: Partners) -> AsyncIterator[Cook]:
    """Run the application with the recipes' workflows and these services."""
    urls = {
        "PARTNER_URL": f"{partners.url}/partner",
        "REPORT_URL": f"{partners.url}/reports",
        "REPORT_STATE_URL": f"{partners.url}/reports",
        "STATEMENT_URL": f"{partners.url}/reports",
        "LOGISTICS_URL": f"{partners.url}/logistics",
    }
    async with cooking(tmp_path_factory.mktemp("partners"), _SETTINGS | urls) as cook:
        yield cook


async def test_crowd_at_a_partner_with_a_limit_costs_nothing_but_time(cook: Cook, partners: Partners) -> None:
    """Each address is looked up once, and no order is recovered."""
    submit, look = commands("lookups")
    orders = ("spring", "summer", "autumn")
    for order in orders:
        await cook.types(submit.replace("spring", order))
    for order in orders:
        found = await cook.until(look.replace("spring", order), '"state":"Processed"')
        assert found["output"]["references"] == [f"of {each}" for each in _ADDRESSES]
        await cook.until(f"curl http://127.0.0.1:7071/api/ops/tasks/{order}", '"failure_count":0')
    assert sorted(partners.looked_up) == sorted(_ADDRESSES * len(orders))
    assert partners.too_many > 0


async def test_report_is_looked_at_until_it_is_done(cook: Cook, partners: Partners) -> None:
    """The steps that follow are skipped."""
    submit, look = commands("reports")
    report = await cook.ends(submit, look)
    assert report["output"] == {"url": "https://reports.example.com/1"}
    states = [step["state"] for step in report["steps"]]
    assert states == ["Completed"] * 5 + ["Skipped"] * 6
    assert partners.looks["sales"] == 2
    assert "sales" not in partners.stopped


async def test_statement_is_looked_at_by_its_agent_until_it_is_done(cook: Cook, partners: Partners) -> None:
    """In one step; one that is never done ends with the step's time, and is cancelled."""
    partners.endless.add("june")
    submit, look = commands("statements")
    await cook.types(submit)
    await cook.types(submit.replace("may", "june"))
    statement = await cook.until(look, '"state":"Processed"')
    assert statement["output"] == {"url": "https://reports.example.com/1"}
    assert partners.looks["may"] == 2
    statement = await cook.until(look.replace("may", "june"), '"state":"Compensated"')
    assert statement["last_error"] == "statement: overdue after 1 recovery"
    assert partners.looks["june"] > 2
    assert "june" in partners.stopped


async def test_report_that_is_never_done_is_cancelled(cook: Cook, partners: Partners) -> None:
    """After the last look."""
    partners.endless.add("costs")
    submit, look = (each.replace("sales", "costs") for each in commands("reports"))
    report = await cook.ends(submit, look, "Compensated")
    assert report["steps"][-1]["state"] == "Refused"
    assert partners.looks["costs"] == 5
    assert "costs" in partners.stopped


async def test_parcel_is_shipped_once_and_cancelled_by_its_number(cook: Cook, partners: Partners) -> None:
    """The other team's, which the undo gets from the step's own result."""
    submit, look, cancel = commands("parcels")
    parcel = await cook.ends(submit, look)
    [shipment] = [each for key, each in partners.shipments.items() if "/lamp." in f"/{key}"]
    assert parcel["output"] == {"shipment": shipment["number"]}
    assert (await cook.types(cancel)).startswith("HTTP/1.1 202")
    await cook.until(look, '"state":"Compensated"')
    assert partners.cancelled["lamp"] == shipment["number"]
    assert cook.services.calls_of("lamp") == ["PUT /stock/lamp 201", "DELETE /stock/lamp 200"]


async def test_parcel_whose_answer_is_lost_is_cancelled_by_our_reference(
    cook: Cook, partners: Partners
) -> None:
    """Its number is unknown."""
    partners.lost.add("vase")
    submit, look, cancel = (each.replace("lamp", "vase") for each in commands("parcels"))
    await cook.types(submit)
    async with asyncio.timeout(PATIENCE):
        while not any("/vase." in f"/{key}" for key in partners.shipments):
            await asyncio.sleep(0.05)
    assert (await cook.types(cancel)).startswith("HTTP/1.1 202")
    await cook.until(look, '"state":"Compensated"')
    assert partners.cancelled["vase"] is None
