"""One page of a query: one request, and a text by which the next page is found."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from azure.core.async_paging import AsyncPageIterator
from azure.data.tables.aio import TableClient
from pydantic import TypeAdapter

from functions.pattern.request_figures import StoreFigures
from functions.store.connect import table_faults

#: The rows of one partition from one key, included, to another, excluded.
KEYS_BETWEEN = "PartitionKey eq @partition and RowKey ge @first and RowKey lt @end"

#: The keys at which the next page begins, as the service names them; they are its own, not to be read.
_TOKEN = TypeAdapter(dict[str, str | None])


@dataclass(frozen=True, slots=True)
class Page:
    """Some rows, and where the next page begins (None: there is none)."""

    rows: tuple[Mapping[str, Any], ...]
    continuation: str | None


async def read_page(
    table: TableClient,
    figures: StoreFigures,
    query: str,
    keys: dict[str, Any],
    *,
    after: str | None = None,
    most: int | None = None,
    select: list[str] | None = None,
) -> Page:
    """Read the page that begins at `after`, a continuation of the same query (None: the first).

    Raises `TransientError`, and `ValueError` when `after` is no continuation.
    """
    figures.reads += 1
    rows = table.query_entities(query, parameters=keys, results_per_page=most, select=select)
    token: Any = None if after is None else _TOKEN.validate_json(after)
    pages = cast("AsyncPageIterator[Mapping[str, Any]]", rows.by_page(token))
    with table_faults():
        async for page in pages:
            found = tuple([row async for row in page])
            following: Any = pages.continuation_token
            return Page(found, _TOKEN.dump_json(following).decode() if following else None)
    return Page((), None)


async def first_rows(table: TableClient, figures: StoreFigures, keys: dict[str, Any], most: int) -> Page:
    """Read the first page between two keys that has rows, or the last: the service's may be empty."""
    page = await read_page(table, figures, KEYS_BETWEEN, keys, most=most)
    while not page.rows and page.continuation is not None:
        page = await read_page(table, figures, KEYS_BETWEEN, keys, after=page.continuation, most=most)
    return page


async def every_row(
    table: TableClient, figures: StoreFigures, keys: dict[str, Any]
) -> AsyncIterator[Mapping[str, Any]]:
    """Give the rows between two keys, page by page."""
    page = await read_page(table, figures, KEYS_BETWEEN, keys)
    while True:
        for row in page.rows:
            yield row
        if page.continuation is None:
            return
        page = await read_page(table, figures, KEYS_BETWEEN, keys, after=page.continuation)
