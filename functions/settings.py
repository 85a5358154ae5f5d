"""Every setting of the application, read and checked once at start."""

from __future__ import annotations

import os
from dataclasses import fields
from datetime import timedelta
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, HttpUrl, ValidationError
from pydantic_settings import NoDecode

from functions.connections import Connections
from functions.pattern.breaker import BreakerPolicy
from functions.pattern.crowds import CrowdPolicy
from functions.pattern.errors import SettingsError
from functions.pattern.intake import IntakeLimits
from functions.pattern.retry import Retry
from functions.pattern.supervision import SupervisionPolicy
from functions.roles import AppRole
from functions.telemetry.export import ApplicationInsights
from functions.web.destinations import check_destination


def parts(text: object, *, separator: str = ",") -> object:
    """Read `a,b`; what is no text stays as it is."""
    if not isinstance(text, str):
        return text
    return tuple(part.strip() for part in text.split(separator) if part.strip())


def pairs(text: object, *, separator: str = ",") -> object:
    """Read `name=value,name=value`."""
    read = parts(text, separator=separator)
    return dict(part.split("=", 1) for part in read) if isinstance(read, tuple) else read


def retry_of(text: object) -> object:
    """Read the fields of a `Retry`; those that are not given are the usual ones."""
    read = pairs(text)
    if not isinstance(read, dict):
        return read
    known = {each.name for each in fields(Retry)} - {"on"}
    if not read.keys() <= known:
        raise ValueError(f"its parts are {', '.join(sorted(known))}")
    numbers: Any = {name: (int if name == "attempts" else float)(read[name]) for name in read}
    return Retry(**numbers)


Destination = Annotated[HttpUrl, AfterValidator(check_destination)]

#: The time that a step may take, in seconds; no task waits longer than a day for one answer.
StepSeconds = Annotated[float, Field(gt=0, le=86_400)]


Names = Annotated[frozenset[str], NoDecode, BeforeValidator(parts)]


