"""Clients of Table Storage, by connection string or by identity, and their faults in the core's terms."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from azure.core.exceptions import AzureError
from azure.core.pipeline.transport import AioHttpTransport
from azure.data.tables import TableServiceClient
from azure.data.tables.aio import TableClient
from azure.data.tables.aio import TableServiceClient as AsyncTableServiceClient

from functions.connections import Connection, connection_string_of
from functions.pattern.errors import TransientError
from functions.store.entity_groups import EntityGroups
from functions.store.group_pipeline import group_pipeline
from functions.store.row_reads import RowReads
from functions.store.transport import TableTransport

#: Seconds; a table request that takes longer is ended and repeated by the SDK's own policy.
_LIMITS: dict[str, Any] = {"connection_timeout": 5, "read_timeout": 20}
_RETRIES = 3


class TableStorage:
    """An account's tables as the application works with them: by azure-data-tables, but for entity groups."""

    def __init__(self, service: AsyncTableServiceClient) -> None:
        self.service = service
        transport = TableTransport(service.url, **_LIMITS)
        self._pipeline = group_pipeline(transport, service.credential, retries=_RETRIES)

    def table(self, name: str) -> TableClient:
        """Give the client of one table."""
        return self.service.get_table_client(name)

    def rows(self, table: str) -> RowReads:
        """Give what reads single rows of one table."""
        return RowReads(self._pipeline, self.service.url, table)

    def groups(self, table: str) -> EntityGroups:
        """Give what sends entity group transactions to one table."""
        return EntityGroups(self._pipeline, self.service.url, table)

    async def __aenter__(self) -> Self:
        await self.service.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._pipeline.__aexit__(kind, error, trace)
        await self.service.__aexit__(kind, error, trace)


def connect(connection: Connection) -> TableStorage:
    """Make the client that the application works with."""
    # The environment's proxy and .netrc would be looked up for every request.
    transport = AioHttpTransport(use_env_settings=False, **_LIMITS)
    options: dict[str, Any] = {"retry_total": _RETRIES, "transport": transport}
    if connection.connection_string:
        with connection_string_of(connection.setting):
            service = AsyncTableServiceClient.from_connection_string(connection.connection_string, **options)
    else:
        from azure.identity.aio import DefaultAzureCredential  # noqa: PLC0415 - it takes long to import

        credential = DefaultAzureCredential(managed_identity_client_id=connection.client_id)
        service = AsyncTableServiceClient(connection.address or "", credential=credential, **options)
    return TableStorage(service)


def connect_at_start(connection: Connection) -> TableServiceClient:
    """Make the client that prepares the tables, before there is an event loop."""
    options: dict[str, Any] = {"retry_total": _RETRIES, **_LIMITS}
    if connection.connection_string:
        with connection_string_of(connection.setting):
            return TableServiceClient.from_connection_string(connection.connection_string, **options)
    from azure.identity import DefaultAzureCredential  # noqa: PLC0415 - it takes long to import

    credential = DefaultAzureCredential(managed_identity_client_id=connection.client_id)
    return TableServiceClient(connection.address or "", credential=credential, **options)


@contextmanager
def table_faults() -> Iterator[None]:
    """Turn what the SDK raises into `TransientError`: the SDK has retried already."""
    try:
        yield
    except AzureError as error:
        raise TransientError(f"Table Storage: {type(error).__name__}") from error
