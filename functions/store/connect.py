"""Clients of Table Storage, by connection string or by identity, and their faults in the core's terms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from azure.core.exceptions import AzureError
from azure.core.pipeline.transport import AioHttpTransport
from azure.data.tables import TableServiceClient
from azure.data.tables.aio import TableServiceClient as AsyncTableServiceClient

from functions.pattern.errors import TransientError
from functions.settings import Connection, connection_string_of

#: Seconds; a table request that takes longer is ended and repeated by the SDK's own policy.
_LIMITS: dict[str, Any] = {"connection_timeout": 5, "read_timeout": 20, "retry_total": 3}


def connect(connection: Connection) -> AsyncTableServiceClient:
    """Make the client that the application works with."""
    # The environment's proxy and .netrc would be looked up for every request.
    transport = AioHttpTransport(use_env_settings=False)
    return _client(AsyncTableServiceClient, _async_identity, connection, transport=transport)


def connect_at_start(connection: Connection) -> TableServiceClient:
    """Make the client that prepares the tables, before there is an event loop."""
    return _client(TableServiceClient, _identity, connection)


def _client[ClientT: (TableServiceClient, AsyncTableServiceClient)](
    kind: type[ClientT], identity: Callable[..., Any], connection: Connection, **options: Any
) -> ClientT:
    if connection.connection_string:
        with connection_string_of("StateStore"):
            return kind.from_connection_string(connection.connection_string, **_LIMITS, **options)
    credential = identity(managed_identity_client_id=connection.client_id)
    return kind(endpoint=connection.address or "", credential=credential, **_LIMITS, **options)


def _identity(**options: Any) -> Any:
    from azure.identity import DefaultAzureCredential  # noqa: PLC0415 - only with an identity

    return DefaultAzureCredential(**options)


def _async_identity(**options: Any) -> Any:
    from azure.identity.aio import DefaultAzureCredential  # noqa: PLC0415 - only with an identity

    return DefaultAzureCredential(**options)


@contextmanager
def table_faults() -> Iterator[None]:
    """Turn what the SDK raises into `TransientError`: the SDK has retried already."""
    try:
        yield
    except AzureError as error:
        raise TransientError(f"Table Storage: {type(error).__name__}") from error