class Settings(Connections):
    """The application's settings; times are in seconds. The text below each completes "set it to …"."""

    roles: Annotated[frozenset[AppRole], NoDecode, BeforeValidator(parts)] = Field(
        frozenset(AppRole), min_length=1
    )
    """what this application is for, separated by commas: front, scheduler, agents, supervisor"""
    event_hub_name: str = Field("order-events", min_length=1)
    """the name of the event hub"""
    event_hub_consumer_group: str = Field("ingestion", min_length=1)
    """the consumer group that only this application reads the event hub with"""
    submit_to: Literal["queue", "hub"] = "queue"
    """queue or hub: where the API puts the orders that it accepts"""
    state_shards: int = Field(16, ge=1, le=256)
    """the number of partitions of the state store, from 1 to 256; fixed once the table exists"""
    pick_up_seconds: float = Field(60, gt=0, le=86_400)
    """the seconds a Scheduler has to claim a task"""
    agents_pick_up_seconds: float = Field(300, ge=1, le=86_400)
    """the seconds that a request may wait on its queue for its Agent, before the step's own time begins"""
    steps_at_once: int = Field(16, ge=1, le=100)
    """the steps of one task that one activity runs side by side"""
    function_timeout_seconds: float = Field(300, ge=30, le=86_400)
    """the seconds that the host lets a function run, as host.json's functionTimeout says"""
    reply_queues: Names = frozenset()
    """the queues that callers may name in reply_to, separated by commas; each is in infra/queues.json"""
    step_seconds: Annotated[dict[str, StepSeconds], NoDecode, BeforeValidator(pairs)] = Field(
        default_factory=dict
    )
    """the complete-by limits to change, by the workflow's name and the step's, such as orders.payment=30"""
    agents_elsewhere: Names = frozenset()
    """the Agents behind queues that other processes serve, separated by commas"""
    agents_client_id: str | None = None
    """the client id of the identity whose tokens Agents show to their services"""
    retry: Annotated[Retry, NoDecode, BeforeValidator(retry_of)] = Retry()
    """how a call that failed is made again, such as attempts=100,first=0.2,factor=2,most=10"""
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
    crowd_tasks: int = Field(20, ge=2)
    """the tasks that must be late for one reason for it to be a crowd, which counts as no failure"""
    crowd_per_minute: int = Field(600, ge=1, le=1_000_000)
    """the tasks of a crowd that continue a minute"""
    crowd_hours: float = Field(24, gt=0, le=168)
    """the hours for which a task's time can be extended in crowds, all in all"""
    skew_seconds: float = Field(5, ge=0, le=300)
    """the seconds that clocks may differ"""
    retention_days: float = Field(30, gt=0, le=36_500)
    """the days that finished tasks are kept"""
    alert_webhook_url: Destination | None = Field(None, repr=False)
    """the address that alerts are posted to, or leave it out"""
    alert_format: Literal["generic", "teams"] | None = None
    """generic or teams; by default the address decides"""
    alerts_per_minute: int = Field(20, ge=0)
    """the alerts that are posted singly in a minute; the others are counted in one summary"""
    auth_mode: Literal["keys", "easyauth", "local"] = "keys"
    """keys, easyauth where the platform's sign-in (Easy Auth) is on, or local on a developer's machine"""
    rate_per_minute: int = Field(6_000, ge=1)
    """a caller's requests a minute, per instance"""
    requests_in_flight: int = Field(200, ge=1)
    """a caller's requests in flight, per instance"""
    intake_most_seconds: float = Field(900, ge=1, le=604_800)
    """the seconds that orders may wait to be recorded before new ones get 429"""
    intake_most_waiting: int = Field(100_000, ge=1)
    """the messages and late tasks that may wait to be taken up before new orders are refused with 429"""
    sample_services: bool = False
    """1 to serve the sample services, or 0"""
    application_insights_connection: str | None = Field(
        None, validation_alias="APPLICATIONINSIGHTS_CONNECTION_STRING", repr=False
    )
    """the connection string of the Application Insights component that receives telemetry"""
    application_insights_authentication: Annotated[
        dict[str, str], NoDecode, BeforeValidator(partial(pairs, separator=";"))
    ] = Field(default_factory=dict, validation_alias="APPLICATIONINSIGHTS_AUTHENTICATION_STRING")
    """Authorization=AAD;ClientId=… (an identity's), or leave it out"""
    otlp_endpoint: HttpUrl | None = Field(None, validation_alias="OTEL_EXPORTER_OTLP_ENDPOINT")
    """the address of an OTLP/HTTP endpoint, such as http://localhost:4318"""
    service_name: str = Field("scheduler-agent-supervisor", validation_alias="OTEL_SERVICE_NAME")
    """the service's name"""
    trace_url_template: str | None = Field(None, pattern=r"^https?://[^\s{}]+\{trace_id\}[^\s{}]*$")
    """the address that shows a trace, such as https://jaeger.example.com/trace/{trace_id}"""

    @property
    def is_whole(self) -> bool:
        """Whether this one application has every role: only then does it make its tables itself."""
        return self.roles == frozenset(AppRole)

    @property
    def supervision(self) -> SupervisionPolicy:
        """How the Supervisor judges what is late."""
        return SupervisionPolicy(
            threshold=self.supervisor_threshold,
            extended_waits=tuple(timedelta(seconds=wait) for wait in self.extended_waits),
            skew=timedelta(seconds=self.skew_seconds),
            start_within=timedelta(seconds=self.pick_up_seconds),
            crowd=CrowdPolicy(
                tasks=self.crowd_tasks,
                per_minute=self.crowd_per_minute,
                longest=timedelta(hours=self.crowd_hours),
            ),
        )

    @property
    def breaker(self) -> BreakerPolicy:
        """When circuits open."""
        open_for = timedelta(seconds=self.breaker_open_seconds)
        return BreakerPolicy(failures=self.breaker_failures, open_for=open_for)

    @property
    def intake_limits(self) -> IntakeLimits:
        """How much may wait before callers are asked to."""
        age = timedelta(seconds=self.intake_most_seconds)
        return IntakeLimits(age=age, waiting=self.intake_most_waiting)

    @property
    def application_insights(self) -> ApplicationInsights | None:
        """Where telemetry goes in Azure, if anywhere."""
        if self.application_insights_connection is None:
            return None
        how = self.application_insights_authentication
        by_identity = how.get("Authorization") == "AAD"
        return ApplicationInsights(self.application_insights_connection, by_identity, how.get("ClientId"))


def load_settings() -> Settings:
    """Read the settings from the environment. Raises `SettingsError` on the first that is wrong."""
    try:
        settings = Settings()
    except ValidationError as error:
        name, what = faults_of(error)[0]
        meanings = {field.validation_alias: field.description for field in Settings.model_fields.values()}
        fix = f": set it to {meanings[name]}" if name in meanings else ""
        raise SettingsError(f"setting {name} {what}{fix}") from None
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
    submits = settings.submit_to == "hub" and AppRole.FRONT in settings.roles
    if submits and settings.event_hubs_connection is None:
        raise SettingsError(
            "setting SUBMIT_TO is wrong (there is no event hub): set it to queue, or set"
            " EventHubConnection to an Event Hubs connection string"
        )
    if settings.auth_mode == "local" and os.environ.get("AZURE_FUNCTIONS_ENVIRONMENT") != "Development":
        raise SettingsError(
            "setting AUTH_MODE is wrong (local grants every role, on a developer's machine only): set it to"
            " keys, or easyauth where the platform's sign-in is on"
        )
    return settings


def faults_of(error: ValidationError) -> list[tuple[str, str]]:
    """Name each setting that is missing or wrong, and say what is wrong with it; its value is not shown."""
    return [
        (
            str(each["loc"][0]),
            "is missing" if each["type"] == "missing" else f"is wrong ({each['msg'].lower()})",
        )
        for each in error.errors(include_url=False, include_input=False)
    ]
