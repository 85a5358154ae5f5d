"""Clients are made of connection strings or identities; a string that can't work is named."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from azure.servicebus.aio import ServiceBusClient

from functions.bus.sender import connect_bus
from functions.connections import Connection
from functions.pattern.errors import SettingsError
from functions.store import connect as table_storage

BY_IDENTITY = Connection(None, "https://account.table.core.windows.net", "client")


@pytest.mark.parametrize(
    ("connect", "setting"),
    [
        (table_storage.connect, "StateStore"),
        (table_storage.connect_at_start, "StateStore"),
        (connect_bus, "ServiceBusConnection"),
    ],
)
@pytest.mark.parametrize("text", ["rubbish", "Endpoint=;AccountName=;"])
def test_connection_string_that_cannot_work_is_named(
    connect: Callable[[Connection], object], setting: str, text: str
) -> None:
    """The start stops with one line that names the setting; the string, a secret, is not shown."""
    with pytest.raises(SettingsError) as refusal:
        connect(Connection(text, None, None))
    line = str(refusal.value)
    assert line.startswith(f"setting {setting} is wrong (")
    assert "set it to" in line
    assert "\n" not in line
    assert text not in line


_AT = "Endpoint=sb://bus.example/"
_KEY = "SharedAccessKeyName=root;SharedAccessKey=a2V5="


@pytest.mark.parametrize(
    "text",
    [
        f"{_AT};{_KEY}",
        f" {_AT};{_KEY};UseDevelopmentEmulator=true; ",
        f"{_AT};{_KEY};EntityPath=",
        f"endpoint=sb://bus.example;{_KEY.upper().replace('=ROOT', '=root')}",
        f"HostName=sb://bus.example;{_KEY}",
        f"{_AT};SharedAccessSignature=sig",
        f"{_AT};SharedAccessSignature=sig;{_KEY}",
        f"{_AT};SharedAccessSignature=sig;SharedAccessKeyName=root",
        f"{_AT};SharedAccessKeyName=root",
        f"{_AT};SharedAccessKey=a2V5=",
        _AT,
        _KEY,
        f"Endpoint=bus.example;{_KEY}",
        f"{_AT};{_KEY};more",
    ],
)
async def test_bus_is_checked_at_start_as_the_sdk_checks_it_later(text: str) -> None:
    """So a string that is taken works, and one that can't work is named before the first message."""
    try:
        await ServiceBusClient.from_connection_string(text).close()
    except ValueError:
        with pytest.raises(SettingsError, match="setting ServiceBusConnection is wrong"):
            connect_bus(Connection(text, None, None))
    else:
        client = connect_bus(Connection(text, None, None))
        assert client() is client()
        assert client().fully_qualified_namespace == "bus.example"


async def test_state_store_is_reached_by_identity() -> None:
    """Without a connection string, the address and the identity are used."""
    async with table_storage.connect(BY_IDENTITY) as client:
        assert client.service.url == BY_IDENTITY.address
    with table_storage.connect_at_start(BY_IDENTITY) as client_at_start:
        assert client_at_start.url == BY_IDENTITY.address


async def test_service_bus_is_reached_by_identity() -> None:
    """The namespace's host name is all it needs."""
    async with connect_bus(Connection(None, "bus.servicebus.windows.net", None))() as client:
        assert client.fully_qualified_namespace == "bus.servicebus.windows.net"
