"""The whole application as it is deployed, connected to nothing."""

from __future__ import annotations

import pytest

from functions.agents.catalog import AGENTS
from functions.remotes import remotes_of
from functions.settings import agent_url_setting, load_settings
from functions.wiring import Wiring
from functions.workflows.registry import WORKFLOWS

SETTINGS = {
    "StateStore": "UseDevelopmentStorage=true",
    "ServiceBusConnection": "Endpoint=sb://127.0.0.1;SharedAccessKeyName=local;SharedAccessKey=local",
    "SAMPLE_SERVICES": "1",
    **{agent_url_setting(agent): "https://service.example" for agent in AGENTS},
}


@pytest.fixture(scope="session")
def wiring() -> Wiring:
    """Wire everything, the sample services too. Nothing connects before it is used."""
    with pytest.MonkeyPatch.context() as environment:
        for name, value in SETTINGS.items():
            environment.setenv(name, value)
        settings = load_settings()
        return Wiring(settings, WORKFLOWS, remotes_of(settings, WORKFLOWS))
