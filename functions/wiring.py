"""Joins the parts: the one place that knows which adapter stands for which port."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache

import aiohttp
import azure.durable_functions as df
from fastapi import FastAPI

from functions.agents.blueprint import queued_agents_blueprint
from functions.agents.catalog import load_endpoints, make_agents
from functions.agents.queued import QueuedAgent
from functions.agents.steps import check_agents
from functions.api.acceptance import Acceptance
from functions.api.application import api_blueprint, batch_path, callers_application
from functions.api.pages import pages_blueprint
from functions.bus.messages import Announcer, QueuedMessages
from functions.bus.queue_depths import PeekedQueues
from functions.bus.sender import QueueSender, connect_bus
from functions.console.application import console_blueprint
from functions.operations.alerts.alerts import Alerts
from functions.operations.alerts.queues import QUEUES
from functions.operations.alerts.webhook import Webhook
from functions.operations.application import operators_application
from functions.operations.blueprint import operations_blueprint
from functions.operations.housekeeping import Housekeeping
from functions.pattern.breaker import BreakerPolicy
from functions.pattern.definition import Registry
from functions.pattern.ports import Agent, Ports
from functions.pattern.request_figures import BusFigures, StoreFigures
from functions.pattern.supervision import SupervisionPolicy
from functions.scheduler.blueprint import scheduler_blueprint
from functions.scheduler.claim import Claimer
from functions.scheduler.orchestrator import DurableSchedulers
from functions.scheduler.outcomes import Outcomes
from functions.scheduler.step_runner import StepRunner
from functions.scheduler.takers import ReplyTaker, RequestTaker
from functions.services.application import service_tables, services_application, services_blueprint
from functions.settings import Settings, connection_string_of
from functions.store import connect as table_storage
from functions.store.agent_requests import AGENT_REQUESTS_TABLE, TableAgentRequests
from functions.store.conditional_rows import ConditionalRows, TableBreakerRows, TableHeartbeat
from functions.store.indexes import TableIndexRows, TableTaskIndex
from functions.store.outbox import TableOutbox
from functions.store.retention import TableRejectedMessages, TableTaskRetention
from functions.store.state_store import TableStateStore
from functions.store.tables import REJECTED_TABLE, TASKS_TABLE, prepare_tables
from functions.submission.blueprint import submission_blueprint
from functions.submission.intake import Intake
from functions.supervisor.blueprint import supervisor_blueprint
from functions.supervisor.full_sweep import FullSweep
from functions.supervisor.sweep import Sweep
from functions.telemetry.changes import CountedChanges
from functions.telemetry.export import export_telemetry
from functions.telemetry.http import follow_requests
from functions.telemetry.messages import SubmissionSpans
from functions.web.access import Guard
from functions.web.callers import key_holder, signed_in
from functions.web.caps import Caps
from functions.web.destinations import CheckedResolver
from functions.workflows.registration import Registration, agent_makers, sample_services


class SystemClock:
    """Gives the machine's time."""

    def now(self) -> datetime:
        """Give the time now, in UTC."""
        return datetime.now(UTC)


def new_id() -> str:
    """Make an id that nobody else has: 32 hexadecimal digits."""
    return uuid.uuid4().hex


@cache
def http_session() -> aiohttp.ClientSession:
    """Open the HTTP client at its first use, when there is an event loop; it lives as long as the process."""
    connector = aiohttp.TCPConnector(limit_per_host=100, resolver=CheckedResolver())
    return aiohttp.ClientSession(connector=connector)


@cache
def once_session() -> aiohttp.ClientSession:
    """Open the HTTP client for what must be sent once: each request has a connection of its own."""
    connector = aiohttp.TCPConnector(limit_per_host=100, resolver=CheckedResolver(), force_close=True)
    return aiohttp.ClientSession(connector=connector)


def start_telemetry(settings: Settings) -> None:
    """Export telemetry to where the settings say, if anywhere. Raises `SettingsError`."""
    to_otlp = settings.otlp_endpoint is not None
    with connection_string_of("APPLICATIONINSIGHTS_CONNECTION_STRING"):
        export_telemetry(settings.service_name, settings.application_insights, to_otlp=to_otlp)


