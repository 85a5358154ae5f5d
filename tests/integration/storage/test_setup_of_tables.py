"""Tables of a real Azurite are created once, and keep the settings of their first start."""

from __future__ import annotations

import uuid

import pytest
from azure.data.tables import TableServiceClient

from functions import table_setup
from functions.connections import Connection
from functions.table_setup import TableSetupError, prepare_tables

pytestmark = pytest.mark.process


def test_start_with_another_number_of_shards_fails(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start with the same settings is repeated without an effect."""
    name = f"T{uuid.uuid4().hex}"
    monkeypatch.setattr(table_setup, "TASKS_TABLE", name)
    with TableServiceClient.from_connection_string(connection.connection_string or "") as service:
        for _ in range(2):
            prepare_tables(service, [name], setting="StateStore", shards=4)
        with pytest.raises(TableSetupError, match=r"STATE_SHARDS: it is 8, but .* with 4: set it to 4"):
            prepare_tables(service, [name], setting="StateStore", shards=8)
        with pytest.raises(TableSetupError, match="setting StateStore: Table Storage failed"):
            prepare_tables(service, ["1"], setting="StateStore")
