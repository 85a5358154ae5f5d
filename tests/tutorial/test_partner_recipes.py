"""The recipes for services of others, with stand-ins that have an interface, or a limit, of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.e2e.caller import PATIENCE
from tests.tutorial.partners import Partners
from tests.tutorial.project import Cook, commands, cooking

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
    """And no more: what is left is skipped."""
    submit, look = commands("reports")
    await cook.types(submit)
    report = await cook.until(look, '"state":"Processed"')
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
    await cook.types(submit)
    report = await cook.until(look, '"state":"Compensated"')
    assert report["steps"][-1]["state"] == "Refused"
    assert partners.looks["costs"] == 5
    assert "costs" in partners.stopped


async def test_parcel_is_shipped_once_and_cancelled_by_its_number(cook: Cook, partners: Partners) -> None:
    """The other team's, which the undo gets from the step's own result."""
    submit, look, cancel = commands("parcels")
    await cook.types(submit)
    parcel = await cook.until(look, '"state":"Processed"')
    [shipment] = [each for key, each in partners.shipments.items() if "/lamp." in f"/{key}"]
    assert parcel["output"] == {"shipment": shipment["number"]}
    assert (await cook.types(cancel)).startswith("HTTP/1.1 202")
    await cook.until(look, '"state":"Compensated"')
    assert partners.cancelled["lamp"] == shipment["number"]
    assert cook.services.calls_of("lamp") == ["PUT /stock/lamp 201", "DELETE /stock/lamp 200"]


async def test_parcel_whose_answer_is_lost_is_cancelled_by_our_reference(
    cook: Cook, partners: Partners
) -> None:
    """Nobody knows its number."""
    partners.lost.add("vase")
    submit, look, cancel = (each.replace("lamp", "vase") for each in commands("parcels"))
    await cook.types(submit)
    async with asyncio.timeout(PATIENCE):
        while not any("/vase." in f"/{key}" for key in partners.shipments):
            await asyncio.sleep(0.05)
    assert (await cook.types(cancel)).startswith("HTTP/1.1 202")
    await cook.until(look, '"state":"Compensated"')
    assert partners.cancelled["vase"] is None
