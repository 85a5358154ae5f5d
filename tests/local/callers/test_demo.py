"""The demo follows its orders and deliveries, and succeeds only when all end as expected."""

from __future__ import annotations

import asyncio
import io
from collections import Counter

import pytest
from rich.console import Console

from local.callers import demo
from local.callers.cases import Case
from local.callers.client import OrderRefusedError, OrderState
from local.callers.demo import DemoResult, run_demo
from local.command_line import main
from local.commands import demo_at
from tests.local.callers.canned_api import HAPPY_LIFE, canned_api
from tests.local.callers.canned_deliveries import CannedDeliveries


async def _run(url: str, orders: int, deliveries: int = 0) -> DemoResult:
    return await run_demo(url, Console(file=io.StringIO()), orders=orders, deliveries=deliveries)


async def test_all_are_followed_to_their_end() -> None:
    """Without a terminal, lines replace the bars."""
    screen = io.StringIO()
    async with canned_api(deliveries=CannedDeliveries()) as url:
        result = await run_demo(url, Console(file=screen, width=80), orders=4, deliveries=16)
    assert result.all_as_expected
    assert len(result.submit_seconds) == 4
    submitted, finished = ["submitted: 20 …", "submitted: 20 of 20"], ["finished: 20 …", "finished: 20 of 20"]
    assert screen.getvalue().splitlines() == [*submitted, *finished]


async def test_a_terminal_gets_two_progress_bars() -> None:
    """And no lines between them."""
    screen = io.StringIO()
    async with canned_api(deliveries=CannedDeliveries()) as url:
        await run_demo(url, Console(file=screen, force_terminal=True, width=100), orders=1, deliveries=2)
    assert "3/3" in screen.getvalue()
    assert "3 of 3" not in screen.getvalue()


async def test_deliveries_go_in_one_request() -> None:
    """Up to what a batch holds."""
    canned = CannedDeliveries()
    async with canned_api(deliveries=canned) as url:
        result = await _run(url, 0, 501)
    assert canned.batches == [500, 1]
    assert len(result.batch_seconds) == 2
    assert result.all_as_expected


async def test_services_refuse_what_the_cases_say_and_nothing_else() -> None:
    """They are set up before anything is submitted, and no refusal of a drone remains."""
    canned = CannedDeliveries()
    async with canned_api(deliveries=canned) as url:
        result = await _run(url, 0, 16)
    states = Counter((each.case, result.orders[each.id].state) for each in result.submissions)
    assert states == {
        (Case.NEAR, OrderState.PROCESSED): 8,
        (Case.FAR, OrderState.PROCESSED): 4,
        (Case.SUSPENDED, OrderState.COMPENSATED): 2,
        (Case.NO_DRONE, OrderState.COMPENSATED): 2,
    }
    assert len(canned.refused_drones) == 2
    assert canned.faults == set()


@pytest.mark.parametrize("service", ["packages", "drones", "deliveries"])
async def test_what_was_not_undone_at_its_service_is_found(service: str) -> None:
    """Although the application says that it was."""
    async with canned_api(deliveries=CannedDeliveries(left_behind=frozenset({service}))) as url:
        result = await _run(url, 0, 8)
    assert not result.all_as_expected
    unmet = {each.case: result.unmet(each) for each in result.submissions if result.unmet(each)}
    assert unmet == {Case.NO_DRONE: f"there is still something at {service}"}


@pytest.mark.parametrize(("life", "code"), [(HAPPY_LIFE, 0), (("Error",), 1)])
async def test_the_exit_code_tells_whether_all_ended_as_expected(
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


async def test_a_refused_order_ends_the_demo() -> None:
    """An API that refuses the sample gets no further requests."""
    async with canned_api(submit_status=503) as url:
        with pytest.raises(OrderRefusedError, match="503"):
            await _run(url, 50)


async def test_a_delivery_refused_in_its_batch_ends_the_demo() -> None:
    """With the API's reason."""
    async with canned_api(deliveries=CannedDeliveries(refused={"detail": "no such thing"})) as url:
        with pytest.raises(OrderRefusedError, match="no such thing"):
            await _run(url, 0, 3)


async def test_without_sample_services_the_error_names_the_fix() -> None:
    """An application elsewhere may not serve them."""
    async with canned_api(deliveries=CannedDeliveries(has_services=False)) as url:
        with pytest.raises(OrderRefusedError, match=r"SAMPLE_SERVICES=1.*--deliveries 0"):
            await _run(url, 1, 8)


async def test_without_the_workflow_the_demo_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whoever removed `deliveries` learns which option leaves them out; nothing is submitted."""
    async with canned_api() as url:
        assert await asyncio.to_thread(main, ["demo", "--orders", "2", "--url", url]) == 2
        assert capsys.readouterr() == (
            "",
            "There is no resource 'deliveries' here: leave it out with `--deliveries 0`.\n",
        )
        arguments = ["demo", "--orders", "2", "--deliveries", "0", "--url", url]
        assert await asyncio.to_thread(main, arguments) == 0
