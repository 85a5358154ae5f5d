"""The demo counts what became of its orders, and succeeds only when all were processed."""

from __future__ import annotations

import io
from datetime import timedelta

import pytest
from rich.console import Console

from local.callers import demo
from local.callers.client import Order, OrderRefusedError, OrderState
from local.callers.demo import DemoResult, run_demo
from local.callers.summary import orders_per_second, percentile, summary
from local.commands import demo_at
from tests.local.callers.canned_api import HAPPY_LIFE, SUBMITTED, canned_api


def _order(order_id: str, state: OrderState, seconds: float | None) -> Order:
    finished = SUBMITTED + timedelta(seconds=seconds) if seconds is not None else None
    return Order(id=order_id, state=state, submitted_at=SUBMITTED, finished_at=finished)


def _printed(result: DemoResult) -> list[list[str]]:
    screen = io.StringIO()
    Console(file=screen, width=80).print(summary(result))
    return [
        [cell.strip() for cell in line.split("│")[1:3]]
        for line in screen.getvalue().splitlines()
        if "│" in line
    ]


async def test_all_orders_are_followed_to_their_end() -> None:
    """Without a terminal, lines take the bars' place."""
    screen = io.StringIO()
    async with canned_api() as url:
        result = await run_demo(url, 20, Console(file=screen, width=80))
    assert result.all_processed
    assert len(result.submit_seconds) == 20
    assert screen.getvalue().splitlines()[0] == "submitted 20 of 20"
    assert screen.getvalue().splitlines()[-1] == "finished 20 of 20"


async def test_a_terminal_gets_two_progress_bars() -> None:
    """And no lines between them."""
    screen = io.StringIO()
    async with canned_api() as url:
        await run_demo(url, 3, Console(file=screen, force_terminal=True, width=100))
    assert "3/3" in screen.getvalue()
    assert "3 of 3" not in screen.getvalue()


@pytest.mark.parametrize(("life", "code"), [(HAPPY_LIFE, 0), (("Error",), 1)])
async def test_the_exit_code_tells_whether_all_were_processed(
    life: tuple[str | None, ...], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """One order in `Error` is a demo that failed."""
    async with canned_api(life) as url:
        assert await demo_at(url, 2) == code
    assert "orders/s" in capsys.readouterr().out


async def test_orders_that_do_not_end_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """They stay in the summary as they were last seen."""
    monkeypatch.setattr(demo, "_PATIENCE", 0.1)
    monkeypatch.setattr(demo, "_PATIENCE_PER_ORDER", 0)
    async with canned_api(["Processing"]) as url:
        result = await run_demo(url, 2, Console(file=io.StringIO()))
    assert not result.all_processed
    assert len(result.unfinished) == 2
    assert ["Processing", "2"] in _printed(result)


async def test_a_refused_order_ends_the_demo() -> None:
    """An API that refuses the sample is not asked forty-nine times more."""
    async with canned_api(submit_status=503) as url:
        with pytest.raises(OrderRefusedError, match="503"):
            await run_demo(url, 50, Console(file=io.StringIO()))


def test_the_summary_counts_states_and_measures() -> None:
    """Times are the service's own, from submission to end."""
    orders: dict[str, Order | None] = {
        "a": _order("a", OrderState.PROCESSED, 0.5),
        "b": _order("b", OrderState.ERROR, 2.0),
        "c": _order("c", OrderState.PENDING, None),
        "d": None,
    }
    rows = _printed(DemoResult(orders, submit_seconds=[0.01, 0.02]))
    assert ["Processed", "1"] in rows
    assert ["Error", "1"] in rows
    assert ["never seen", "1"] in rows
    assert ["submit p50 / p99", "10 ms / 20 ms"] in rows
    assert ["end to end p50 / p99", "500 ms / 2000 ms"] in rows
    assert ["orders/s", "1.0"] in rows


def test_a_summary_without_any_result_is_still_a_summary() -> None:
    """Nothing divides by nothing."""
    assert ["orders/s", "-"] in _printed(DemoResult({"a": None}))


def test_orders_per_second_needs_an_end() -> None:
    """From the first submission to the last end."""
    assert orders_per_second([_order("a", OrderState.PENDING, None)]) is None
    assert (
        orders_per_second([_order("a", OrderState.PROCESSED, 4), _order("b", OrderState.PROCESSED, 2)]) == 0.5
    )


@pytest.mark.parametrize(("percent", "value"), [(50, 50), (99, 99), (100, 100), (1, 1)])
def test_a_percentile_is_a_value_that_was_measured(percent: float, value: float) -> None:
    """Nearest rank, over 1 to 100."""
    assert percentile(list(range(100, 0, -1)), percent) == value
