"""Application settings for the host: from the sample file, the developer, and the running parts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from local.platform.errors import StartRefusedError
from local.platform.options import Addresses

_SAMPLE = "local.settings.sample.json"
_OWN = "local.settings.json"
_SERVICES = "SAMPLE_SERVICES"
_AUTH = "AUTH_MODE"
#: With it, an app takes orders from its event hub: 32 partitions to read, so only where it is asked for.
_HUB = "EventHubConnection"
#: The address of the host, and so of the sample services, in the sample file.
_SAMPLE_HOST = "http://127.0.0.1:7071/"


class _SettingsFile(BaseModel):
    """The part of Core Tools' settings file that holds application settings."""

    model_config = ConfigDict(extra="ignore")

    Values: dict[str, str] = {}


def application_settings(
    app: Path,
    environment: Mapping[str, str],
    addresses: Addresses,
    settings: Mapping[str, str],
) -> dict[str, str]:
    """Return the application's settings.

    From weak to strong: the sample file, with the host's real address; what the developer has *changed*
    from the sample, in `local.settings.json` or, stronger (as with Core Tools), in the environment; the
    connections to the running parts, also in place of any other connection to an emulator; `settings`.

    Raises `StartRefusedError` for a file that cannot be read.
    """
    sample = _values(app / _SAMPLE)
    own = _values(app / _OWN)
    own |= {name: environment[name] for name in {*sample, *own, _SERVICES, _AUTH, _HUB} & {*environment}}
    changed = {name: value for name, value in own.items() if sample.get(name) != value}
    files = {name: _on_this_host(value, addresses) for name, value in sample.items()} | changed
    return {
        _SERVICES: "1",
        _AUTH: "local",
        **{name: _on_this_platform(value, addresses) for name, value in files.items()},
        **_connections(addresses),
        **{name: _if_not_another(value, addresses) for name, value in settings.items()},
    }


def _on_this_host(value: str, addresses: Addresses) -> str:
    """Move an address on the sample's host to the port in use."""
    if not value.startswith(_SAMPLE_HOST):
        return value
    return f"{addresses.host}/{value.removeprefix(_SAMPLE_HOST)}"


def _on_this_platform(value: str, addresses: Addresses) -> str:
    """Replace a connection to an emulator, whatever its setting is called."""
    if "UseDevelopmentStorage=true" in value:
        return addresses.storage_connection
    return addresses.service_bus_connection if "UseDevelopmentEmulator=true" in value else value


def _if_not_another(value: str, addresses: Addresses) -> str:
    """Keep a connection that names another platform's address: its broker is shared."""
    return value if "Endpoint=" in value else _on_this_platform(value, addresses)


def _connections(addresses: Addresses) -> dict[str, str]:
    return {
        "AzureWebJobsStorage": addresses.storage_connection,
        "StateStore": addresses.storage_connection,
        "ServiceBusConnection": addresses.service_bus_connection,
    }


def _values(file: Path) -> dict[str, str]:
    try:
        return _SettingsFile.model_validate(json.loads(file.read_text(encoding="utf-8"))).Values
    except FileNotFoundError:
        return {}
    except (json.JSONDecodeError, ValidationError, UnicodeDecodeError) as error:
        raise StartRefusedError(f"{file} is not a settings file ('Values' of strings): {error}") from error
