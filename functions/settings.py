"""Every setting of the application, read and checked once at start."""

from __future__ import annotations

import os
import re
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, HttpUrl, ValidationError
from pydantic_settings import NoDecode

from functions.connections import Connections, SettingsError
from functions.core.definition.step_definition import Retry
from functions.core.definition.workflow_definition import WorkflowRegistry
from functions.core.plan import check_deployed, output_of
from functions.core.record import RuleSettings
from functions.http.destinations import check_destination
from functions.messaging.intake_measurement import IntakeBounds
from functions.roles import AppRole
from functions.telemetry.export import ApplicationInsights

#: 80 % of the size of the queue `submissions`, which is 1 GiB.
_MOST_INTAKE_BYTES = 1024**3 * 8 // 10
#: The longest time that a circuit stays open, unless BREAKER_OPEN_SECONDS is longer.
_LONGEST_OPENING = timedelta(seconds=30)
_HOST_JSON = Path(__file__).parents[1] / "host.json"
#: Not `json`: the host also accepts comments in this file.
_TIMEOUT = re.compile(r'"functionTimeout" *: *"(\d+):(\d\d):(\d\d)"')


def parts(text: object, *, separator: str = ",") -> object:
    """Split `a,b`. Return a value of another type unchanged."""
    if not isinstance(text, str):
        return text
    return tuple(part.strip() for part in text.split(separator) if part.strip())


def pairs(text: object, *, separator: str = ",") -> object:
    """Split `name=value,name=value`. Return a value of another type unchanged."""
    read = parts(text, separator=separator)
    return dict(part.split("=", 1) for part in read) if isinstance(read, tuple) else read


def _retry_of(text: object) -> object:
    """Return the waits of a text such as `first=0.2,longest=10`."""
    read = pairs(text)
    if not isinstance(read, dict):
        return read
    if not read.keys() <= {"first", "factor", "longest"}:
        raise ValueError("its parts are first, factor and longest")
    return Retry(**{name: float(value) for name, value in read.items()})


Destination = Annotated[HttpUrl, AfterValidator(check_destination)]

#: The time limit of a step in seconds, at most a year.
StepSeconds = Annotated[float, Field(gt=0, le=31_536_000)]
Names = Annotated[frozenset[str], NoDecode, BeforeValidator(parts)]


