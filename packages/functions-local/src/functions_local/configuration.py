"""What configures the host: `local.settings.json`, the process environment and `host.json`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from functions_local.times import parse_timespan

LOCAL_SETTINGS = "local.settings.json"

_PLACEHOLDER = re.compile(r"%([^%]+)%")


class StartError(Exception):
    """The host cannot start; the text says in one line what is wrong and how to fix it.

    `detail` holds a stack trace or the like, shown only with --verbose.
    """

    def __init__(self, message: str, *, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


@dataclass(frozen=True, slots=True)
class AppSettings:
    """The app's settings: `local.settings.json`, overridden by the process environment."""

    values: Mapping[str, str]

    @classmethod
    def load(cls, app_folder: Path, environment: Mapping[str, str]) -> AppSettings:
        """Read the file, if it exists, and apply the environment. Raises StartError when it is malformed."""
        return cls({**_read_file(app_folder / LOCAL_SETTINGS), **environment})

    def export(self, environment: MutableMapping[str, str], app_folder: Path, address: str) -> None:
        """Put the settings where the app reads them, with those that the Azure host always sets.

        `address` is the host's own, such as `127.0.0.1:7071`.
        """
        environment.update(self.values)
        environment.setdefault("FUNCTIONS_WORKER_RUNTIME", "python")
        environment.setdefault("AZURE_FUNCTIONS_ENVIRONMENT", "Development")
        environment["AzureWebJobsScriptRoot"] = str(app_folder)
        environment["WEBSITE_HOSTNAME"] = address

    def resolve(self, text: str, *, used_by: str) -> str:
        """Replace each `%NAME%` with that setting, as Azure does in binding attributes.

        Raises StartError naming the missing setting and what uses it.
        """

        def value(match: re.Match[str]) -> str:
            name = match[1]
            if name not in self.values:
                raise StartError(f"{used_by} needs the setting {name}: {how_to_set(name)}")
            return self.values[name]

        return _PLACEHOLDER.sub(value, text)

    def disabled(self, function: str) -> bool:
        """Whether `AzureWebJobs.<function>.Disabled` (or its form with underscores) is set to true."""
        names = (f"AzureWebJobs.{function}.Disabled", f"AzureWebJobs_{function}_Disabled")
        return any(self.values.get(name, "").lower() in {"1", "true"} for name in names)


def how_to_set(name: str) -> str:
    """Say, for an error message, where to add a missing setting."""
    return f'add "{name}" to Values in {LOCAL_SETTINGS}, or set it in the environment'


def _read_file(path: Path) -> dict[str, str]:
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise StartError(f"{path} is not valid JSON: {error}") from error
    values = content.get("Values", {}) if isinstance(content, dict) else None
    if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
        raise StartError(f'{path} must be an object whose "Values" are all strings')
    return values


def _timespan(value: object) -> object:
    return parse_timespan(value) if isinstance(value, str) else value


TimeSpan = Annotated[timedelta, BeforeValidator(_timespan)]


class _Section(BaseModel):
    """A part of host.json: camelCase names, unknown keys ignored as in Azure."""

    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)


class HttpOptions(_Section):
    """`extensions.http`."""

    route_prefix: str = "api"


class ServiceBusOptions(_Section):
    """`extensions.serviceBus`, with the extension's own defaults."""

    max_concurrent_calls: int = Field(default=16, ge=1)
    max_message_batch_size: int = Field(default=1000, ge=1)
    prefetch_count: int = Field(default=0, ge=0)
    auto_complete_messages: bool = True
    max_auto_lock_renewal_duration: TimeSpan = timedelta(minutes=5)


class DurableOptions(_Section):
    """`extensions.durableTask`. For a limit that is None the engine uses its default."""

    hub_name: str = "TestHubName"
    max_concurrent_orchestrator_functions: int | None = Field(default=None, ge=1)
    max_concurrent_activity_functions: int | None = Field(default=None, ge=1)


class Extensions(_Section):
    """`extensions`."""

    http: HttpOptions = HttpOptions()
    service_bus: ServiceBusOptions = ServiceBusOptions()
    durable_task: DurableOptions = DurableOptions()


class HostJson(_Section):
    """The parts of host.json that the host reads. `function_timeout` None (`"-1"` in the file): no limit."""

    function_timeout: Annotated[
        timedelta | None, BeforeValidator(lambda v: None if v == "-1" else _timespan(v))
    ] = timedelta(minutes=30)
    extensions: Extensions = Extensions()


def load_host_json(app_folder: Path) -> HostJson:
    """Read the app folder's `host.json`.

    Raises StartError when it is missing, is not JSON, or has a value of the wrong kind (named in the text).
    """
    path = app_folder / "host.json"
    try:
        return HostJson.model_validate_json(path.read_bytes())
    except FileNotFoundError as error:
        raise StartError(f"{app_folder} is not a function app: it has no host.json (use --app)") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise StartError(f"{path}: {where}: {first['msg']}") from error
