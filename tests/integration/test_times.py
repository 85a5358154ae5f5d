"""Times that instances share, on the real table: of two that note one at once, one does."""

from __future__ import annotations

import asyncio
import uuid
from datetime import timedelta

import pytest

from functions.pattern.shared_rows import Occasion
from functions.store.conditional_rows import ConditionalRows, TableTimes
from functions.store.keys import time_row
from tests.fakes.tasks import after
from tests.integration.conftest import MakeProcess

pytestmark = pytest.mark.process

MINUTE = timedelta(minutes=1)


async def test_time_is_noted_once_in_a_while(make_process: MakeProcess) -> None:
    """By one of several instances; others, and other occasions, have times of their own."""
    instances = [
        TableTimes(ConditionalRows(process.table, new_id=lambda: uuid.uuid4().hex, figures=process.figures))
        for process in (make_process(), make_process())
    ]
    one, two = instances

    async def at_once(seconds: float) -> int:
        noted = (each.note(Occasion.REPLIED, "payment", after(seconds), MINUTE) for each in instances * 5)
        return sum(await asyncio.gather(*noted))

    assert [await at_once(0), await at_once(59), await at_once(60)] == [1, 0, 1]
    assert await one.note(Occasion.REPLIED, "drone", after(61), MINUTE)
    assert await two.note(Occasion.REFUSED, "payment|not JSON", after(61), MINUTE)
    assert await two.latest(Occasion.REPLIED) == {"payment": after(60), "drone": after(61)}


async def test_damaged_time_is_none_and_is_noted_anew(make_process: MakeProcess) -> None:
    """Else no reply of that Agent could be taken, and no late task be judged."""
    process = make_process()
    rows = ConditionalRows(process.table, new_id=lambda: uuid.uuid4().hex, figures=process.figures)
    times = TableTimes(rows)
    await rows.replace({"RowKey": time_row(Occasion.REPLIED, "payment"), "At": "yesterday"})
    assert await times.note(Occasion.REPLIED, "drone", after(0), MINUTE)
    assert await times.latest(Occasion.REPLIED) == {"drone": after(0)}
    assert await times.note(Occasion.REPLIED, "payment", after(1), MINUTE)
    assert await times.latest(Occasion.REPLIED) == {"drone": after(0), "payment": after(1)}
