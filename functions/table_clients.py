"""Clients of the tables of a storage account. azure-identity is imported only where an identity is used."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from azure.core.credentials import AzureNamedKeyCredential
from azure.data.tables import TableServiceClient

from functions.connections import Connection, SettingsError, connection_string_of
from functions.machine import utc_now
from functions.service_credentials import BearerToken, ManagedIdentity
from functions.storage.azure_table import SCOPE, AzureTable, StorageSession

if TYPE_CHECKING:
    from azure.data.tables.aio import TableClient
    from azure.data.tables.aio import TableServiceClient as AsyncTableServiceClient

#: Seconds for a connection, and for the answer to one request of azure-data-tables.
_LIMITS: dict[str, Any] = {"connection_timeout": 5, "read_timeout": 20, "retry_total": 3}


class TableAccount:
    """The tables of one storage account, by connection string or by identity.

    `Table` is used for tasks and other hot rows, azure-data-tables for rare requests.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def service(self) -> TableServiceClient:
        """Return a client that creates tables. Raises `SettingsError`."""
        text = self._connection.connection_string
        if text:
            with connection_string_of(self._connection.setting):
                return TableServiceClient.from_connection_string(text, **_LIMITS)
        from azure.identity import DefaultAzureCredential  # noqa: PLC0415 - it takes long to import

        credential = DefaultAzureCredential(managed_identity_client_id=self._connection.client_id)
        return TableServiceClient(self._connection.address or "", credential=credential, **_LIMITS)

    def table(self, name: str) -> AzureTable:
        """Return one table. All tables of the account share a session. Raises `SettingsError`."""
        return AzureTable(self._session, name)

    def client(self, name: str) -> TableClient:
        """Return the client of azure-data-tables for one table. Raises `SettingsError`."""
        return self._async_service.get_table_client(name)

    @property
    def figures(self) -> Mapping[str, int]:
        """Return the counts of this process since its start; see `StorageSession`. Raises `SettingsError`."""
        return self._session.figures

    @cached_property
    def _session(self) -> StorageSession:
        if not self._connection.connection_string:
            token = BearerToken(SCOPE, ManagedIdentity(self._connection.client_id), utc_now)
            return StorageSession(self._connection.address or "", token)
        with self.service() as service:
            if not isinstance(service.credential, AzureNamedKeyCredential):
                raise SettingsError(
                    f"setting {self._connection.setting} is wrong (it has no AccountKey): set it to the"
                    " connection string that the portal shows"
                )
            return StorageSession(service.url, service.credential)

    @cached_property
    def _async_service(self) -> AsyncTableServiceClient:
        from azure.data.tables.aio import TableServiceClient as AsyncTableServiceClient  # noqa: PLC0415 - rare

        text = self._connection.connection_string
        if text:
            with connection_string_of(self._connection.setting):
                return AsyncTableServiceClient.from_connection_string(text, **_LIMITS)
        from azure.identity.aio import DefaultAzureCredential  # noqa: PLC0415 - it takes long to import

        credential = DefaultAzureCredential(managed_identity_client_id=self._connection.client_id)
        return AsyncTableServiceClient(self._connection.address or "", credential=credential, **_LIMITS)
