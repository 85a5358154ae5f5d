"""Reads one row by its key, in a part of the time that azure-data-tables takes: each submission reads one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from azure.core.exceptions import DecodeError, HttpResponseError
from azure.core.pipeline.transport import HttpRequest
from pydantic_core import from_json

from functions.store.group_format import parse_refusal, quoted
from functions.store.group_pipeline import GroupPipeline

_HEADERS = {"Accept": "application/json;odata=nometadata", "Content-Type": "application/json"}


class RowReads:
    """Reads rows of one table; `account` is the address of the account's tables."""

    def __init__(self, pipeline: GroupPipeline, account: str, table: str) -> None:
        self._pipeline = pipeline
        self._table = f"{account}/{table}"

    async def read(self, partition: str, row_key: str, columns: Sequence[str]) -> Mapping[str, Any] | None:
        """Read some columns of a row, as JSON has their values; None when there is no such row.

        Raises `AzureError`.
        """
        row = f"{self._table}(PartitionKey='{quoted(partition)}',RowKey='{quoted(row_key)}')"
        address = f"{row}?$select={','.join(columns)}"
        response = (await self._pipeline.run(HttpRequest("GET", address, headers=_HEADERS))).http_response
        if response.status_code != HTTPStatus.OK:
            refused = parse_refusal(response.status_code, response.content)
            if refused.code == "ResourceNotFound":
                return None
            raise HttpResponseError(f"HTTP {refused.status} {refused.code}", response)
        try:
            found: Mapping[str, Any] = from_json(response.content)
        except ValueError as error:
            raise DecodeError("a row that is no JSON", response) from error
        return found
