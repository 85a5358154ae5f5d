"""The parts of `host.json` that the local host honours; what it does not know it ignores, as Azure does."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from functions_local.errors import StartError
from functions_local.timespan import parse_timespan


def _timespan(value: object) -> object:
    return parse_timespan(value) if isinstance(value, str) else value


TimeSpan = Annotated[timedelta, BeforeValidator(_timespan)]


class _Section(BaseModel):
    """A part of host.json: camelCase names, unknown keys ignored."""

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
    """`extensions.durableTask`. A limit that is None is the engine's to choose."""

    hub_name: str = "TestHubName"
    max_concurrent_orchestrator_functions: int | None = Field(default=None, ge=1)
    max_concurrent_activity_functions: int | None = Field(default=None, ge=1)


class Extensions(_Section):
    """`extensions`."""

    http: HttpOptions = HttpOptions()
    service_bus: ServiceBusOptions = ServiceBusOptions()
    durable_task: DurableOptions = DurableOptions()


class HostJson(_Section):
    """The whole file. `function_timeout` None means no limit, as `"-1"` does in Azure."""

    function_timeout: Annotated[
        timedelta | None, BeforeValidator(lambda v: None if v == "-1" else _timespan(v))
    ] = timedelta(minutes=30)
    extensions: Extensions = Extensions()


def load_host_json(app_folder: Path) -> HostJson:
    """Read the app folder's `host.json`.

    Raises StartError when it is missing, is not JSON, or holds a value of the wrong kind (named in the text).
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
