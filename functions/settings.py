"""Every setting of the application, read and checked once at start.

Connections follow the Functions host's own convention: `NAME` holds a connection string (local
runs); `NAME__tableServiceUri` or `NAME__fullyQualifiedNamespace` is an address that is reached with
an identity (Azure), user-assigned when `NAME__clientId` is set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, HttpUrl, ValidationError, create_model
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from functions.pattern.errors import SettingsError
from functions.web.destinations import check_destination

#: An address that the application sends requests to.
Destination = Annotated[HttpUrl, AfterValidator(check_destination)]

#: The time that a step may take, in seconds; no task waits longer than a day for one answer.
StepSeconds = Annotated[float, Field(gt=0, le=86_400)]


@contextmanager
def connection_string_of(setting: str) -> Iterator[None]:
    """Name the setting when an SDK can't use its connection string, which is a secret and not shown."""
    try:
        yield
    except ValueError:
        raise SettingsError(
            f"setting {setting} is wrong (not a connection string): set it to the one that the portal shows"
        ) from None


@dataclass(frozen=True, slots=True)
class ApplicationInsights:
    """Where telemetry goes in Azure: by the connection string alone, or by identity (`client_id`), too."""

    connection_string: str = field(repr=False)
    by_identity: bool
    client_id: str | None


@dataclass(frozen=True, slots=True)
class Connection:
    """How to reach one Azure service: by connection string, or by address and identity."""

    connection_string: str | None = field(repr=False)
    address: str | None
    client_id: str | None


def _parts(text: object) -> object:
    return tuple(part.strip() for part in text.split(",") if part.strip()) if isinstance(text, str) else text


def _limits(text: object) -> object:
    parts = _parts(text)
    return dict(part.split("=", 1) for part in parts) if isinstance(parts, tuple) else parts


def _pairs(text: object) -> object:
    """Read `name=value;name=value`, as connection strings are written."""
    if not isinstance(text, str):
        return text
    return dict(part.strip().split("=", 1) for part in text.split(";") if part.strip())


class Environment(BaseSettings):
    """Reads settings from the environment; one that is empty is not set."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore", env_ignore_empty=True)


class Settings(Environment):
    """The application's settings. Times are in seconds; each description is the fix for its error."""

    state_store: str | None = Field(None, validation_alias="StateStore", repr=False)
    state_store_uri: str | None = Field(None, validation_alias="StateStore__tableServiceUri")
    state_store_client_id: str | None = Field(None, validation_alias="StateStore__clientId")
    service_bus: str | None = Field(None, validation_alias="ServiceBusConnection", repr=False)
    service_bus_namespace: str | None = Field(
        None, validation_alias="ServiceBusConnection__fullyQualifiedNamespace"
    )
    service_bus_client_id: str | None = Field(None, validation_alias="ServiceBusConnection__clientId")
    state_shards: int = Field(
        16,
        validation_alias="STATE_SHARDS",
        ge=1,
        le=256,
        description="set it to a whole number from 1 to 256, and never change it once the table exists",
    )
    pick_up_seconds: float = Field(
        60,
        validation_alias="PICK_UP_SECONDS",
        gt=0,
        le=86_400,
        description="set it to the seconds within which a Scheduler must take up a task, such as 60",
    )
    reply_queues: Annotated[frozenset[str], NoDecode, BeforeValidator(_parts)] = Field(
        frozenset(),
        validation_alias="REPLY_QUEUES",
        description="set it to the queues that callers may name in reply_to, with commas between",
    )
    step_seconds: Annotated[dict[str, StepSeconds], NoDecode, BeforeValidator(_limits)] = Field(
        default_factory=dict,
        validation_alias="STEP_SECONDS",
        description="set it to the complete-by limits to change, such as orders.payment=30,other.step=5",
    )
    agents_elsewhere: Annotated[frozenset[str], NoDecode, BeforeValidator(_parts)] = Field(
        frozenset(),
        validation_alias="AGENTS_ELSEWHERE",
        description="set it to the Agents behind queues that other processes serve, with commas between",
    )
    breaker_failures: int = Field(
        5,
        validation_alias="BREAKER_FAILURES",
        ge=1,
        description="set it to the failed calls in a row after which a service is left alone, such as 5",
    )
    breaker_open_seconds: float = Field(
        15,
        validation_alias="BREAKER_OPEN_SECONDS",
        gt=0,
        description="set it to the seconds for which a failing service is left alone, such as 15",
    )
    supervisor_schedule: str = Field(
        "*/30 * * * * *",
        validation_alias="SUPERVISOR_SCHEDULE",
        min_length=9,
        description="set it to when the Supervisor looks for overdue tasks, such as */30 * * * * *",
    )
    supervisor_threshold: int = Field(
        3,
        validation_alias="SUPERVISOR_THRESHOLD",
        ge=0,
        le=100,
        description="set it to the recoveries that a task gets at once, such as 3",
    )
    extended_waits: Annotated[tuple[StepSeconds, ...], NoDecode, BeforeValidator(_parts)] = Field(
        (60, 300, 900),
        validation_alias="EXTENDED_WAITS",
        max_length=20,
        description="set it to the seconds to wait before each further recovery, such as 60,300,900",
    )
    skew_seconds: float = Field(
        5,
        validation_alias="SKEW_SECONDS",
        ge=0,
        le=300,
        description="set it to the seconds by which clocks may differ, such as 5",
    )
    retention_days: float = Field(
        30,
        validation_alias="RETENTION_DAYS",
        gt=0,
        description="set it to the days for which finished tasks are kept, such as 30",
    )
    alert_webhook_url: Destination | None = Field(
        None,
        validation_alias="ALERT_WEBHOOK_URL",
        repr=False,
        description="set it to the address that alerts are posted to, or leave it out",
    )
    alert_format: Literal["generic", "teams"] | None = Field(
        None,
        validation_alias="ALERT_FORMAT",
        description="set it to generic or to teams, or leave it out: the address tells",
    )
    auth_mode: Literal["keys", "easyauth"] = Field(
        "keys",
        validation_alias="AUTH_MODE",
        description="set it to keys, or to easyauth where the platform's sign-in (Easy Auth) is on",
    )
    rate_per_minute: int = Field(
        6_000,
        validation_alias="RATE_PER_MINUTE",
        ge=1,
        description="set it to the requests of a caller that an instance takes a minute, such as 6000",
    )
    requests_in_flight: int = Field(
        200,
        validation_alias="REQUESTS_IN_FLIGHT",
        ge=1,
        description="set it to the requests of a caller that an instance takes at a time, such as 200",
    )
    sample_services: bool = Field(
        default=False,
        validation_alias="SAMPLE_SERVICES",
        description="set it to 1 to serve the sample remote services too, or to 0",
    )

    application_insights_connection: str | None = Field(
        None, validation_alias="APPLICATIONINSIGHTS_CONNECTION_STRING", repr=False
    )
    application_insights_authentication: Annotated[dict[str, str], NoDecode, BeforeValidator(_pairs)] = Field(
        default_factory=dict,
        validation_alias="APPLICATIONINSIGHTS_AUTHENTICATION_STRING",
        description="set it to Authorization=AAD;ClientId=… (an identity's), or leave it out",
    )
    otlp_endpoint: HttpUrl | None = Field(
        None,
        validation_alias="OTEL_EXPORTER_OTLP_ENDPOINT",
        description="set it to the address of an OTLP/HTTP endpoint, such as http://localhost:4318",
    )
    service_name: str = Field("scheduler-agent-supervisor", validation_alias="OTEL_SERVICE_NAME")
    trace_url_template: str | None = Field(
        None,
        validation_alias="TRACE_URL_TEMPLATE",
        pattern=r"^https?://[^\s{}]+\{trace_id\}[^\s{}]*$",
        description="set it to where traces are shown, such as https://jaeger.example.com/trace/{trace_id}",
    )

    @property
    def application_insights(self) -> ApplicationInsights | None:
        """Tell where telemetry goes in Azure, if anywhere."""
        if self.application_insights_connection is None:
            return None
        how = self.application_insights_authentication
        by_identity = how.get("Authorization") == "AAD"
        return ApplicationInsights(self.application_insights_connection, by_identity, how.get("ClientId"))

    @property
    def state_store_connection(self) -> Connection:
        """Tell how to reach Table Storage."""
        return Connection(self.state_store, self.state_store_uri, self.state_store_client_id)

    @property
    def service_bus_connection(self) -> Connection:
        """Tell how to reach Service Bus."""
        return Connection(self.service_bus, self.service_bus_namespace, self.service_bus_client_id)


