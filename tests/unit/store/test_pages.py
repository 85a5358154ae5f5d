"""Pages may be empty and have another behind them, as Table Storage answers now and then."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, cast

from azure.data.tables.aio import TableClient

from functions.pattern.request_figures import StoreFigures
from functions.store.pages import every_row, first_rows

type _Row = Mapping[str, Any]

_KEYS = {"partition": "p", "first": "a", "end": "z"}
_ROWS: Sequence[Sequence[_Row]] = ([], [{"RowKey": "a"}], [], [{"RowKey": "b"}, {"RowKey": "c"}])


class _Pages:
    """The table, its query and its pages: each continuation names the number of the next page."""

    continuation_token: dict[str, str] | None = None

    def __init__(self, number: int = 0) -> None:
        self._number = number

    def query_entities(self, *_: object, **__: object) -> _Pages:
        """Be the query."""
        return self

    def by_page(self, token: dict[str, str] | None) -> _Pages:
        """Begin at a page."""
        return _Pages(0 if token is None else int(token["NextRowKey"]))

    def __aiter__(self) -> _Pages:
        return self

    async def __anext__(self) -> AsyncIterator[_Row]:
        following = self._number + 1
        self.continuation_token = {"NextRowKey": f"{following}"} if following < len(_ROWS) else None
        return _rows(_ROWS[self._number])


async def _rows(found: Sequence[_Row]) -> AsyncIterator[_Row]:
    for row in found:
        yield row


_TABLE = cast("TableClient", _Pages())


async def test_first_rows_are_behind_an_empty_page() -> None:
    """What is announced waits for no later sweep."""
    figures = StoreFigures()
    page = await first_rows(_TABLE, figures, _KEYS, 10)
    assert (page.rows, figures.reads) == (({"RowKey": "a"},), 2)
    assert page.continuation is not None


async def test_every_row_is_read() -> None:
    """An open circuit is not overlooked."""
    figures = StoreFigures()
    assert [row["RowKey"] async for row in every_row(_TABLE, figures, _KEYS)] == ["a", "b", "c"]
    assert figures.reads == len(_ROWS)
