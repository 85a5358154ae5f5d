"""Creation of the tables when a host starts, and the settings that the table of tasks was created with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from azure.core.exceptions import AzureError, ResourceExistsError
from azure.data.tables import TableServiceClient

TASKS_TABLE = "Tasks"
#: The number of the row format; it grows with each change of the rows.
ROW_FORMAT = 1
_PARTITION, _ROW = "!settings", "shards"


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
