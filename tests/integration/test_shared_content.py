"""Bytes that instances share in one row of the real table: nobody's change is lost."""

from __future__ import annotations

import asyncio
import uuid

import pytest
from azure.data.tables.aio import TableClient

from functions.pattern.request_figures import StoreFigures
from functions.store.conditional_rows import ConditionalRows, TableContent
from functions.store.keys import ALERT_MINUTE

pytestmark = pytest.mark.process


def _content(table: TableClient) -> TableContent:
    rows = ConditionalRows(table, new_id=lambda: uuid.uuid4().hex, figures=StoreFigures())
    return TableContent(rows, ALERT_MINUTE)


def _one_more(content: bytes | None) -> tuple[bytes, int]:
    count = int(content or b"0") + 1
    return str(count).encode(), count


async def test_changes_of_several_instances_at_once_all_count(table: TableClient) -> None:
    """Each is made on what the one before has left."""
    instances = [_content(table) for _ in range(3)]
    assert await instances[0].read() is None
    counts = await asyncio.gather(*(each.change(_one_more) for each in instances for _ in range(8)))
    assert sorted(counts) == list(range(1, 25))
    assert await instances[1].read() == b"24"
