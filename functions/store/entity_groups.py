"""Sends entity group transactions: several changes of one table's rows, all of them done or none.

azure-data-tables sends them, too, but building and parsing MIME takes it half of a busy process's time.
"""

from __future__ import annotations

from collections.abc import Sequence

from azure.core.exceptions import HttpResponseError
from azure.core.pipeline.transport import HttpRequest

from functions.store.group_format import (
    REQUEST_HEADERS,
    GroupRefused,
    GroupWritten,
    Operation,
    UnwritableValueError,
    group_body,
    parse_answer,
    parse_refusal,
)
from functions.store.group_pipeline import GroupPipeline

#: By default azure-core repeats no POST after a lost connection, yet any load balancer cuts idle ones.
#: Ours may be repeated: each transaction is conditional, and a conflict is read back.
_REPEATED = frozenset({"POST"})

_ACCEPTED = 202

#: What is answered for the service's own reasons, below 500: who asks, how often, and that there is no table.
_FAULTS = frozenset({401, 403, 408, 429})
_NO_TABLE = frozenset({"TableNotFound", "TableBeingDeleted", "TableBeingCreated"})


class EntityGroups:
    """Sends entity group transactions to one table; `account` is the address of the account's tables."""

    def __init__(self, pipeline: GroupPipeline, account: str, table: str) -> None:
        self._pipeline = pipeline
        self._address = f"{account}/$batch"
        self._table = f"{account}/{table}"

    async def send(self, partition: str, operations: Sequence[Operation]) -> GroupWritten | GroupRefused:
        """Do all operations, which are on rows of one partition, or none.

        Raises `AzureError` for a fault of the service, after which nobody knows whether they were done.
        """
        try:
            body = group_body(self._table, partition, operations)
        except UnwritableValueError as error:
            return GroupRefused(400, str(error))
        request = HttpRequest("POST", self._address, data=body)
        request.headers = {
            **REQUEST_HEADERS
        }  # azure-core's own kind of mapping takes as long as the rest of it
        response = (await self._pipeline.run(request, retry_on_methods=_REPEATED)).http_response
        accepted = response.status_code == _ACCEPTED
        if accepted:
            result = parse_answer(response.content, operations)
        else:
            result = parse_refusal(response.status_code, response.content)
        if isinstance(result, GroupRefused) and (_is_fault(result) or (result.conflict and not accepted)):
            raise HttpResponseError(f"HTTP {result.status} {result.code}", response)
        return result


def _is_fault(refused: GroupRefused) -> bool:
    """Tell whether the rows had nothing to do with it."""
    by_status = refused.status in _FAULTS or not 400 <= refused.status < 500  # noqa: PLR2004 - HTTP's classes
    return by_status or refused.code in _NO_TABLE
