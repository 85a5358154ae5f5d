"""The storage accounts of the tables: their clients, and the creation of tables at a start."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import cached_property
from typing import Any

from azure.core.credentials import AzureNamedKeyCredential
from azure.core.exceptions import AzureError, ResourceExistsError
from azure.data.tables import TableServiceClient

from functions.connections import Connection, SettingsError, connection_string_of
from functions.service_credentials import BearerToken, ManagedIdentity
from functions.storage.azure_table import SCOPE, AzureTable, StorageSession

TASKS_TABLE = "Tasks"
#: The number of the row format; it grows with each change of the rows.
ROW_FORMAT = 1
_PARTITION, _ROW = "!settings", "shards"
#: Seconds for a connection, and for the answer to one request of azure-data-tables.
_LIMITS: dict[str, Any] = {"connection_timeout": 5, "read_timeout": 20, "retry_total": 3}


class TableAccount:
    """The tables of one storage account, by connection string or by identity. `now` returns UTC."""

    def __init__(self, connection: Connection, now: Callable[[], datetime]) -> None:
        self._connection, self._now = connection, now

    def service(self) -> TableServiceClient:
        """Return a client that creates tables. Raises `SettingsError`."""
        connection = self._connection
        if connection.connection_string:
            with connection_string_of(connection.setting):
                return TableServiceClient.from_connection_string(connection.connection_string, **_LIMITS)
        from azure.identity import DefaultAzureCredential  # noqa: PLC0415 - only with an identity

        credential = DefaultAzureCredential(managed_identity_client_id=connection.client_id)
        return TableServiceClient(connection.address or "", credential=credential, **_LIMITS)

    def table(self, name: str) -> AzureTable:
        """Return one table. All tables of the account share a session. Raises `SettingsError`."""
        return AzureTable(self._session, name)

    @property
    def figures(self) -> Mapping[str, int]:
        """Return the counts of this process since its start; see `StorageSession`. Raises `SettingsError`."""
        return self._session.figures

    @cached_property
    def _session(self) -> StorageSession:
        if not self._connection.connection_string:
            token = BearerToken(SCOPE, ManagedIdentity(self._connection.client_id), self._now)
            return StorageSession(self._connection.address or "", token)
        with self.service() as service:
            if not isinstance(service.credential, AzureNamedKeyCredential):
                raise SettingsError(
                    f"setting {self._connection.setting} is wrong (it has no AccountKey): set it to the"
                    " connection string that the portal shows"
                )
            return StorageSession(service.url, service.credential)


class TableSetupError(Exception):
    """The tables cannot be used. The text is one line that names the setting and the fix."""


def prepare_tables(
    service: TableServiceClient, names: Iterable[str], *, setting: str, shards: int | None = None
) -> None:
    """Create missing tables of an account, whose connection is in a setting. Raises `TableSetupError`.

    With `shards`, the account has the table of tasks: check its row format and number of shards.
    """
    try:
        for name in names:
            service.create_table_if_not_exists(name)
        recorded = _tasks_settings(service, shards)
    except AzureError as error:
        reason = str(error).partition("\n")[0]
        raise TableSetupError(
            f"setting {setting}: Table Storage failed ({reason}): start it, or correct the setting"
        ) from None
    if recorded.get("RowFormat") != ROW_FORMAT:
        raise TableSetupError(
            f"setting {setting}: the rows of table {TASKS_TABLE} have format {recorded.get('RowFormat', 0)},"
            f" and this version reads format {ROW_FORMAT}: finish its tasks with the version that wrote them,"
            " then use another storage account or delete the table (locally: python -m local reset)"
        )
    if recorded.get("Shards") != shards:
        raise TableSetupError(
            f"setting STATE_SHARDS: it is {shards}, but the table {TASKS_TABLE} was created with"
            f" {recorded.get('Shards')}: set it to {recorded.get('Shards')} (locally: python -m local reset)"
        )


def _tasks_settings(service: TableServiceClient, shards: int | None) -> Mapping[str, Any]:
    """Return the row format and the number of shards on record; a new table gets these."""
    settings = {"RowFormat": ROW_FORMAT, "Shards": shards}
    if shards is None:
        return settings
    table = service.get_table_client(TASKS_TABLE)
    try:
        table.create_entity({"PartitionKey": _PARTITION, "RowKey": _ROW, **settings})
    except ResourceExistsError:
        return table.get_entity(_PARTITION, _ROW)
    return settings