def agent_url_setting(agent: str) -> str:
    """Name the setting that holds the address of the service behind an Agent, such as `PAYMENT_URL`."""
    return f"{agent.upper().replace('-', '_')}_URL"


def load_agent_urls(agents: Iterable[str]) -> dict[str, str]:
    """Read the address of the remote service behind each Agent. Raises `SettingsError`."""
    names = {agent.replace("-", "_"): agent for agent in sorted(agents)}
    fields: dict[str, Any] = {
        name: (Destination, Field(validation_alias=agent_url_setting(agent))) for name, agent in names.items()
    }
    try:
        read = create_model("AgentUrls", __base__=Environment, **fields)()
    except ValidationError as error:
        name, what = _first_fault(error)
        raise SettingsError(
            f"setting {name} {what}: set it to the address of the service, such as https://pay.example.com/payments"
        ) from None
    return {agent: str(getattr(read, name)) for name, agent in names.items()}


def load_settings() -> Settings:
    """Read the settings from the environment. Raises `SettingsError` on the first that is wrong."""
    try:
        settings = Settings()
    except ValidationError as error:
        name, what = _first_fault(error)
        raise SettingsError(f"setting {name} {what}{_fix_of(name)}") from None
    if settings.state_store is None and settings.state_store_uri is None:
        raise SettingsError(
            "setting StateStore is missing: set it to a storage connection string (UseDevelopmentStorage=true"
            " for Azurite), or StateStore__tableServiceUri to the account's table address"
        )
    if settings.service_bus is None and settings.service_bus_namespace is None:
        raise SettingsError(
            "setting ServiceBusConnection is missing: set it to a Service Bus connection string, or"
            " ServiceBusConnection__fullyQualifiedNamespace to the namespace's host name"
        )
    return settings


def _first_fault(error: ValidationError) -> tuple[str, str]:
    """Name the setting, and what is the matter with it."""
    fault: Any = error.errors(include_url=False, include_input=False)[0]
    what = "is missing" if fault["type"] == "missing" else f"is wrong ({fault['msg'].lower()})"
    return str(fault["loc"][0]), what


def _fix_of(name: str) -> str:
    for known in Settings.model_fields.values():
        if known.validation_alias == name:
            return f": {known.description}"
    return ""
