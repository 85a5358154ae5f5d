"""Rows of trends on the real table: written once, and added up by whole transactions."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from azure.core.exceptions import ServiceResponseError
from azure.data.tables.aio import TableClient

from functions.operations.trends.condensing import condense
from functions.pattern.errors import TransientError
from functions.pattern.request_figures import StoreFigures
from functions.pattern.trends import Happening, Period, Trend, TrendKey
from functions.store.entity_groups import EntityGroups
from functions.store.trends import TableTrends
from tests.fakes.clock import START
from tests.fakes.trends import attempts, trend_of
from tests.integration.processes import Loss, LossyGroups

pytestmark = pytest.mark.process

_MINUTE = START.replace(second=0, microsecond=0)
_TREND = trend_of(accepted=2, processed=1, pick=attempts(2, 1))
_INTO = TrendKey.of("line", _MINUTE, Period.MINUTE)


@pytest.fixture
def figures() -> StoreFigures:
    """Count requests."""
    return StoreFigures()


@pytest.fixture
def rows(table: TableClient, groups: EntityGroups, figures: StoreFigures) -> TableTrends:
    """Keep trends in the test's table."""
    return TableTrends(table, groups, figures=figures)


async def _insert(rows: TableTrends, count: int, *, workflow: str = "line", **ago: float) -> None:
    at = _MINUTE - timedelta(**ago)
    keys = (TrendKey(workflow, at, f"{number:032}") for number in range(count))
    await asyncio.gather(*(rows.insert(key, _TREND) for key in keys))


async def _accepted(rows: TableTrends) -> int:
    found = await rows.since(START - timedelta(days=40))
    return sum(each.trend.counts[Happening.ACCEPTED] for each in found)


async def test_row_is_read_as_it_was_written(rows: TableTrends) -> None:
    """Of every workflow, from a time on; a repeated insert changes nothing."""
    key = TrendKey("line", _MINUTE, "a")
    await rows.insert(key, _TREND)
    await rows.insert(key, trend_of(accepted=100))
    await _insert(rows, 1, workflow="trip")
    await _insert(rows, 1, minutes=1)
    found = await rows.since(_MINUTE)
    assert {each.key.workflow: each.trend.written for each in found} == {
        "line": _TREND.written,
        "trip": _TREND.written,
    }
    assert next(each.key for each in found if each.key.workflow == "line") == key


async def test_many_rows_become_one(rows: TableTrends) -> None:
    """In as many transactions as it takes, each of which leaves the sum as it was."""
    await _insert(rows, 250)
    await _insert(rows, 1, workflow="trip")
    await _insert(rows, 1, minutes=1)
    while await rows.condense(_INTO, Period.MINUTE):
        assert await _accepted(rows) == 504
    assert await _accepted(rows) == 504
    assert [key for key in await rows.keys(100) if key.workflow == "line"] == [
        TrendKey("line", _MINUTE - timedelta(minutes=1), "0" * 32),
        _INTO,
    ]
    assert not await rows.condense(_INTO, Period.MINUTE)


async def test_two_that_add_up_at_once_count_nothing_twice(
    table: TableClient, groups: EntityGroups, rows: TableTrends
) -> None:
    """Whoever comes second finds the rows gone."""
    await _insert(rows, 60)
    other = TableTrends(table, groups, figures=StoreFigures())
    await asyncio.gather(rows.condense(_INTO, Period.MINUTE), other.condense(_INTO, Period.MINUTE))
    await _insert(rows, 1, minutes=0)
    await rows.condense(_INTO, Period.MINUTE)
    assert await _accepted(rows) == 122
    assert len(await rows.keys(100)) == 1


@pytest.mark.parametrize("loss", [Loss.REPEATED, Loss.GIVEN_UP, Loss.UNSENT])
async def test_lost_answer_counts_nothing_twice(table: TableClient, groups: EntityGroups, loss: Loss) -> None:
    """Whether the transaction was done or not; the next run does what is left."""
    lossy = LossyGroups(groups)
    rows = TableTrends(table, lossy, figures=StoreFigures())
    await _insert(rows, 5)
    lossy.lose_next_answer(loss)
    if loss is Loss.REPEATED:
        await rows.condense(_INTO, Period.MINUTE)
    else:
        with pytest.raises((TransientError, ServiceResponseError)):
            await rows.condense(_INTO, Period.MINUTE)
    await rows.condense(_INTO, Period.MINUTE)
    assert (await _accepted(rows), len(await rows.keys(100))) == (10, 1)


async def test_row_that_cannot_be_read_hides_no_other(
    rows: TableTrends, table: TableClient, caplog: pytest.LogCaptureFixture
) -> None:
    """A later version may have written it: it is named, and left alone."""
    await _insert(rows, 2)
    later = {"PartitionKey": "line", "RowKey": f"{_MINUTE:%Y%m%dT%H%M}|later", "Trend": b"?"}
    await table.create_entity(later)
    assert await _accepted(rows) == 4
    assert "|later" in caplog.text
    assert not await rows.condense(_INTO, Period.MINUTE)
    assert not await rows.condense(_INTO, Period.MINUTE)
    assert (await _accepted(rows), len(await rows.keys(100))) == (4, 2)


async def test_sum_that_cannot_be_read_is_begun_again(
    rows: TableTrends, table: TableClient, caplog: pytest.LogCaptureFixture
) -> None:
    """It is named; else nothing of its time would ever be added up."""
    await _insert(rows, 2)
    await table.create_entity(
        {"PartitionKey": "line", "RowKey": f"{_MINUTE:%Y%m%dT%H%M}|{_INTO.id}", "Trend": b"?"}
    )
    assert not await rows.condense(_INTO, Period.MINUTE)
    assert (await _accepted(rows), list(await rows.keys(100))) == (4, [_INTO])
    assert f"|{_INTO.id}" in caplog.text


async def test_month_is_few_rows_and_then_gone(rows: TableTrends, figures: StoreFigures) -> None:
    """As housekeeping does it; a run without anything to do is two requests."""
    for days in (0, 1, 2, 10, 31, 33):
        await _insert(rows, 3, days=days)
    now = START + timedelta(minutes=12)
    assert await condense(rows, now) == 5
    assert [key.id for key in await rows.keys(100)] == ["!day", "!day", "!day", "!hour", "!minute"]
    assert await _accepted(rows) == 5 * 3 * 2
    figures.reads = figures.operations = 0
    assert await condense(rows, now) == 0
    assert (figures.reads, figures.operations) == (1, 0)


async def test_empty_trend_is_no_row_less(rows: TableTrends) -> None:
    """Whatever is in it."""
    await rows.insert(TrendKey("line", _MINUTE, "a"), Trend())
    [found] = await rows.since(_MINUTE)
    assert found.trend.written == Trend().written
