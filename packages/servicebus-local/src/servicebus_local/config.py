"""Reads queues and event hubs, with their names and properties as in Azure Resource Manager.

The limits are those of Service Bus, and of Event Hubs' standard tier: an accepted file can also be deployed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

import isodate
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from servicebus_local.broker.settings import MEGABYTE, QUEUE_NAME, QueueSettings
from servicebus_local.hubs.settings import DEFAULT_GROUP, HUB_NAME, HubSettings

_STANDARD_INPUT = Path("-")


class ConfigurationError(Exception):
    """The configuration can't be used. The text names source, queue and property in one line."""


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """The queues and hubs to serve, and when messages expire."""

    queues: Mapping[str, QueueSettings]
    hubs: Mapping[str, HubSettings] = field(default_factory=dict)
    #: Delete or dead-letter an expired message only when a receiver requests messages, as Azure may.
    expire_on_receive: bool = False


def read_config(file: Path) -> BrokerConfig:
    """Read a file, or standard input for `-`. Raises ConfigurationError."""
    source = "standard input" if file == _STANDARD_INPUT else str(file)
    return _validated(read_document(file, "--config"), source)


def read_document(file: Path, option: str) -> Any:
    """Return the JSON of a file, or of standard input for `-`. Raises ConfigurationError."""
    source = "standard input" if file == _STANDARD_INPUT else str(file)
    try:
        text = sys.stdin.read() if file == _STANDARD_INPUT else file.read_text(encoding="utf-8")
        return json.loads(text)
    except OSError as error:
        raise ConfigurationError(
            f"{source}: can't be read ({error.strerror}); name another file with {option}"
        ) from error
    except ValueError as error:
        raise ConfigurationError(f"{source}: is not JSON: {error}") from error
    except RecursionError as error:
        raise ConfigurationError(f"{source}: is nested too deeply") from error


def queues_named(names: Iterable[str]) -> BrokerConfig:
    """Return queues with the default properties. Raises ConfigurationError."""
    return _validated({"queues": [{"name": name} for name in names]}, "--queue")


def _validated(document: Any, source: str) -> BrokerConfig:
    parsed = validated(_Document, (_Queue, _Properties), document, source)
    names = [queue.name.lower() for queue in parsed.queues]
    for queue in parsed.queues:
        if names.count(queue.name.lower()) > 1:
            raise ConfigurationError(
                f"{source}: queue '{queue.name}': is there twice (names are case-insensitive)"
            )
    return BrokerConfig({queue.name: queue.properties.settings() for queue in parsed.queues})


def _duration(shortest: timedelta, longest: timedelta = timedelta.max) -> Callable[[object], timedelta]:
    def parse(value: object) -> timedelta:
        try:
            duration = isodate.parse_duration(value) if isinstance(value, str) else None
        except OverflowError as error:
            raise ValueError(value) from error
        # Months and years have no fixed length: isodate returns another type for them.
        if not isinstance(duration, timedelta) or not shortest <= duration <= longest:
            raise ValueError(value)
        return duration

    return parse


def _milliseconds(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)


_LOCK = BeforeValidator(_duration(timedelta(seconds=5), timedelta(minutes=5)))
_TIME_TO_LIVE = BeforeValidator(_duration(timedelta(seconds=1)))
_DUPLICATE_WINDOW = BeforeValidator(_duration(timedelta(seconds=20), timedelta(days=7)))


