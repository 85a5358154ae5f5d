"""Typed values of the app: each indexed function with its trigger and bindings.

The host reads them once, at start, from the worker's metadata.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Any

from functions_local.app_faults import functions_of_model_v1, mistakes_in, unsupported_parts
from functions_local.configuration import AppSettings, StartError, is_true
from functions_local.worker import Indexed, Worker

_log = logging.getLogger(__name__)


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

    FIXED_DELAY = "fixed_delay"
    EXPONENTIAL_BACKOFF = "exponential_backoff"


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """A function's own retry policy. `max_retries` -1 means no limit, as in Azure."""

    strategy: RetryStrategy
    max_retries: int
    first_delay: timedelta
    longest_delay: timedelta

    def delay(self, count: int) -> float:
        """Return the seconds before retry number `count`, counted from 0."""
        if self.strategy is RetryStrategy.FIXED_DELAY:
            return self.first_delay.total_seconds()
        # The exponent is bounded to prevent an overflow; the longest delay applies long before that.
        return min(self.first_delay * (1 << min(count, 30)), self.longest_delay).total_seconds()


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
    """A queue to read; with `many`, one invocation receives a list of messages."""

    parameter: str
    connection: str
    queue: str
    many: bool


@dataclass(frozen=True, slots=True)
class EventHubTrigger:
    """An event hub whose partitions are all read; one invocation receives a list of events.

    Without `binary`, the bodies are decoded as text.
    """

    parameter: str
    connection: str
    hub: str
    consumer_group: str
    binary: bool


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


type Trigger = (
    HttpTrigger | TimerTrigger | ServiceBusTrigger | EventHubTrigger | OrchestrationTrigger | ActivityTrigger
)


@dataclass(frozen=True, slots=True)
class ServiceBusOutput:
    """An output binding: sends the value of parameter `name`, or the return value (`$return`)."""

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
    #: The output binding of the HTTP response, `$return` unless the app names another; None: no response.
    response: str | None = None
    #: All bindings, as in a function.json.
    bindings: tuple[Mapping[str, Any], ...] = ()


async def load_functions(
    worker: Worker, settings: AppSettings, folder: Path, *, skip_unsupported: bool
) -> list[Function]:
    """Load the app and return its enabled functions, without a connection to any service.

    Raises StartError for an unsupported function, unless `skip_unsupported` skips it with a warning. Raises
    StartError also when the app cannot be loaded, has no function, or needs a setting that is missing.
    """
    indexed = await worker.start()
    if not indexed and (refusals := functions_of_model_v1(folder)):
        raise StartError("\n".join(refusals))
    if not indexed:
        raise StartError(f"{folder} has no functions: is there a function_app.py with a FunctionApp?")
    if functions := read_functions(indexed, settings, skip_unsupported=skip_unsupported):
        return functions
    raise StartError(f"no function of {folder} is left: each is disabled, or not supported")


def read_functions(
    indexed: Iterable[Indexed], settings: AppSettings, *, skip_unsupported: bool = False
) -> list[Function]:
    """Convert the worker's index into functions, without the functions that settings disable.

    Raises StartError for an unsupported function, unless it is skipped, for a function that Azure would
    refuse, and for a missing setting.
    """
    enabled = [each for each in indexed if not settings.disabled(each.name)]
    refusals = {each.name: unsupported_parts(each, _SUPPORTED) for each in enabled}
    lines = [line for lines in refusals.values() for line in lines]
    if lines and not skip_unsupported:
        raise StartError("\n".join(f"{line} (--skip-unsupported leaves the function out)" for line in lines))
    for line in lines:
        _log.warning("%s: the function is left out", line)
    supported = [each for each in enabled if not refusals[each.name]]
    if mistakes := [line for each in supported for line in mistakes_in(each)]:
        raise StartError("\n".join(mistakes))
    return [_function(each, settings) for each in supported]


def uses_durable(functions: Sequence[Function]) -> bool:
    """Whether the app has any Durable function or starts one."""
    return any(
        isinstance(function.trigger, OrchestrationTrigger | ActivityTrigger) or function.durable_clients
        for function in functions
    )


def _function(indexed: Indexed, settings: AppSettings) -> Function:
    name = indexed.name
    bindings = [_resolved(raw, settings, used_by=f"function {name}") for raw in indexed.bindings]
    try:
        trigger, retry = _trigger(name, bindings), _retry(indexed.retry_options)
    except ValueError as error:  # of an enumeration
        raise StartError(f"function {name}: {error}") from error
    return Function(
        name=name,
        function_id=indexed.function_id,
        trigger=trigger,
        durable_clients=tuple(binding["name"] for binding in bindings if binding["type"] == "durableClient"),
        outputs=tuple(_output(binding) for binding in bindings if binding["type"] == "serviceBus"),
        retry=retry,
        response=next((binding["name"] for binding in bindings if binding["type"] == "http"), None),
        bindings=tuple(indexed.bindings),
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
    route = binding.get("route") or function
    auth = AuthLevel(str(binding.get("authLevel", "FUNCTION")).upper())
    return HttpTrigger(binding["name"], route.strip("/"), methods, auth)


def _timer(_function: str, binding: Mapping[str, Any]) -> Trigger:
    return TimerTrigger(
        parameter=binding["name"],
        schedule=binding["schedule"],
        run_on_startup=is_true(binding.get("runOnStartup")),
        use_monitor=is_true(binding.get("useMonitor", True)),
    )


def _service_bus(_function: str, binding: Mapping[str, Any]) -> Trigger:
    many = str(binding.get("cardinality", "ONE")).upper() == "MANY"
    return ServiceBusTrigger(binding["name"], _connection(binding), binding["queueName"], many)


def _event_hub(_function: str, binding: Mapping[str, Any]) -> Trigger:
    return EventHubTrigger(
        parameter=binding["name"],
        connection=binding.get("connection") or "EventHub",
        hub=binding["eventHubName"],
        consumer_group=binding.get("consumerGroup") or "$Default",
        binary=str(binding.get("dataType", "")).upper() == "BINARY",
    )


_TRIGGERS: Mapping[str, Callable[[str, Mapping[str, Any]], Trigger]] = {
    "httpTrigger": _http,
    "timerTrigger": _timer,
    "serviceBusTrigger": _service_bus,
    "eventHubTrigger": _event_hub,
    "orchestrationTrigger": lambda function, binding: OrchestrationTrigger(
        binding["name"], binding.get("orchestration") or function
    ),
    "activityTrigger": lambda function, binding: ActivityTrigger(
        binding["name"], binding.get("activity") or function
    ),
}

#: The types of bindings that the host supports; `http` is a function's HTTP response.
_SUPPORTED = {*_TRIGGERS, "http", "serviceBus", "durableClient"}


def _output(binding: Mapping[str, Any]) -> ServiceBusOutput:
    return ServiceBusOutput(binding["name"], _connection(binding), binding["queueName"])


def _connection(binding: Mapping[str, Any]) -> str:
    """Return the setting with the connection: by default, as in Azure, AzureWebJobsServiceBus."""
    return binding.get("connection") or "AzureWebJobsServiceBus"


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
