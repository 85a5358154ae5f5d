"""Joins the parts: the one place that knows which adapter stands for which port."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

import azure.durable_functions as df

from functions.adapters import NotOfThisRoleError, Outside, ports_of
from functions.agents.blueprint import queued_agents_blueprint
from functions.agents.catalog import make_agents, make_breakers
from functions.agents.credentials import ManagedIdentity
from functions.agents.endpoints import known_here, load_endpoints
from functions.agents.queued import QueuedAgent
from functions.agents.steps import check_agents
from functions.agents.tries import note_nowhere
from functions.bus.hub import HubSubmissions, connect_hub
from functions.bus.messages import QueuedMessages
from functions.bus.sender import QueueSender, connect_bus
from functions.connections import connection_string_of
from functions.console.blueprint import console_blueprint
from functions.ingestion.batch import EventBatches
from functions.ingestion.blueprint import ingestion_blueprint
from functions.machine import SystemClock, new_id
from functions.messages.batch import Batches
from functions.messages.queues import QUEUES
from functions.operations.alerts.alerts import Alerts, Post
from functions.operations.alerts.limit import AlertLimit
from functions.operations.alerts.queues import DeadLetters
from functions.operations.backlog import Backlog
from functions.operations.blueprint import housekeeping_blueprint, operations_blueprint
from functions.operations.housekeeping import Housekeeping, OldRows, check_retention
from functions.pattern.definition import Registry
from functions.pattern.messages import SUBMISSIONS_QUEUE
from functions.pattern.ports import Agent, Ports
from functions.pattern.request_figures import BusFigures, StoreFigures
from functions.pattern.shared_rows import Chore
from functions.roles import AGENT_TABLES, REACHES, AppRole, Reach, reach_of
from functions.scheduler.blueprint import scheduler_blueprint
from functions.scheduler.orchestrator import DurableSchedulers
from functions.scheduler.run_steps import RunLimits, RunSteps
from functions.scheduler.takers import ReplyTaker, RequestTaker
from functions.services.service import service_tables
from functions.settings import Settings
from functions.store import connect as table_storage
from functions.store.tables import TABLES, TASKS_TABLE, make_tables, prepare_tables
from functions.submission.blueprint import submission_blueprint
from functions.submission.intake import Intake
from functions.supervisor.blueprint import supervisor_blueprint
from functions.supervisor.crowds import CrowdControl
from functions.supervisor.damage import Damage
from functions.supervisor.parts import SupervisorParts
from functions.supervisor.silence import Silence
from functions.telemetry.export import export_telemetry
from functions.web.blueprint import HttpRoute, http_blueprint
from functions.web.destinations import http_session, once_session
from functions.workflows.registration import Registration, agent_makers, sample_services

if TYPE_CHECKING:
    from fastapi import FastAPI

    from functions.web.access import Guard
    from functions.web.callers import Interface

# FastAPI and the HTTP applications are imported with the first request: a start pays for each import.


def start_telemetry(settings: Settings) -> None:
    """Export telemetry to where the settings say, if anywhere. Raises `SettingsError`."""
    to_otlp = settings.otlp_endpoint is not None
    with connection_string_of("APPLICATIONINSIGHTS_CONNECTION_STRING"):
        export_telemetry(settings.service_name, settings.application_insights, to_otlp=to_otlp)


class Wiring:
    """The application's parts, joined by its settings and workflows; nothing connects before it is used."""

    def __init__(self, settings: Settings, registrations: Sequence[Registration]) -> None:
        workflows = tuple(version for each in registrations for version in each.versions)
        self._settings, self._registry = settings, Registry(workflows, settings.step_seconds)
        self._store_figures, self._bus_figures = StoreFigures(), BusFigures()
        self._roles, self._reach = settings.roles, reach_of(settings.roles)
        self._has_state = TASKS_TABLE in self._reach.tables
        self._storage = cache(partial(table_storage.connect, settings.state_store_connection))
        agents = settings.agent_store_connection
        self._agent_storage = self._storage() if agents is None else table_storage.connect(agents)
        self._bus = connect_bus(settings.service_bus_connection)
        hub = settings.event_hubs_connection
        self._hub = None if hub is None else connect_hub(hub, settings.event_hub_name)
        self._ports = self._make_ports(self._reach)
        self._agent_ports = self._make_ports(REACHES[AppRole.AGENTS])
        self._agents = self._make_agents(registrations)
        check_agents(
            self._registry,
            self._agents,
            queues=QUEUES,
            function_timeout=settings.function_timeout_seconds,
            runs_activities=AppRole.SCHEDULER in self._roles,
        )
        check_retention(self._registry, settings.retention_days)
        self._services = sample_services(registrations) if settings.sample_services else ()
        self._alerts = Alerts(self._post(), AlertLimit(self._ports, settings.alerts_per_minute))
        self._damage = Damage(self._ports, self._alerts.alert_damage)
        self._silence = Silence(self._ports, self._alerts.alert_silence)
        self._callers, self._operators = cache(self._make_callers), cache(self._make_operators)

    def prepare(self) -> None:
        """Make sure that the tables are there, if this is the whole application. Raises `SettingsError`."""
        settings = self._settings
        names = (*TABLES, *service_tables(self._services)) if settings.is_whole else ()
        agents = settings.agent_store_connection
        if names and agents is not None:
            with table_storage.connect_at_start(agents) as service:
                make_tables(service, AGENT_TABLES, setting=agents.setting)
        if self._has_state:
            own = AGENT_TABLES if names and agents is None else ()
            with table_storage.connect_at_start(settings.state_store_connection) as service:
                prepare_tables(service, (*names, *own), shards=settings.state_shards)

    def blueprints(self) -> list[df.Blueprint]:
        """Give every function of the application's roles."""
        made = {
            AppRole.FRONT: self._front,
            AppRole.SCHEDULER: self._scheduler,
            AppRole.AGENTS: lambda: [queued_agents_blueprint(self._queued_agents())],
            AppRole.SUPERVISOR: self._supervisor,
        }
        blueprints = [each for role in AppRole if role in self._roles for each in made[role]()]
        if self._roles & {AppRole.FRONT, AppRole.SUPERVISOR}:
            # Open, since a browser sends no key for scripts; for the document, the page sends it.
            page = HttpRoute("docs", "docs/{name?}", is_open=True)
            blueprints.append(http_blueprint(self._make_pages, page, HttpRoute("openapi", "openapi.json")))
        return blueprints

    def _front(self) -> list[df.Blueprint]:
        methods = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD")
        health, api = HttpRoute("health", "health", is_open=True), HttpRoute("api", "{*route}", methods)
        blueprints = [http_blueprint(self._callers, health, api)]
        if self._services:
            services = HttpRoute("services", "services/{*route}", ("GET", "PUT", "DELETE"))
            blueprints.append(http_blueprint(self._make_services, services))
        return blueprints

    def _supervisor(self) -> list[df.Blueprint]:
        ports, settings = self._ports, self._settings
        backlog = Backlog(ports, settings.intake_limits, self._alerts)
        old_rows = OldRows(ports, settings.retention_days)
        return [
            console_blueprint(),
            operations_blueprint(self._operators, self._alerts, ports, old_rows, backlog),
            supervisor_blueprint(self._supervision(), settings.supervisor_schedule),
        ]

    def _make_ports(self, reach: Reach) -> Ports:
        clock = SystemClock()
        messages = QueuedMessages(partial(self._sender, reach), clock)
        hub = self._hub if reach.writes_hub and self._settings.submit_to == "hub" else None
        outside = Outside(
            clock=clock,
            new_id=new_id,
            registry=self._registry,
            shards=self._settings.state_shards,
            storage=self._storage,
            agents=self._agent_storage,
            messages=messages,
            bus=self._bus,
            submissions=messages if hub is None else HubSubmissions(hub, self._bus_figures),
            figures=self._store_figures,
        )
        return ports_of(reach, outside)

    def _sender(self, reach: Reach, queue: str) -> QueueSender:
        if not reach.sends_to(queue):
            raise NotOfThisRoleError(f"no role of this application sends to the queue '{queue}'")
        return QueueSender(self._bus(), queue, self._bus_figures)

    def _make_callers(self) -> FastAPI:
        from functions.api.acceptance import Acceptance
        from functions.api.application import callers_application
        from functions.api.gate import Gate
        from functions.web.events import Events

        ports, start_within = self._ports, self._settings.pick_up_seconds
        acceptance = Acceptance(ports, self._settings.reply_queues, start_within)
        events, guard = Events(ports, self._registry, start_within), self._guard("api")
        gate = Gate(partial(ports.heartbeats.latest, Chore.INTAKE), ports.clock)
        check = ports.store.check
        return callers_application(self._registry, acceptance, events, check, guard=guard, gate=gate)

    def _make_operators(self) -> FastAPI:
        from functions.operations.application import operators_application

        return operators_application(
            self._ports,
            self._registry,
            self._agents,
            self._store_figures,
            self._bus_figures,
            guard=self._guard("operations"),
            start_within=self._settings.pick_up_seconds,
            trace_url_template=self._settings.trace_url_template,
        )

    def _make_pages(self) -> FastAPI:
        from functions.api.pages import api_document, pages_application

        made = {AppRole.FRONT: self._callers, AppRole.SUPERVISOR: self._operators}
        applications = [application() for role, application in made.items() if role in self._roles]
        return pages_application(api_document("Scheduler Agent Supervisor", *applications))

    def _make_services(self) -> FastAPI:
        from functions.services.application import services_application

        return services_application(self._services, self._storage().table, self._ports.clock)

    def _guard(self, interface: Interface) -> Guard:
        from functions.web.access import Guard
        from functions.web.callers import identify_by
        from functions.web.caps import Caps

        settings = self._settings
        caps = Caps(settings.rate_per_minute, settings.requests_in_flight)
        return Guard(identify_by(settings.auth_mode, interface), caps, self._ports.clock)

    def _scheduler(self) -> list[df.Blueprint]:
        ports, registry, settings = self._ports, self._registry, self._settings
        limits = RunLimits(
            at_once=settings.steps_at_once,
            seconds=settings.function_timeout_seconds,
            start_within=settings.pick_up_seconds,
            pick_up_within=settings.agents_pick_up_seconds,
        )
        runs = RunSteps(ports, self._agents, registry, limits, self._places)
        replies = ReplyTaker(ports, limits, self._alerts.alert_refused)
        intake = Intake(
            ports,
            registry,
            settings.reply_queues,
            pick_up_within=settings.pick_up_seconds,
            retention_days=settings.retention_days,
        )
        lose = DeadLetters(ports, self._alerts).lose
        batches = Batches(SUBMISSIONS_QUEUE, ports.postbox, ports.clock, lose)
        hub, group = settings.event_hub_name, settings.event_hub_consumer_group
        events = EventBatches(hub, intake, ports, lose)
        return [
            submission_blueprint(intake, DurableSchedulers, batches),
            scheduler_blueprint(runs, RequestTaker(ports, limits), replies),
            housekeeping_blueprint(Housekeeping(ports, settings.retention_days, self._damage)),
            *([ingestion_blueprint(hub, group, events, DurableSchedulers)] if self._hub else []),
        ]

    def _make_agents(self, registrations: Sequence[Registration]) -> dict[str, Agent]:
        settings, roles = self._settings, self._roles
        endpoints = load_endpoints(known_here(self._registry, settings.agents_elsewhere, roles))
        skew, calls = settings.supervision.skew, bool(roles & {AppRole.SCHEDULER, AppRole.AGENTS})
        breakers = make_breakers(endpoints, self._ports, settings.breaker, skew=skew, calls=calls)
        self._places = {name: breaker.places for name, breaker in breakers.items()}
        makers, issuer = agent_makers(registrations), ManagedIdentity(settings.agents_client_id)
        return make_agents(
            endpoints,
            makers,
            self._ports,
            breakers,
            session=http_session,
            once_session=once_session,
            issuer=issuer,
            retry=settings.retry,
        )

    def _queued_agents(self) -> list[QueuedAgent]:
        served = self._agents.keys() & self._registry.queued_agents
        limit = self._settings.function_timeout_seconds
        note = self._ports.store.note if self._has_state else note_nowhere
        serve = partial(QueuedAgent, ports=self._agent_ports, function_timeout=limit, note=note)
        return [serve(name, self._agents[name], places=self._places[name]) for name in sorted(served)]

    def _supervision(self) -> SupervisorParts:
        policy, damage, silence = self._settings.supervision, self._damage, self._silence
        crowds = CrowdControl(self._ports, policy, self._alerts.alert_crowd)
        return SupervisorParts.of(
            self._ports, policy, self._registry, new_id(), damage, silence=silence, crowds=crowds
        )

    def _post(self) -> Post | None:
        address = self._settings.alert_webhook_url
        if address is None:
            return None
        from functions.operations.alerts.alerts import Webhook

        return Webhook(str(address), self._settings.alert_format, session=http_session).post