class Strict(BaseModel):
    """A part of a configuration file. Descriptions of fields say what is allowed, for the error text."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, strict=True)


def validated[Document: Strict](
    kind: type[Document], parts: Sequence[type[Strict]], document: Any, source: str
) -> Document:
    """Return a document with entries of the types `parts`. Raises ConfigurationError."""
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        raise ConfigurationError(f"{source}: {_first_problem(error, (kind, *parts), document)}") from error


def _first_problem(error: ValidationError, models: Sequence[type[Strict]], document: Any) -> str:
    """Return the first problem: the queue or hub, the property, and what is allowed."""
    problem = error.errors()[0]
    location, where = problem["loc"], ""
    match location:
        case (str(group), int(index), *inner):
            entry = document[group][index]
            name = entry.get("name") if isinstance(entry, dict) else None
            where = f"{group.removesuffix('s')} '{name}': " if name else f"entry {index + 1}: "
            location = tuple(inner)
    names = [part for part in location if isinstance(part, str)]
    name = names[-1] if names else ""
    allowed = {field.alias: field.description for model in models for field in model.model_fields.values()}
    if problem["type"] == "extra_forbidden":
        known = [str(field.alias) for field in models[-1].model_fields.values()] if names[:-1] else []
        return f"{where}'{name}' is not known here" + (f"; allowed are {', '.join(known)}" if known else "")
    found = "is missing" if problem["type"] == "missing" else f"{json.dumps(problem['input'])} is not allowed"
    return f"{where}{name}{': ' if name else ''}{found}; allowed is {allowed.get(name, 'an object')}"


class _Properties(Strict):
    lock_duration: Annotated[timedelta, _LOCK] = Field(
        timedelta(minutes=1), description="an ISO 8601 duration from PT5S to PT5M"
    )
    max_delivery_count: int = Field(10, ge=1, le=2000, description="a whole number from 1 to 2000")
    default_message_time_to_live: Annotated[timedelta, _TIME_TO_LIVE] | None = Field(
        None, description="an ISO 8601 duration of at least PT1S, without months and years"
    )
    dead_lettering_on_message_expiration: bool = Field(False, description="true or false")
    requires_duplicate_detection: bool = Field(False, description="true or false")
    duplicate_detection_history_time_window: Annotated[timedelta, _DUPLICATE_WINDOW] = Field(
        timedelta(minutes=10), description="an ISO 8601 duration from PT20S to P7D"
    )
    max_size_in_megabytes: int = Field(1024, ge=1, le=5120, description="a whole number from 1 to 5120")
    requires_session: Literal[False] = Field(False, description="false: the local broker has no sessions")

    def settings(self) -> QueueSettings:
        """Return the properties as the broker uses them."""
        time_to_live = self.default_message_time_to_live
        window = self.duplicate_detection_history_time_window if self.requires_duplicate_detection else None
        return QueueSettings(
            lock_ms=_milliseconds(self.lock_duration),
            max_delivery_count=self.max_delivery_count,
            time_to_live_ms=None if time_to_live is None else _milliseconds(time_to_live),
            dead_letters_expired=self.dead_lettering_on_message_expiration,
            duplicate_window_ms=None if window is None else _milliseconds(window),
            max_bytes=self.max_size_in_megabytes * MEGABYTE,
        )


class _Queue(Strict):
    name: str = Field(
        pattern=QUEUE_NAME,
        description="up to 260 letters, digits and . - _ / with a letter or digit first and last",
    )
    properties: _Properties = Field(_Properties(), description="an object")


class _Document(Strict):
    queues: list[_Queue] = Field(description="a list of queues")


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


class _HubDocument(Strict):
    hubs: list[_Hub] = Field(description="a list of hubs")


def with_hubs_of(config: BrokerConfig, file: Path) -> BrokerConfig:
    """Return a configuration with the hubs of a file added. Raises ConfigurationError."""
    return _with_hubs(config, read_document(file, "--hubs"), str(file))


def with_hubs_named(config: BrokerConfig, names: Iterable[str]) -> BrokerConfig:
    """Return a configuration with hubs that have the default properties. Raises ConfigurationError."""
    return _with_hubs(config, {"hubs": [{"name": name} for name in names]}, "--hub")


def _with_hubs(config: BrokerConfig, document: Any, source: str) -> BrokerConfig:
    parsed = validated(_HubDocument, (_Hub,), document, source)
    taken = {name.lower(): "a queue" for name in config.queues}
    for hub in parsed.hubs:
        if owner := taken.get(hub.name.lower()):
            raise ConfigurationError(
                f"{source}: hub '{hub.name}': {owner} has this name (names are case-insensitive)"
            )
        taken[hub.name.lower()] = "another hub"
    hubs: Mapping[str, HubSettings] = {hub.name: hub.settings() for hub in parsed.hubs}
    return replace(config, hubs=hubs)
