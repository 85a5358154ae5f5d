"""One page of a query: one request, and a text by which the next page is found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from azure.core.async_paging import AsyncItemPaged, AsyncPageIterator
from pydantic import TypeAdapter

#: The keys at which the next page begins, as the service names them; they are its own, not to be read.
_TOKEN = TypeAdapter(dict[str, str | None])


@dataclass(frozen=True, slots=True)
class Page:
    """Some rows, and where the next page begins (None: there is none)."""

    rows: tuple[Mapping[str, Any], ...]
    continuation: str | None


async def read_page(query: AsyncItemPaged[Any], after: str | None) -> Page:
    """Read the page that begins at `after`, a continuation of the same query (None: the first).

    Raises `ValueError` when `after` is no continuation.
    """
    token: Any = None if after is None else _TOKEN.validate_json(after)
    pages = cast("AsyncPageIterator[Mapping[str, Any]]", query.by_page(token))
    async for page in pages:
        rows = tuple([row async for row in page])
        following: Any = pages.continuation_token
        return Page(rows, _TOKEN.dump_json(following).decode() if following else None)
    return Page((), None)
