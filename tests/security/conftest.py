"""The whole application as it is deployed, connected to nothing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from functions.agents.agent_catalog import setting_of
from functions.settings import load_settings
from functions.wiring import Wiring
from functions.workflows.registration import Registration
from functions.workflows.registry import load_registrations

SETTINGS = {
    "StateStore": "UseDevelopmentStorage=true",
    "ServiceBusConnection": "Endpoint=sb://127.0.0.1;SharedAccessKeyName=local;SharedAccessKey=local",
    "SAMPLE_SERVICES": "1",
}


def wired(registrations: Sequence[Registration], **settings: str) -> Wiring:
    """Wire the application with these workflows and all sample services. It connects on first use."""
    agents = {name for each in registrations for name in each.agent_names}
    addresses = {setting_of(name, "URL"): "https://service.example" for name in agents}
    with pytest.MonkeyPatch.context() as environment:
        for name, value in {**SETTINGS, **addresses, **settings}.items():
            environment.setenv(name, value)
        return Wiring(load_settings(), registrations)


@pytest.fixture(scope="session")
def wiring() -> Wiring:
    """Wire every workflow that is registered."""
    return wired(load_registrations())
