"""The hub is reached by connection string or identity; a string that can't work is named at start."""

from __future__ import annotations

import pytest

from functions.connections import Connection
from functions.hubs.connect import connect_checkpoints, connect_hub, namespace_of
from functions.pattern.errors import SettingsError

_KEY = "SharedAccessKeyName=R;SharedAccessKey=S2V5="
_LOCAL, _IN_AZURE = "127.0.0.1", "orders.servicebus.windows.net"


@pytest.mark.parametrize("text", ["rubbish", _KEY, "Endpoint=sb://127.0.0.1:5672"])
def test_connection_string_that_cannot_work_is_named(text: str) -> None:
    """In one line, without the string."""
    with pytest.raises(SettingsError, match=r"^setting EventHubConnection is wrong") as refusal:
        connect_hub(Connection(text, None, None), "order-events")
    assert text not in str(refusal.value)


@pytest.mark.parametrize(
    ("connection", "namespace"),
    [
        (
            Connection(f"Endpoint=sb://127.0.0.1:5672;{_KEY};UseDevelopmentEmulator=true", None, None),
            "127.0.0.1",
        ),
        (
            Connection(f"Endpoint=sb://Orders.servicebus.windows.net/;{_KEY}", None, None),
            "orders.servicebus.windows.net",
        ),
        (Connection(None, "Orders.servicebus.windows.net", "id"), "orders.servicebus.windows.net"),
    ],
)
def test_checkpoints_are_named_as_the_host_names_them(connection: Connection, namespace: str) -> None:
    """By the host name in lower case, without a port."""
    assert namespace_of(connection) == namespace


async def test_clients_are_made_at_their_first_use() -> None:
    """One of each, for the hub that the settings name."""
    hub = connect_hub(
        Connection(f"Endpoint=sb://127.0.0.1:5672;{_KEY};EntityPath=Orders", None, None), "orders"
    )
    assert hub() is hub()
    assert hub().eventhub_name == "orders"
    await hub().close()
    by_identity = connect_hub(Connection(None, "orders.servicebus.windows.net", None), "orders")
    assert by_identity().eventhub_name == "orders"
    await by_identity().close()
    blobs = connect_checkpoints(Connection(None, "https://host.blob.core.windows.net", None))
    async with blobs() as container:
        assert container.url == "https://host.blob.core.windows.net/azure-webjobs-eventhub"


def test_connection_string_of_another_hub_is_refused() -> None:
    """The host takes events of the hub that it names: what the API submits would be taken by nobody."""
    connection = Connection(f"Endpoint=sb://127.0.0.1:5672;{_KEY};EntityPath=other", None, None)
    with pytest.raises(
        SettingsError, match=r"EventHubConnection names the hub other, and EVENT_HUB_NAME orders"
    ):
        connect_hub(connection, "orders")


async def test_checkpoints_by_a_wrong_connection_string_are_named() -> None:
    """The Functions host itself would not start with it."""
    with pytest.raises(SettingsError, match="AzureWebJobsStorage"):
        connect_checkpoints(Connection("rubbish", None, None))()
