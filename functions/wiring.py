"""Joins the parts: the one place that knows which adapter stands for which port."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

import azure.durable_functions as df

from functions.agents.blueprint import queued_agents_blueprint
from functions.agents.catalog import make_agents, make_breakers
from functions.agents.endpoints import called_here, load_endpoints
from functions.agents.managed_identity import ManagedIdentity
from functions.agents.queued import QueuedAgent
from functions.agents.steps import check_agents
from functions.api.blueprint import api_blueprint, pages_blueprint
from functions.bus.connect import connect_bus
from functions.bus.messages import QueuedMessages
from functions.bus.queue_depths import PeekedQueues
from functions.bus.queue_line import PeekedLine
from functions.bus.sender import QueueSender
from functions.console.blueprint import console_blueprint
from functions.event_hub import EventHub
from functions.machine import SystemClock, new_id
from functions.messages.batch import Batches
from functions.messages.queues import QUEUES
from functions.operations.alerts.alerts import Alerts, Post
from functions.operations.alerts.groups import AlertGroups
from functions.operations.alerts.queues import DeadLetters
from functions.operations.backlog import Backlog
from functions.operations.blueprint import operations_blueprint
from functions.operations.housekeeping import Housekeeping, check_retention
from functions.pattern.completion import rules_of
from functions.pattern.definition import Registry
from functions.pattern.messages import SUBMISSIONS_QUEUE
from functions.pattern.ports import Agent, Ports
from functions.pattern.request_figures import BusFigures, StoreFigures
from functions.pattern.shared_rows import Chore
from functions.scheduler.blueprint import scheduler_blueprint
from functions.scheduler.orchestrator import DurableSchedulers
from functions.scheduler.run_steps import RunLimits, RunSteps
from functions.scheduler.takers import ReplyTaker, RequestTaker
from functions.services.blueprint import service_tables, services_blueprint
from functions.settings import Settings, connection_string_of
from functions.store import conditional_rows as single_rows
from functions.store import connect as table_storage
from functions.store.accounts import load_accounts, prepare_accounts
from functions.store.agent_requests import AGENT_REQUESTS_TABLE, TableAgentRequests
from functions.store.announcing import Announcer
from functions.store.indexes import TableIndexRows, TableTaskIndex
from functions.store.keys import ALERT_GROUPS
from functions.store.outbox import TableOutbox
from functions.store.rejected import TableRejectedMessages
from functions.store.retention import TableTaskRetention
from functions.store.shards import Shards
from functions.store.state_store import TableStateStore
from functions.store.tables import TABLES, TASKS_TABLE
from functions.store.task_table import TaskTable
from functions.store.task_writer import TaskWriter
from functions.store.trends import TableTrends
from functions.submission.blueprint import submission_blueprint
from functions.submission.intake import Intake
from functions.supervisor.blueprint import supervisor_blueprint
from functions.supervisor.crowds import CrowdControl
from functions.supervisor.damage import Damage
from functions.supervisor.parts import SupervisorParts
from functions.supervisor.silence import Silence
from functions.telemetry.changes import CountedChanges
from functions.telemetry.collected import CollectedTrends
from functions.telemetry.export import export_telemetry
from functions.telemetry.messages import SubmissionSpans
from functions.web.destinations import http_session, once_session
from functions.web.named_keys import API, OPERATIONS, load_named_keys
from functions.workflows.registration import Registration, agent_makers, sample_services

if TYPE_CHECKING:
    from fastapi import FastAPI

    from functions.web.entrance import Guard

# FastAPI and the HTTP applications are imported by the method that makes one, with its first request: a
# start needs none of them, and pays for each import.


def start_telemetry(settings: Settings) -> None:
    """Export telemetry to where the settings say, if anywhere. Raises `SettingsError`."""
    to_otlp = settings.otlp_endpoint is not None
    with connection_string_of("APPLICATIONINSIGHTS_CONNECTION_STRING"):
        export_telemetry(settings.service_name, settings.application_insights, to_otlp=to_otlp)


class Wiring:
    """The application's parts, joined by its settings and workflows; nothing connects before it is used."""

    def __init__(self, settings: Settings, registrations: Sequence[Registration]) -> None:
        workflows = tuple(version for each in registrations for version in each.versions)
        self._settings = settings
        self._registry = Registry(workflows, settings.step_seconds)
        self._store_figures, self._bus_figures = StoreFigures(), BusFigures()
        self._accounts = load_accounts(os.environ, settings)
        self._storage = [table_storage.connect(account) for account in self._accounts]
        self._tables = self._storage[0]
        self._bus = connect_bus(settings.service_bus_connection)
        self._hub = EventHub.of(settings, self._bus_figures)
        self._ports = self._make_ports()
        self._agents = self._make_agents(registrations)
        check_agents(
            self._registry, self._agents, queues=QUEUES, function_timeout=settings.function_timeout_seconds
        )
        check_retention(self._registry, settings.retention_days)
        self._services = sample_services(registrations) if settings.sample_services else ()
        self._alerts = Alerts(self._post(), AlertGroups(self._ports, settings.alerts_singly))
        self._damage = Damage(self._ports, self._alerts.alert_damage)
        self._silence = Silence(self._ports, self._alerts.alert_silence)
        self._named_keys = load_named_keys(os.environ)
        self._callers, self._operators = cache(self._make_callers), cache(self._make_operators)

    def prepare(self) -> None:
        """Make sure that the tables are there. Raises `SettingsError` when they can't be used."""
        names = (*TABLES, *service_tables(self._services))
        prepare_accounts(self._accounts, names, self._settings.state_shards)

    def blueprints(self) -> list[df.Blueprint]:
        """Give every function of the application."""
        ports, settings = self._ports, self._settings
        housekeeping = Housekeeping(ports, settings.retention_days, self._damage)
        backlog = Backlog(ports, settings.intake_limits, self._alerts)
        intake = Intake(
            ports,
            self._registry,
            settings.reply_queues,
            pick_up_within=settings.pick_up_seconds,
            retention_days=settings.retention_days,
        )
        blueprints = [
            console_blueprint(),
            api_blueprint(self._callers),
            operations_blueprint(self._operators, self._alerts, ports, housekeeping, backlog),
            pages_blueprint(self._make_pages),
            submission_blueprint(intake, DurableSchedulers, self._batches(SUBMISSIONS_QUEUE)),
            self._scheduler(),
            queued_agents_blueprint(self._queued_agents()),
            supervisor_blueprint(self._supervisor(), settings.supervisor_schedule),
        ]
        if self._hub is not None:
            blueprints.append(self._hub.blueprint(ports, intake, self._alerts))
        if self._services:
            blueprints.append(services_blueprint(self._make_services))
        return blueprints

    def _make_ports(self) -> Ports:
        clock, figures, first = SystemClock(), self._store_figures, self._tables.table(TASKS_TABLE)
        shards = Shards.over(self._storage, TASKS_TABLE, self._settings.state_shards, figures)
        shared = single_rows.ConditionalRows(first, new_id=new_id, figures=figures)
        # What timers leave there is read every second, whatever comes in: it is no order's cost.
        timers_rows = single_rows.ConditionalRows(first, new_id=new_id, figures=StoreFigures())
        messages = QueuedMessages(self._sender, clock)
        rows = TaskTable(shards, figures)
        writer = TaskWriter(rows, clock=clock, new_id=new_id, rules=rules_of(self._registry))
        announcer = Announcer(writer, announcements=messages, requests=messages, clock=clock)
        trends = TableTrends.of(self._tables, figures)
        collected = CollectedTrends(trends, clock=clock, new_id=new_id)
        to_hub = self._settings.submit_to == "hub"
        store = TableStateStore(rows, writer, CountedChanges(announcer, collected))
        return Ports(
            clock=clock,
            new_id=new_id,
            store=store,
            index=TableTaskIndex(shards, figures),
            index_rows=TableIndexRows(shards, figures),
            outbox=TableOutbox(shards, figures),
            retention=TableTaskRetention(shards, figures),
            rejected=TableRejectedMessages.of(self._tables, clock, figures),
            breakers=single_rows.TableBreakerRows(shared),
            agent_requests=TableAgentRequests(self._tables.table(AGENT_REQUESTS_TABLE), clock=clock),
            heartbeats=single_rows.TableHeartbeats(timers_rows),
            times=single_rows.TableTimes(shared),
            alert_groups=single_rows.TableContent(shared, ALERT_GROUPS),
            trends=trends,
            submissions=SubmissionSpans(self._hub.submissions if self._hub and to_hub else messages),
            postbox=messages,
            announcements=messages,
            scheduler_requests=messages,
            agent_messages=messages,
            queues=PeekedQueues(self._bus, tuple(QUEUES)),
            line=PeekedLine(self._bus, SUBMISSIONS_QUEUE),
        )

    def _sender(self, queue: str) -> QueueSender:
        return QueueSender(self._bus(), queue, self._bus_figures)

    def _make_callers(self) -> FastAPI:
        from functions.api.acceptance import Acceptance
        from functions.api.application import callers_application
        from functions.api.gate import Gate
        from functions.web.events import Events

        ports, start_within = self._ports, self._settings.pick_up_seconds
        acceptance = Acceptance(ports, self._settings.reply_queues, start_within)
        events, guard = Events(ports, self._registry, start_within), self._guard(API)
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
            guard=self._guard(OPERATIONS),
            start_within=self._settings.pick_up_seconds,
            trace_url_template=self._settings.trace_url_template,
        )

    def _make_pages(self) -> FastAPI:
        from functions.api.pages import pages_of

        return pages_of(self._callers(), self._operators())

    def _make_services(self) -> FastAPI:
        from functions.services.application import services_application

        return services_application(self._services, self._tables.table, self._ports.clock)

    def _guard(self, function: str) -> Guard:
        from functions.web.guards import guard_of

        return guard_of(function, self._settings, self._named_keys, self._ports.clock)

    def _scheduler(self) -> df.Blueprint:
        ports, registry, settings = self._ports, self._registry, self._settings
        limits = RunLimits(
            at_once=settings.steps_at_once,
            seconds=settings.function_timeout_seconds,
            start_within=settings.pick_up_seconds,
            pick_up_within=settings.agents_pick_up_seconds,
        )
        runs = RunSteps(ports, self._agents, registry, limits, self._places)
        replies = ReplyTaker(ports, limits, self._alerts.alert_refused)
        return scheduler_blueprint(runs, RequestTaker(ports, limits), replies)

    def _make_agents(self, registrations: Sequence[Registration]) -> dict[str, Agent]:
        """Make the Agents whose remote services this application calls. Raises `SettingsError`."""
        settings = self._settings
        endpoints = load_endpoints(called_here(self._registry, settings.agents_elsewhere))
        skew = settings.supervision.skew
        breakers = make_breakers(endpoints, self._ports, settings.breaker, skew=skew)
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

    def _batches(self, queue: str) -> Batches:
        lost = DeadLetters(self._ports, self._alerts)
        return Batches(queue, self._ports.postbox, self._ports.clock, lost.lose)

    def _queued_agents(self) -> list[QueuedAgent]:
        """Serve the Agents behind queues whose remote service is known; others are served elsewhere."""
        served = self._agents.keys() & self._registry.queued_agents
        limit, note = self._settings.function_timeout_seconds, self._ports.store.note
        serve = partial(QueuedAgent, ports=self._ports, function_timeout=limit, note=note)
        return [serve(name, self._agents[name], places=self._places[name]) for name in sorted(served)]

    def _supervisor(self) -> SupervisorParts:
        policy, damage, silence = self._settings.supervision, self._damage, self._silence
        crowds = CrowdControl(self._ports, policy, self._alerts.alert_crowd)
        return SupervisorParts.of(
            self._ports, policy, self._registry, new_id(), damage, silence=silence, crowds=crowds
        )

    def _post(self) -> Post | None:
        address = self._settings.alert_webhook_url
        if address is None:
            return None
        from functions.operations.alerts.webhook import Webhook

        return Webhook(str(address), self._settings.alert_format, session=http_session).post
