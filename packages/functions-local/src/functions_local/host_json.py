"""The values of `host.json`, and the settings that override them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from functions_local.configuration import AppSettings, StartError, read_json
from functions_local.times import parse_timespan

#: Prefix of settings that override a value of host.json, and their separator.
_OVERRIDE = re.compile(r"AzureFunctionsJobHost(?:__|:)", re.IGNORECASE)
_SEPARATOR = re.compile(r"__|:")


#: The names that Azure Storage or the Durable Task Scheduler allow for a hub; here it is also a file name.
_HUB = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{2,63}")

TimeSpan = Annotated[timedelta, BeforeValidator(lambda value: parse_timespan(str(value)))]


def _limit(value: object) -> timedelta | None:
    if value == "-1":
        return None
    limit = parse_timespan(str(value))
    if limit < timedelta(seconds=1):
        raise ValueError("it must be at least 00:00:01; -1 is no limit")
    return limit


def _start_type(value: object) -> object:
    """Return a name in the enumeration's spelling: .NET reads names in any case."""
    return next((known for known in StartType if known.lower() == str(value).lower()), value)


class _Section(BaseModel):
    """A part of host.json: camelCase names, unknown keys ignored as in Azure."""

    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _in_any_case(cls, section: object) -> object:
        """Accept each name in any case of its letters, as configuration in .NET does."""
        names = {str(field.alias).lower(): str(field.alias) for field in cls.model_fields.values()}
        if not isinstance(section, dict):
            return section
        return {names.get(key.lower(), key): value for key, value in section.items()}


class HttpOptions(_Section):
    """`extensions.http`."""

    route_prefix: str = "api"
    #: Headers of every response, unless the response has set them itself.
    custom_headers: Mapping[str, str] = {}


class ServiceBusOptions(_Section):
    """`extensions.serviceBus`, with the extension's own defaults."""

    max_concurrent_calls: int = Field(default=16, ge=1)
    max_message_batch_size: int = Field(default=1000, ge=1)
    prefetch_count: int = Field(default=0, ge=0)
    auto_complete_messages: bool = True
    max_auto_lock_renewal_duration: TimeSpan = timedelta(minutes=5)


class StartType(StrEnum):
    """Where a partition without a checkpoint begins."""

    FROM_START = "fromStart"
    FROM_END = "fromEnd"
    FROM_ENQUEUED_TIME = "fromEnqueuedTime"


class InitialOffset(_Section):
    """`initialOffsetOptions`."""

    type: Annotated[StartType, BeforeValidator(_start_type)] = StartType.FROM_START
    enqueued_time_utc: datetime | None = None

    @model_validator(mode="after")
    def _has_time(self) -> InitialOffset:
        if self.type is StartType.FROM_ENQUEUED_TIME and self.enqueued_time_utc is None:
            raise ValueError("fromEnqueuedTime needs enqueuedTimeUtc")
        return self


class EventHubsOptions(_Section):
    """`extensions.eventHubs`, with the extension's own defaults."""

    max_event_batch_size: int = Field(default=100, ge=1)
    #: The local host waits for no batch to fill.
    min_event_batch_size: int = Field(default=1, ge=1, le=1)
    batch_checkpoint_frequency: int = Field(default=1, ge=1)
    prefetch_count: int = Field(default=300, ge=1)
    initial_offset_options: InitialOffset = InitialOffset()
    #: Time before this host claims a partition that another reader has taken.
    load_balancing_update_interval: TimeSpan = timedelta(seconds=30)
    enable_checkpointing: bool = True


class DurableOptions(_Section):
    """`extensions.durableTask`. For a limit that is None the engine uses its default."""

    hub_name: str = "TestHubName"
    #: Whether history keeps the inputs of activities, for `showHistory`.
    store_inputs_in_orchestration_history: bool = False
    #: The version of an orchestration that is started without one.
    default_version: str = ""
    max_concurrent_orchestrator_functions: int | None = Field(default=None, ge=1)
    max_concurrent_activity_functions: int | None = Field(default=None, ge=1)


class Extensions(_Section):
    """`extensions`."""

    http: HttpOptions = HttpOptions()
    service_bus: ServiceBusOptions = ServiceBusOptions()
    event_hubs: EventHubsOptions = EventHubsOptions()
    durable_task: DurableOptions = DurableOptions()


class HostJson(_Section):
    """The parts of host.json that the host reads. `function_timeout` None (`"-1"` in the file): no limit."""

    function_timeout: Annotated[timedelta | None, BeforeValidator(_limit)] = timedelta(minutes=30)
    extensions: Extensions = Extensions()

    def resolved(self, settings: AppSettings) -> HostJson:
        """Return the values with `%SETTING%` in the hub's name replaced.

        Raises StartError without that setting, and for a name that no storage would accept.
        """
        durable = self.extensions.durable_task
        hub = settings.resolve(durable.hub_name, used_by="hubName in host.json")
        if not _HUB.fullmatch(hub):
            raise StartError(
                f"hubName in host.json is {hub!r}: it must be 3 to 64 letters, digits and hyphens"
            )
        durable = durable.model_copy(update={"hub_name": hub})
        extensions = self.extensions.model_copy(update={"durable_task": durable})
        return self.model_copy(update={"extensions": extensions})


def load_host_json(app_folder: Path, settings: AppSettings) -> HostJson:
    """Read the app folder's `host.json`; settings `AzureFunctionsJobHost__PATH__NAME` override its values.

    Raises StartError when it is missing, is not JSON, or has a value of the wrong kind (named in the text).
    """
    path = app_folder / "host.json"
    try:
        loaded = HostJson.model_validate(_overridden(read_json(path), settings.values))
    except FileNotFoundError as error:
        raise StartError(f"{app_folder} is not a function app: it has no host.json (use --app)") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise StartError(f"{path}: {where}: {first['msg']}") from error
    return loaded.resolved(settings)


def _overridden(content: dict[str, Any], settings: Mapping[str, str]) -> dict[str, Any]:
    for name, value in settings.items():
        if prefix := _OVERRIDE.match(name):
            *sections, last = _SEPARATOR.split(name[prefix.end() :])
            place = content
            for section in sections:
                key = _spelled(place, section)
                if not isinstance(place.get(key), dict):
                    place[key] = {}
                place = place[key]
            place[_spelled(place, last)] = value
    return content


def _spelled(section: Mapping[str, Any], name: str) -> str:
    """Return the name in the section's spelling: configuration in .NET has no case."""
    return next((known for known in section if known.lower() == name.lower()), name)
