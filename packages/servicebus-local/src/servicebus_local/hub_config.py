"""Reads the event hubs, with the names and limits of Event Hubs' standard tier."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from servicebus_local.config import BrokerConfig, ConfigurationError, read_document
from servicebus_local.hubs.settings import DEFAULT_GROUP, HUB_NAME, HubSettings

_HOUR_MS = 3_600_000
_GROUPS = 20
_NAME = "up to 50 letters, digits and . - _ with a letter or digit first and last"


class _Strict(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, strict=True)


class _Hub(_Strict):
    """A hub. A description says what is allowed, for the error text."""

    name: str = Field(pattern=HUB_NAME, max_length=50, description=_NAME)
    partition_count: int = Field(4, ge=1, le=32, description="a whole number from 1 to 32")
    retention_hours: int = Field(168, ge=1, le=168, description="a whole number from 1 to 168")
    consumer_groups: list[str] = Field([], max_length=_GROUPS, description=f"up to {_GROUPS} names")

    def settings(self) -> HubSettings:
        """Return the properties as the broker uses them."""
        groups = (group for group in self.consumer_groups if group.lower() != DEFAULT_GROUP)
        return HubSettings(self.partition_count, self.retention_hours * _HOUR_MS, tuple(groups))


class _Document(_Strict):
    hubs: list[_Hub] = Field(description="a list of hubs")


_ALLOWED = {
    field.alias or name: field.description
    for model in (_Hub, _Document)
    for name, field in model.model_fields.items()
}


def with_hubs_of(config: BrokerConfig, file: Path) -> BrokerConfig:
    """Return a configuration with the hubs of a file added. Raises ConfigurationError."""
    return _with_hubs(config, read_document(file, "--hubs"), str(file))


def with_hubs_named(config: BrokerConfig, names: Iterable[str]) -> BrokerConfig:
    """Return a configuration with hubs that have the default properties. Raises ConfigurationError."""
    return _with_hubs(config, {"hubs": [{"name": name} for name in names]}, "--hub")


def _with_hubs(config: BrokerConfig, document: Any, source: str) -> BrokerConfig:
    try:
        parsed = _Document.model_validate(document)
    except ValidationError as error:
        raise ConfigurationError(f"{source}: {_first_problem(error, document)}") from error
    taken = {name.lower(): "a queue" for name in config.queues}
    for hub in parsed.hubs:
        if owner := taken.get(hub.name.lower()):
            raise ConfigurationError(
                f"{source}: hub '{hub.name}': {owner} has this name (names are case-insensitive)"
            )
        taken[hub.name.lower()] = "another hub"
    hubs: Mapping[str, HubSettings] = {hub.name: hub.settings() for hub in parsed.hubs}
    return replace(config, hubs=hubs)


def _first_problem(error: ValidationError, document: Any) -> str:
    """Return the first problem: the hub, the property, and what is allowed."""
    problem = error.errors()[0]
    where = ""
    match problem["loc"]:
        case ("hubs", int(index), *_):
            entry = document["hubs"][index]
            name = entry.get("name") if isinstance(entry, dict) else None
            where = f"hub '{name}': " if name else f"entry {index + 1}: "
    fields = [part for part in problem["loc"] if isinstance(part, str)]
    name = fields[-1] if fields else ""
    if problem["type"] == "extra_forbidden":
        return f"{where}'{name}' is not known here"
    found = "is missing" if problem["type"] == "missing" else f"{json.dumps(problem['input'])} is not allowed"
    return f"{where}{name}{': ' if name else ''}{found}; allowed is {_ALLOWED.get(name, 'an object')}"