class Settings(Connections):
    """The application's settings; times are in seconds. The text below each field completes "set it to …"."""

    roles: Annotated[frozenset[AppRole], NoDecode, BeforeValidator(parts)] = Field(
        frozenset(AppRole), min_length=1
    )
    """the roles of this application, separated by commas: front, scheduler, agents, supervisor"""
    event_hub_name: str = Field("order-events", min_length=1)
    """the name of the event hub"""
    event_hub_consumer_group: str = Field("ingestion", min_length=1)
    """the consumer group of the event hub that only this application uses"""
    state_shards: int = Field(16, ge=1, le=256)
    """the number of partitions of the state store, from 1 to 256; fixed once the table exists"""
    pick_up_seconds: float = Field(60, gt=0, le=86_400)
    """the seconds in which a requested run must start a step"""
    steps_at_once: int = Field(16, ge=1, le=100)
    """the calls that one run of a task makes at the same time"""
    run_seconds: float = Field(240, ge=30, le=86_400)
    """the seconds of one run, at least 30 fewer than host.json's functionTimeout"""
    defer_hours: float = Field(6, gt=0, le=168)
    """the hours for which a step waits behind a closed gate before it counts as overdue"""
    reply_queues: Names = frozenset()
    """the queues of messaging/queue_names.py that callers may name in reply_to, separated by commas"""
    step_seconds: Annotated[dict[str, StepSeconds], NoDecode, BeforeValidator(pairs)] = Field(
        default_factory=dict
    )
    """the time limits of steps to change, by workflow and step, such as orders.payment=30"""
    agents_elsewhere: Names = frozenset()
    """the Agents behind queues that other processes serve, separated by commas"""
    agents_client_id: str | None = None
    """the client id of the identity whose tokens Agents send to their services"""
    retry: Annotated[Retry, NoDecode, BeforeValidator(_retry_of)] = Retry()
    """the waits between attempts of a call, such as first=0.2,factor=2,longest=10"""
    breaker_failures: int = Field(5, ge=1)
    """the failures in a row that open a circuit"""
    breaker_open_seconds: float = Field(15, gt=0, le=86_400)
    """the seconds that a circuit stays open"""
    supervisor_schedule: str = Field("*/30 * * * * *", pattern=r"^[\d*/,-]+( +[\dA-Za-z*/,-]+){4,5}$")
    """the NCRONTAB schedule of the Supervisor's sweeps, such as */30 * * * * *"""
    supervisor_threshold: int = Field(3, ge=0, le=100)
    """the recoveries without an extra wait; later ones use EXTENDED_WAITS"""
    extended_waits: Annotated[tuple[StepSeconds, ...], NoDecode, BeforeValidator(parts)] = Field(
        (60, 300, 900), max_length=20
    )
    """the seconds to wait before each further recovery, such as 60,300,900"""
    skew_seconds: float = Field(5, ge=0, le=10)
    """the seconds that clocks may differ"""
    reservation_hours: float = Field(48, ge=36, le=8_760)
    """the hours for which an id stays reserved while its order is not recorded"""
    retention_days: float = Field(30, gt=0, le=36_500)
    """the days that finished tasks are kept"""
    alert_webhook_url: Destination | None = Field(None, repr=False)
    """the address that alerts are posted to, or leave it out"""
    alert_format: Literal["generic", "teams"] | None = None
    """generic or teams; by default the address decides"""
    alerts_per_minute: int = Field(20, ge=0)
    """the alerts that are posted one by one in a minute; a summary counts the others"""
    auth_mode: Literal["keys", "easyauth", "local"] = "keys"
    """keys, easyauth where the platform's sign-in (Easy Auth) is on, or local on a developer's machine"""
    rate_per_minute: int = Field(6_000, ge=1)
    """a caller's requests a minute, per instance"""
    requests_in_flight: int = Field(200, ge=1)
    """a caller's requests in flight, per instance"""
    intake_most_seconds: float = Field(900, ge=1, le=604_800)
    """the seconds that orders may wait to be recorded before new ones get 429"""
    sample_services: bool = False
    """1 to serve the sample services, or 0"""
    application_insights_connection: str | None = Field(
        None, validation_alias="APPLICATIONINSIGHTS_CONNECTION_STRING", repr=False
    )
    """the connection string of the Application Insights component that receives telemetry"""
    application_insights_authentication: Annotated[
        dict[str, str], NoDecode, BeforeValidator(partial(pairs, separator=";"))
    ] = Field(default_factory=dict, validation_alias="APPLICATIONINSIGHTS_AUTHENTICATION_STRING")
    """Authorization=AAD;ClientId=… of an identity, or leave it out"""
    otlp_endpoint: HttpUrl | None = Field(None, validation_alias="OTEL_EXPORTER_OTLP_ENDPOINT")
    """the address of an OTLP/HTTP endpoint, such as http://localhost:4318"""
    service_name: str = Field("scheduler-agent-supervisor", validation_alias="OTEL_SERVICE_NAME")
    """the service's name"""
    trace_url_template: str | None = Field(None, pattern=r"^https?://[^\s{}]+\{trace_id\}[^\s{}]*$")
    """the address that shows a trace, such as https://jaeger.example.com/trace/{trace_id}"""

    @property
    def has_all_roles(self) -> bool:
        """Return whether this application has every role. Only then does it create its tables."""
        return self.roles == frozenset(AppRole)

    @property
    def retention(self) -> timedelta:
        """Return the time for which finished tasks are kept."""
        return timedelta(days=self.retention_days)

    def rules(self, registry: WorkflowRegistry) -> RuleSettings:
        """Return the settings of the rules."""
        first_opening = timedelta(seconds=self.breaker_open_seconds)
        return RuleSettings(
            start_within=timedelta(seconds=self.pick_up_seconds),
            skew=timedelta(seconds=self.skew_seconds),
            threshold=self.supervisor_threshold,
            extended_waits=tuple(timedelta(seconds=wait) for wait in self.extended_waits),
            first_opening=first_opening,
            longest_opening=max(_LONGEST_OPENING, first_opening),
            open_after=self.breaker_failures,
            defer_for=timedelta(hours=self.defer_hours),
            make_output=partial(output_of, registry=registry),
            check_deployed=partial(check_deployed, registry=registry),
        )

    @property
    def intake_bounds(self) -> IntakeBounds:
        """Return the backlog of submissions above which new orders are rejected."""
        return IntakeBounds(timedelta(seconds=self.intake_most_seconds), _MOST_INTAKE_BYTES)

    @property
    def application_insights(self) -> ApplicationInsights | None:
        """Return the component that receives telemetry in Azure, if one is set."""
        if self.application_insights_connection is None:
            return None
        given = self.application_insights_authentication
        by_identity = given.get("Authorization") == "AAD"
        return ApplicationInsights(self.application_insights_connection, by_identity, given.get("ClientId"))


