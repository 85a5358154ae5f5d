"""The tables themselves: made when they are missing, and held to the shards they were made with."""

from __future__ import annotations

from azure.core.exceptions import AzureError, ResourceExistsError
from azure.data.tables import TableServiceClient

from functions.pattern.errors import SettingsError
from functions.store.keys import SHARDS_PARTITION, SHARDS_ROW

TASKS_TABLE = "Tasks"
REJECTED_TABLE = "Rejected"


def prepare_tables(service: TableServiceClient, names: tuple[str, ...], *, shards: int) -> None:
    """Make the tables that are missing and remember the number of shards, once.

    Raises `SettingsError` when the table was made with another number of shards: tasks would be
    looked for where they are not.
    """
    try:
        for name in names:
            service.create_table_if_not_exists(name)
        made_with = _shards_of(service, shards)
    except AzureError as error:
        reason = str(error).splitlines()[0]
        raise SettingsError(
            f"setting StateStore: Table Storage does not answer ({reason}); start it, or mend the setting"
        ) from None
    if made_with != shards:
        raise SettingsError(
            f"setting STATE_SHARDS is {shards}, but the table has {made_with}: set it to {made_with}"
        )


def _shards_of(service: TableServiceClient, shards: int) -> int:
    table = service.get_table_client(TASKS_TABLE)
    row = {"PartitionKey": SHARDS_PARTITION, "RowKey": SHARDS_ROW, "Shards": shards}
    try:
        table.create_entity(row)
    except ResourceExistsError:
        return int(table.get_entity(SHARDS_PARTITION, SHARDS_ROW)["Shards"])
    return shards
