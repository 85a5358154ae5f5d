"""Tables are created at start; settings that do not fit an existing table stop the start with one line."""

from __future__ import annotations

from typing import Any, cast

import pytest
from azure.core.exceptions import ResourceExistsError, ServiceRequestError
from azure.data.tables import TableServiceClient

from functions.table_accounts import ROW_FORMAT, TASKS_TABLE, TableSetupError, prepare_tables


class Account:
    """The tables of an account, as azure-data-tables reaches them; it also is the client of a table."""

    def __init__(self) -> None:
        self.tables: list[str] = []
        self.rows: dict[tuple[str, str], dict[str, Any]] = {}
        self.is_down = False

    def create_table_if_not_exists(self, name: str) -> None:
        """Create a table."""
        if self.is_down:
            raise ServiceRequestError("no connection\nto the service")
        self.tables.append(name)

    def get_table_client(self, name: str) -> Account:
        """Return the client of the table of tasks."""
        assert name == TASKS_TABLE
        return self

    def create_entity(self, row: dict[str, Any]) -> None:
        """Insert a row."""
        key = row["PartitionKey"], row["RowKey"]
        if key in self.rows:
            raise ResourceExistsError
        self.rows[key] = dict(row)

    def get_entity(self, partition: str, key: str) -> dict[str, Any]:
        """Return a row."""
        return self.rows[partition, key]

    def prepare(self, shards: int | None) -> None:
        """Prepare the tables of a host."""
        prepare_tables(cast("TableServiceClient", self), ["Tasks", "X"], setting="StateStore", shards=shards)

    def error(self, shards: int) -> str:
        """Return the error of a start."""
        with pytest.raises(TableSetupError) as error:
            self.prepare(shards)
        return str(error.value)


def test_new_table_keeps_the_number_of_shards() -> None:
    """Another start with the same settings changes nothing."""
    account = Account()
    account.prepare(4)
    account.prepare(4)
    assert account.tables == ["Tasks", "X"] * 2
    [row] = account.rows.values()
    assert (row["Shards"], row["RowFormat"]) == (4, ROW_FORMAT)


def test_another_number_of_shards_stops_the_start() -> None:
    """Tasks would be searched in partitions where they are not."""
    account = Account()
    account.prepare(4)
    assert account.error(8) == (
        "setting STATE_SHARDS: it is 8, but the table Tasks was created with 4:"
        " set it to 4 (locally: python -m local reset)"
    )


@pytest.mark.parametrize(("columns", "found"), [({"RowFormat": 2}, 2), ({"Format": 1}, 0)])
def test_another_row_format_stops_the_start(columns: dict[str, int], found: int) -> None:
    """Format 0 is that of rows before the first release."""
    account = Account()
    account.rows["!settings", "shards"] = {"Shards": 4, **columns}
    text = account.error(4)
    assert text.startswith(
        f"setting StateStore: the rows of table Tasks have format {found}, and this version"
    )
    assert "use another storage account or delete the table" in text
    assert "\n" not in text


def test_account_without_the_table_of_tasks_is_not_checked() -> None:
    """The Agents may have an account of their own."""
    account = Account()
    account.prepare(None)
    assert account.rows == {}


def test_account_that_does_not_answer_is_named_in_one_line() -> None:
    """The text names the setting of its connection."""
    account = Account()
    account.is_down = True
    assert account.error(4) == (
        "setting StateStore: Table Storage failed (no connection): start it, or correct the setting"
    )
