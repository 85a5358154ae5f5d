"""The application with an event hub and without: which functions it has, and where its API submits to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from functions.bus.hub import HubSubmissions
from functions.bus.messages import QueuedMessages
from functions.settings import load_settings
from functions.wiring import Wiring
from functions.workflows.registry import load_registrations
from tests.infra.application import functions
from tests.security.conftest import SETTINGS

_HUB = {
    "EventHubConnection": "Endpoint=sb://127.0.0.1:5672;SharedAccessKeyName=local;SharedAccessKey=local",
}
_ADDRESSES = [f"{name}_URL" for name in ("PAYMENT", "ACCOUNT", "PACKAGE", "TRANSPORT", "DRONE", "DELIVERY")]


@pytest.mark.parametrize(
    ("given", "way"),
    [
        ({}, QueuedMessages),
        (_HUB, QueuedMessages),
        ({**_HUB, "SUBMIT_TO": "queue"}, QueuedMessages),
        ({**_HUB, "SUBMIT_TO": "hub"}, HubSubmissions),
    ],
)
def test_api_submits_to_the_way_that_is_chosen(
    given: dict[str, str], way: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the queue, unless the settings say otherwise; what is put back goes to the queue in any case."""
    for name, value in {**SETTINGS, **dict.fromkeys(_ADDRESSES, "https://service.example"), **given}.items():
        monkeypatch.setenv(name, value)
    ports = Wiring(load_settings(), load_registrations())._ports
    submissions: Any = ports.submissions
    assert isinstance(submissions._submissions, way)
    assert isinstance(ports.postbox, QueuedMessages)


def test_functions_of_the_hub_are_there_only_with_it() -> None:
    """All others are the same."""
    without, with_hub = functions(), functions(with_hub=True)
    assert {name: each for name, each in with_hub.items() if name in without} == without
    assert _types(with_hub["ingestion"]) == ["durableClient", "eventHubTrigger"]
    assert with_hub.keys() - without.keys() == {"ingestion"}


def _types(bindings: Sequence[dict[str, Any]]) -> list[str]:
    return sorted(str(each["type"]) for each in bindings)
