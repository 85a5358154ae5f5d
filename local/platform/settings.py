"""Application settings for the host: the sample's, the developer's own, and the parts' addresses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from local.platform.errors import RefusedError
from local.platform.options import Addresses

_SAMPLE = "local.settings.sample.json"
_OWN = "local.settings.json"
_SERVICES = "SAMPLE_SERVICES"
#: Where the sample file has the host, and so the sample services.
_SAMPLE_HOST = "http://127.0.0.1:7071/"


class _SettingsFile(BaseModel):
    """The part of Core Tools' settings file that holds application settings."""

    model_config = ConfigDict(extra="ignore")

    Values: dict[str, str] = {}


def application_settings(
    app: Path, environment: Mapping[str, str], addresses: Addresses, settings: Mapping[str, str]
) -> dict[str, str]:
    """Return the application's settings.

    From weak to strong: the sample file, with the host's real address; what the developer has *changed*
    from the sample, in `local.settings.json` or, stronger (as with Core Tools), in the environment; the
    connections to the running parts, which are never anybody's choice; `settings`.

    Raises `RefusedError` for a file that cannot be read.
    """
    sample = _values(app / _SAMPLE)
    own = _values(app / _OWN)
    own |= {name: environment[name] for name in {*sample, *own, _SERVICES} & {*environment}}
    changed = {name: value for name, value in own.items() if sample.get(name) != value}
    return {
        _SERVICES: "1",
        **{name: _on_this_host(value, addresses) for name, value in sample.items()},
        **changed,
        **_connections(addresses),
        **settings,
    }


def _on_this_host(value: str, addresses: Addresses) -> str:
    """Move an address on the sample's host to the port in use."""
    if not value.startswith(_SAMPLE_HOST):
        return value
    return f"{addresses.host}/{value.removeprefix(_SAMPLE_HOST)}"


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
        raise RefusedError(f"{file} is not a settings file ('Values' of texts): {error}") from error
