"""The app as the host sees it: each indexed function with its trigger and bindings as typed values.

Read once, at start, from the worker's metadata; every other part of the host works with these values.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Any

from functions_local.configuration import AppSettings, StartError
from functions_local.worker import Worker


class AuthLevel(Enum):
    """Which key a request must carry when the host enforces keys."""

    #: No key.
    ANONYMOUS = "ANONYMOUS"
    #: The function's or the host's key.
    FUNCTION = "FUNCTION"
    #: The host's master key.
    ADMIN = "ADMIN"


class RetryStrategy(Enum):
    """How the wait between two attempts grows."""

    #: The same wait each time.
    FIXED_DELAY = "fixed_delay"
    #: Twice the wait each time, up to a limit.
    EXPONENTIAL_BACKOFF = "exponential_backoff"


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """A function's own retry policy. `max_retries` -1 means no limit, as in Azure."""

    strategy: RetryStrategy
    max_retries: int
    first_delay: timedelta
    longest_delay: timedelta


@dataclass(frozen=True, slots=True)
class HttpTrigger:
    """An HTTP endpoint below the route prefix."""

    parameter: str
    route: str
    methods: frozenset[str]
    auth: AuthLevel


@dataclass(frozen=True, slots=True)
class TimerTrigger:
    """A schedule: NCRONTAB or TimeSpan text, with settings already resolved."""

    parameter: str
    schedule: str
    run_on_startup: bool
    use_monitor: bool


@dataclass(frozen=True, slots=True)
class ServiceBusTrigger:
    """A queue to read; with `many`, one invocation gets a list of messages."""

    parameter: str
    connection: str
    queue: str
    many: bool


@dataclass(frozen=True, slots=True)
class OrchestrationTrigger:
    """A Durable orchestrator; clients and other orchestrators call it by `name`."""

    parameter: str
    name: str


@dataclass(frozen=True, slots=True)
class ActivityTrigger:
    """A Durable activity; orchestrators call it by `name`."""

    parameter: str
    name: str


type Trigger = HttpTrigger | TimerTrigger | ServiceBusTrigger | OrchestrationTrigger | ActivityTrigger


@dataclass(frozen=True, slots=True)
class ServiceBusOutput:
    """An output binding: what the function sets on parameter `name` is sent to the queue."""

    name: str
    connection: str
    queue: str


@dataclass(frozen=True, slots=True)
class Function:
    """One function of the app."""

    name: str
    function_id: str
    trigger: Trigger
    durable_clients: tuple[str, ...]
    outputs: tuple[ServiceBusOutput, ...]
    retry: RetryPolicy | None


async def load_functions(worker: Worker, settings: AppSettings, folder: Path) -> list[Function]:
    """Load the app and return its functions, without those that settings disable. Connects to nothing.

    Raises StartError when the app cannot be loaded, has no function, uses a binding that the host does not
    support, or needs a setting that is missing.
    """
    functions = read_functions(await worker.start(), settings)
    if not functions:
        raise StartError(f"{folder} has no functions: is there a function_app.py with a FunctionApp?")
    return functions


def read_functions(metadata: Iterable[Any], settings: AppSettings) -> list[Function]:
    """Turn the worker's metadata into functions, without those that settings disable.

    Raises StartError for a binding that the host does not support and for a missing setting.
    """
    return [_function(item, settings) for item in metadata if not settings.disabled(item.name)]


def uses_durable(functions: Sequence[Function]) -> bool:
    """Whether the app has any Durable function or starts one."""
    return any(
        isinstance(function.trigger, OrchestrationTrigger | ActivityTrigger) or function.durable_clients
        for function in functions
    )


def _function(metadata: Any, settings: AppSettings) -> Function:
    name = metadata.name
    bindings = [
        _resolved(json.loads(raw), settings, used_by=f"function {name}") for raw in metadata.raw_bindings
    ]
    for binding in bindings:
        if binding["type"] not in _SUPPORTED:
            raise _unsupported(name, f"the binding {binding['type']}")
    return Function(
        name=name,
        function_id=metadata.function_id,
        trigger=_trigger(name, bindings),
        durable_clients=tuple(binding["name"] for binding in bindings if binding["type"] == "durableClient"),
        outputs=tuple(_output(name, binding) for binding in bindings if binding["type"] == "serviceBus"),
        retry=_retry(metadata.retry_options),
    )


def _resolved(binding: Mapping[str, Any], settings: AppSettings, *, used_by: str) -> dict[str, Any]:
    return {
        key: settings.resolve(value, used_by=used_by) if isinstance(value, str) else value
        for key, value in binding.items()
    }


def _trigger(function: str, bindings: list[dict[str, Any]]) -> Trigger:
    binding = next(binding for binding in bindings if binding["type"] in _TRIGGERS)
    return _TRIGGERS[binding["type"]](function, binding)


def _http(function: str, binding: Mapping[str, Any]) -> Trigger:
    methods = frozenset(str(method).upper() for method in binding.get("methods") or ("GET", "POST"))
    route = binding.get("route")
    auth = AuthLevel(str(binding.get("authLevel", "FUNCTION")).upper())
    return HttpTrigger(binding["name"], function if route is None else route.strip("/"), methods, auth)


def _timer(_function: str, binding: Mapping[str, Any]) -> Trigger:
    return TimerTrigger(
        parameter=binding["name"],
        schedule=binding["schedule"],
        run_on_startup=bool(binding.get("runOnStartup", False)),
        use_monitor=bool(binding.get("useMonitor", True)),
    )


def _service_bus(function: str, binding: Mapping[str, Any]) -> Trigger:
    if "queueName" not in binding:
        raise _unsupported(function, "a Service Bus topic trigger")
    if binding.get("isSessionsEnabled"):
        raise _unsupported(function, "a Service Bus trigger with sessions")
    many = str(binding.get("cardinality", "ONE")).upper() == "MANY"
    return ServiceBusTrigger(binding["name"], binding["connection"], binding["queueName"], many)


def _orchestration(function: str, binding: Mapping[str, Any]) -> Trigger:
    return OrchestrationTrigger(binding["name"], binding.get("orchestration") or function)


def _activity(function: str, binding: Mapping[str, Any]) -> Trigger:
    return ActivityTrigger(binding["name"], binding.get("activity") or function)


_TRIGGERS: Mapping[str, Callable[[str, Mapping[str, Any]], Trigger]] = {
    "httpTrigger": _http,
    "timerTrigger": _timer,
    "serviceBusTrigger": _service_bus,
    "orchestrationTrigger": _orchestration,
    "activityTrigger": _activity,
}

#: The types of bindings that the host supports; `http` is a function's HTTP response.
_SUPPORTED = {*_TRIGGERS, "http", "serviceBus", "durableClient"}


def _output(function: str, binding: Mapping[str, Any]) -> ServiceBusOutput:
    if "queueName" not in binding:
        raise _unsupported(function, "a Service Bus topic output")
    return ServiceBusOutput(binding["name"], binding["connection"], binding["queueName"])


def _retry(options: Any) -> RetryPolicy | None:
    if options is None:
        return None
    strategy = RetryStrategy(options.retry_strategy)
    fixed = strategy is RetryStrategy.FIXED_DELAY
    return RetryPolicy(
        strategy=strategy,
        max_retries=options.max_retry_count,
        first_delay=options.delay_interval if fixed else options.minimum_interval,
        longest_delay=options.delay_interval if fixed else options.maximum_interval,
    )


def _unsupported(function: str, what: str) -> StartError:
    return StartError(
        f"function {function} has {what}, which the local host does not support; "
        f"set AzureWebJobs.{function}.Disabled=true to start without it"
    )
