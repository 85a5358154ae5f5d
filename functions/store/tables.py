"""The tables themselves: made when they are missing, and refused when their rows are not ours to read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from azure.core.exceptions import AzureError, ResourceExistsError
from azure.data.tables import TableServiceClient

from functions.pattern.errors import SettingsError
from functions.store.keys import SHARDS_PARTITION, SHARDS_ROW
from functions.store.rejected import REJECTED_TABLE

TASKS_TABLE = "Tasks"
#: The circuits and limits of remote services, in the Agents' store.
CIRCUITS_TABLE = "Circuits"

#: All tables of the application itself, but for those of the Agents (`roles.AGENT_TABLES`).
TABLES = (TASKS_TABLE, REJECTED_TABLE)

#: The number of the row format; it grows with each change of the rows.
ROW_FORMAT = 1


def make_tables(service: TableServiceClient, names: tuple[str, ...], *, setting: str) -> None:
    """Make those of the tables that are missing. Raises `SettingsError`."""
    with _answering(setting):
        for name in names:
            service.create_table_if_not_exists(name)


def prepare_tables(service: TableServiceClient, names: tuple[str, ...], *, shards: int) -> None:
    """Make missing tables of the state store.

    Raises `SettingsError` when the table of the tasks has another row format or number of shards.
    """
    make_tables(service, names, setting="StateStore")
    with _answering("StateStore"):
        row_format, made_with = _made_with(service, shards)
    if row_format != ROW_FORMAT:
        raise SettingsError(
            f"setting StateStore: the table {TASKS_TABLE} holds rows of format {row_format}, and this version"
            f" reads format {ROW_FORMAT}: finish its tasks with the version that wrote them, then set a new"
            " storage account or delete the tables (locally: python -m local reset)"
        )
    if made_with != shards:
        raise SettingsError(
            f"setting STATE_SHARDS is {shards}, but the table has {made_with}: set it to {made_with}"
        )


@contextmanager
def _answering(setting: str) -> Iterator[None]:
    """Say of an account that can't be used which setting leads to it. Raises `SettingsError`."""
    try:
        yield
    except AzureError as error:
        reason = str(error).splitlines()[0]
        raise SettingsError(
            f"setting {setting}: Table Storage does not answer ({reason}); start it, or fix the setting"
        ) from None


def _made_with(service: TableServiceClient, shards: int) -> tuple[int, int]:
    """Return the row format and the number of shards; a new table gets these."""
    table = service.get_table_client(TASKS_TABLE)
    row = {"PartitionKey": SHARDS_PARTITION, "RowKey": SHARDS_ROW, "Shards": shards, "Format": ROW_FORMAT}
    try:
        table.create_entity(row)
    except ResourceExistsError:
        known = table.get_entity(SHARDS_PARTITION, SHARDS_ROW)
        return int(known.get("Format", 0)), int(known["Shards"])
    return ROW_FORMAT, shards
