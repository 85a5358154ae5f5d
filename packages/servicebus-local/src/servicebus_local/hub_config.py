"""Reads the event hubs, with the names and limits of Event Hubs' standard tier."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field

from servicebus_local.config import BrokerConfig, ConfigurationError, Strict, read_document, validated
from servicebus_local.hubs.settings import DEFAULT_GROUP, HUB_NAME, HubSettings

_HOUR_MS = 3_600_000
_GROUPS = 20
_NAME = "up to 50 letters, digits and . - _ with a letter or digit first and last"


class _Hub(Strict):
    name: str = Field(pattern=HUB_NAME, max_length=50, description=_NAME)
    partition_count: int = Field(4, ge=1, le=32, description="a whole number from 1 to 32")
    retention_hours: int = Field(168, ge=1, le=168, description="a whole number from 1 to 168")
    consumer_groups: list[str] = Field([], max_length=_GROUPS, description=f"up to {_GROUPS} names")

    def settings(self) -> HubSettings:
        """Return the properties as the broker uses them."""
        groups = (group for group in self.consumer_groups if group.lower() != DEFAULT_GROUP)
        return HubSettings(self.partition_count, self.retention_hours * _HOUR_MS, tuple(groups))


class _Document(Strict):
    hubs: list[_Hub] = Field(description="a list of hubs")


def with_hubs_of(config: BrokerConfig, file: Path) -> BrokerConfig:
    """Return a configuration with the hubs of a file added. Raises ConfigurationError."""
    return _with_hubs(config, read_document(file, "--hubs"), str(file))


def with_hubs_named(config: BrokerConfig, names: Iterable[str]) -> BrokerConfig:
    """Return a configuration with hubs that have the default properties. Raises ConfigurationError."""
    return _with_hubs(config, {"hubs": [{"name": name} for name in names]}, "--hub")


def _with_hubs(config: BrokerConfig, document: Any, source: str) -> BrokerConfig:
    parsed = validated(_Document, (_Hub,), document, source)
    taken = {name.lower(): "a queue" for name in config.queues}
    for hub in parsed.hubs:
        if owner := taken.get(hub.name.lower()):
            raise ConfigurationError(
                f"{source}: hub '{hub.name}': {owner} has this name (names are case-insensitive)"
            )
        taken[hub.name.lower()] = "another hub"
    hubs: Mapping[str, HubSettings] = {hub.name: hub.settings() for hub in parsed.hubs}
    return replace(config, hubs=hubs)
