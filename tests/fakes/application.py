"""The settings of an application that is connected to nothing, and its parts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from functions.agents.agent_catalog import setting_of
from functions.settings import load_settings
from functions.wiring import Wiring
from functions.workflows.registry import Registration, load_registrations

#: The settings without which no application starts.
SETTINGS = {
    "StateStore": "UseDevelopmentStorage=true",
    "ServiceBusConnection": "Endpoint=sb://127.0.0.1;SharedAccessKeyName=local;SharedAccessKey=local",
}


def agent_addresses(registrations: Sequence[Registration]) -> dict[str, str]:
    """Return the settings with the addresses of the Agents of some workflows."""
    agents = {name for each in registrations for name in each.agent_names}
    return {setting_of(name, "URL"): "https://service.example" for name in agents}


def wired(registrations: Sequence[Registration] | None = None, /, **settings: str) -> Wiring:
    """Wire the application with some workflows, by default all, and their sample services."""
    registrations = load_registrations() if registrations is None else registrations
    given = {**SETTINGS, "SAMPLE_SERVICES": "1", **agent_addresses(registrations), **settings}
    with pytest.MonkeyPatch.context() as environment:
        for name, value in given.items():
            environment.setenv(name, value)
        return Wiring(load_settings(), registrations)