class Wiring:
    """The application's parts, joined by its settings and workflows; nothing connects before it is used."""

    def __init__(self, settings: Settings, registrations: Sequence[Registration]) -> None:
        workflows = tuple(each.workflow for each in registrations)
        self._settings = settings
        self._registry = Registry(workflows, settings.step_seconds)
        self._store_figures, self._bus_figures = StoreFigures(), BusFigures()
        self._tables = table_storage.connect(settings.state_store_connection)
        self._bus = connect_bus(settings.service_bus_connection)
        self._ports = self._make_ports()
        self._agents = self._make_agents(registrations)
        check_agents(workflows, self._agents)
        self._services = sample_services(registrations) if settings.sample_services else ()
        webhook = self._webhook()
        self._alerts = Alerts(None if webhook is None else webhook.post)

    def prepare(self) -> None:
        """Make sure that the tables are there. Raises `SettingsError` when they can't be used."""
        samples = service_tables(self._services) if self._services else ()
        with table_storage.connect_at_start(self._settings.state_store_connection) as service:
            names = (TASKS_TABLE, REJECTED_TABLE, AGENT_REQUESTS_TABLE, *samples)
            prepare_tables(service, names, shards=self._settings.state_shards)

    def blueprints(self) -> list[df.Blueprint]:
        """Give every function of the application."""
        ports, settings = self._ports, self._settings
        callers, operators = self._callers(), self._operators()
        housekeeping = Housekeeping(ports, settings.retention_days)
        intake = Intake(ports, self._registry, settings.reply_queues, settings.pick_up_seconds)
        blueprints = [
            console_blueprint(),
            api_blueprint(callers),
            operations_blueprint(operators, self._alerts, ports, housekeeping),
            pages_blueprint(callers, operators),
            submission_blueprint(intake, DurableSchedulers),
            self._scheduler(),
            queued_agents_blueprint(self._queued_agents()),
            supervisor_blueprint(self._sweep(), FullSweep(ports), schedule=settings.supervisor_schedule),
        ]
        if self._services:
            application = services_application(self._services, self._tables.get_table_client, ports.clock)
            blueprints.append(services_blueprint(application))
        return blueprints

    def _make_ports(self) -> Ports:
        clock, shards, figures = SystemClock(), self._settings.state_shards, self._store_figures
        tasks = self._tables.get_table_client(TASKS_TABLE)
        shared = ConditionalRows(tasks, new_id=new_id, figures=figures)
        outbox = TableOutbox(tasks, shards=shards, figures=figures, clock=clock)
        messages = QueuedMessages(self._sender, clock)
        announcer = Announcer(outbox=outbox, announcements=messages, requests=messages)
        counted = CountedChanges(announcer, self._registry)
        store = TableStateStore(
            tasks, shards=shards, clock=clock, new_id=new_id, figures=figures, announcer=counted
        )
        return Ports(
            clock=clock,
            new_id=new_id,
            store=store,
            index=TableTaskIndex(tasks, shards=shards, figures=figures),
            index_rows=TableIndexRows(tasks, shards=shards, new_id=new_id, figures=figures),
            outbox=outbox,
            retention=TableTaskRetention(tasks, shards=shards, figures=figures),
            rejected=TableRejectedMessages(self._tables.get_table_client(REJECTED_TABLE), clock=clock),
            breakers=TableBreakerRows(shared),
            agent_requests=TableAgentRequests(
                self._tables.get_table_client(AGENT_REQUESTS_TABLE), clock=clock
            ),
            heartbeat=TableHeartbeat(shared),
            submissions=SubmissionSpans(messages),
            announcements=messages,
            agent_messages=messages,
            queues=PeekedQueues(self._bus, QUEUES),
        )

    def _sender(self, queue: str) -> QueueSender:
        return QueueSender(self._bus, queue, self._bus_figures)

    def _callers(self) -> FastAPI:
        acceptance = Acceptance(self._ports, self._settings.reply_queues)
        guard, check_store = self._guard(key_name="function-key"), self._ports.store.check
        application = callers_application(self._registry, acceptance, check_store, guard=guard)
        return follow_requests(application, batches=map(batch_path, self._registry))

    def _operators(self) -> FastAPI:
        application = operators_application(
            self._ports,
            self._registry,
            self._store_figures,
            self._bus_figures,
            guard=self._guard(key_name="operator"),
            start_within=self._settings.pick_up_seconds,
            trace_url_template=self._settings.trace_url_template,
        )
        return follow_requests(application)

    def _guard(self, *, key_name: str) -> Guard:
        """Make a guard; `key_name` stands for everybody who shows a function key and no identity."""
        settings = self._settings
        identify = signed_in if settings.auth_mode == "easyauth" else key_holder(key_name)
        caps = Caps(per_minute=settings.rate_per_minute, in_flight=settings.requests_in_flight)
        return Guard(identify, caps, self._ports.clock)

    def _scheduler(self) -> df.Blueprint:
        ports, registry, start_within = self._ports, self._registry, self._settings.pick_up_seconds
        outcomes = Outcomes(ports, start_within)
        return scheduler_blueprint(
            Claimer(ports, registry, start_within),
            StepRunner(ports, outcomes, self._agents, registry),
            RequestTaker(ports),
            ReplyTaker(ports, outcomes, registry),
        )

    def _make_agents(self, registrations: Sequence[Registration]) -> dict[str, Agent]:
        """Make the Agents whose remote services this application calls. Raises `SettingsError`."""
        settings = self._settings
        steps = (step for workflow in self._registry for step in workflow.steps)
        endpoints = load_endpoints({step.agent for step in steps} - settings.agents_elsewhere)
        open_for = timedelta(seconds=settings.breaker_open_seconds)
        policy = BreakerPolicy(failures=settings.breaker_failures, open_for=open_for)
        makers = agent_makers(registrations)
        return make_agents(
            endpoints, makers, self._ports, policy, session=http_session, once_session=once_session
        )

    def _queued_agents(self) -> list[QueuedAgent]:
        """Serve the Agents behind queues whose remote service is known; others are served elsewhere."""
        served = self._agents.keys() & self._registry.queued_agents
        return [QueuedAgent(name, self._agents[name], self._ports) for name in sorted(served)]

    def _sweep(self) -> Sweep:
        settings = self._settings
        policy = SupervisionPolicy(
            threshold=settings.supervisor_threshold,
            extended_waits=tuple(timedelta(seconds=wait) for wait in settings.extended_waits),
            skew=timedelta(seconds=settings.skew_seconds),
            start_within=timedelta(seconds=settings.pick_up_seconds),
        )
        return Sweep(self._ports, policy, new_id())

    def _webhook(self) -> Webhook | None:
        address = self._settings.alert_webhook_url
        if address is None:
            return None
        return Webhook(str(address), self._settings.alert_format, session=http_session)