def load_settings() -> Settings:
    """Read the settings from the environment. Raises `SettingsError` on the first that is wrong."""
    try:
        settings = Settings()
    except ValidationError as error:
        name, fault = faults_of(error)[0]
        meanings = {field.validation_alias: field.description for field in Settings.model_fields.values()}
        fix = f": set it to {meanings[name]}" if name in meanings else ""
        raise SettingsError(f"setting {name} {fault}{fix}") from None
    timeout = _TIMEOUT.search(_HOST_JSON.read_text("utf-8")) if _HOST_JSON.exists() else None
    if timeout is not None:
        hours, minutes, seconds = map(int, timeout.groups())
        longest = timedelta(hours=hours, minutes=minutes, seconds=seconds) - timedelta(seconds=30)
        if longest < timedelta(seconds=settings.run_seconds):
            text = f"setting RUN_SECONDS is wrong ({timeout[0]}): set it to at most"
            raise SettingsError(f"{text} {longest.total_seconds():.0f}")
    if settings.roles == {AppRole.AGENTS}:
        if settings.agent_store_connection is None:
            raise SettingsError(
                "setting AgentStore is missing: set it to a storage connection string, or"
                " AgentStore__tableServiceUri to the table address of the account with the Agents' tables"
            )
    elif settings.state_store is None and settings.state_store_uri is None:
        raise SettingsError(
            "setting StateStore is missing: set it to a storage connection string (UseDevelopmentStorage=true"
            " for Azurite), or StateStore__tableServiceUri to the account's table address"
        )
    if settings.service_bus is None and settings.service_bus_namespace is None:
        raise SettingsError(
            "setting ServiceBusConnection is missing: set it to a Service Bus connection string, or"
            " ServiceBusConnection__fullyQualifiedNamespace to the namespace's host name"
        )
    if settings.auth_mode == "local" and os.environ.get("AZURE_FUNCTIONS_ENVIRONMENT") != "Development":
        raise SettingsError(
            "setting AUTH_MODE is wrong (local grants every role, so it works on a developer's machine only):"
            " set it to keys, or easyauth where the platform's sign-in is on"
        )
    return settings


def faults_of(error: ValidationError) -> list[tuple[str, str]]:
    """Return the name and the fault of each setting that is missing or wrong, without its value."""
    return [
        (
            str(each["loc"][0]),
            "is missing" if each["type"] == "missing" else f"is wrong ({each['msg'].lower()})",
        )
        for each in error.errors(include_url=False, include_input=False)
    ]
