"""Joins the parts: the one place that knows which adapter stands for which port."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import azure.durable_functions as df
from fastapi import FastAPI

from functions.adapters import Adapters, http_session, new_id
from functions.agents.blueprint import queued_agents_blueprint
from functions.agents.catalog import load_endpoints, make_agents
from functions.agents.queued import QueuedAgent
from functions.agents.steps import check_agents
from functions.api.acceptance import Acceptance
from functions.api.application import callers_application
from functions.api.batch_routes import batch_path
from functions.api.blueprint import api_blueprint, pages_blueprint
from functions.api.pages import TITLE, page_files, pages_application
from functions.console.application import console_application, console_files
from functions.console.blueprint import console_blueprint
from functions.http_guards import guard_of
from functions.operations.actions import Actions
from functions.operations.alert_formats import AlertFormat
from functions.operations.alerts import Alerts
from functions.operations.application import operators_application
from functions.operations.backlog import Backlog
from functions.operations.blueprint import (
    alerts_blueprint,
    backlog_blueprint,
    dead_letters_blueprint,
    housekeeping_blueprint,
    operations_blueprint,
)
from functions.operations.dead_letters import QUEUES, DeadLetters
from functions.operations.housekeeping import Housekeeping
from functions.operations.overview import OverviewReader
from functions.operations.routes import operator_routes
from functions.operations.summary import SummaryReader
from functions.operations.tasks import Tasks
from functions.operations.traces import Traces
from functions.operations.webhook import Webhook
from functions.pattern.breaker import BreakerPolicy
from functions.pattern.definition import Registry
from functions.pattern.ports import Agent
from functions.pattern.supervision import SupervisionPolicy
from functions.scheduler.blueprint import scheduler_blueprint
from functions.scheduler.claim import Claimer
from functions.scheduler.orchestrator import DurableSchedulers
from functions.scheduler.outcomes import Outcomes
from functions.scheduler.step_runner import StepRunner
from functions.scheduler.takers import ReplyTaker, RequestTaker
from functions.services.application import service_tables, services_application
from functions.services.blueprint import services_blueprint
from functions.settings import Settings, connection_string_of
from functions.submission.blueprint import submission_blueprint
from functions.submission.intake import Intake
from functions.supervisor.blueprint import supervisor_blueprint
from functions.supervisor.full_sweep import FullSweep
from functions.supervisor.sweep import Sweep
from functions.telemetry.export import export_telemetry
from functions.telemetry.http import follow_requests
from functions.web.openapi import api_document
from functions.workflows.registration import Registration, agent_makers, sample_services


def start_telemetry(settings: Settings) -> None:
    """Export telemetry to where the settings say, if anywhere. Raises `SettingsError`."""
    component = settings.application_insights
    with connection_string_of("APPLICATIONINSIGHTS_CONNECTION_STRING"):
        export_telemetry(
            service_name=settings.service_name,
            to_otlp=settings.otlp_endpoint is not None,
            azure_monitor=None if component is None else component.connection_string,
            by_identity=component is not None and component.by_identity,
            client_id=None if component is None else component.client_id,
        )


class Wiring:
    """The application's parts, joined as its settings and the registered workflows say."""

    def __init__(self, settings: Settings, registrations: Sequence[Registration]) -> None:
        workflows = tuple(each.workflow for each in registrations)
        self._settings = settings
        self._registry = Registry(workflows, settings.step_seconds)
        self._adapters = Adapters(settings, self._registry)
        self._ports = self._adapters.ports(QUEUES)
        self._agents = self._make_agents(registrations)
        check_agents(workflows, self._agents)
        self._services = sample_services(registrations) if settings.sample_services else ()
        self._alerts = Alerts(self._webhook())

    def prepare(self) -> None:
        """Make sure that the tables are there. Raises `SettingsError` when they can't be used."""
        self._adapters.prepare_tables(*(service_tables(self._services) if self._services else ()))

    def blueprints(self) -> list[df.Blueprint]:
        """Give every function of the application."""
        adapters = self._adapters
        blueprints = [
            console_blueprint(console_application(console_files())),
            *self._http_interfaces(),
            submission_blueprint(self._intake(), DurableSchedulers),
            self._scheduler(),
            queued_agents_blueprint(self._queued_agents()),
            supervisor_blueprint(
                self._sweep(), FullSweep(self._ports), schedule=self._settings.supervisor_schedule
            ),
            alerts_blueprint(self._alerts),
            dead_letters_blueprint(
                DeadLetters(store=adapters.store, rejected=adapters.rejected, alerts=self._alerts), QUEUES
            ),
            backlog_blueprint(Backlog(adapters.queue_depths(QUEUES), adapters.clock)),
            housekeeping_blueprint(self._housekeeping()),
        ]
        if self._services:
            services = services_application(self._services, adapters.tables.get_table_client, adapters.clock)
            blueprints.append(services_blueprint(services))
        return blueprints

    def _http_interfaces(self) -> list[df.Blueprint]:
        callers, operators = self._callers(), self._operators()
        pages = pages_application(api_document(TITLE, callers, operators), page_files())
        return [api_blueprint(callers), operations_blueprint(operators), pages_blueprint(pages)]

    def _callers(self) -> FastAPI:
        guard = guard_of(self._settings, self._adapters.clock, key_name="function-key")
        application = callers_application(
            self._registry, self._acceptance(), self._adapters.store.check, guard=guard
        )
        return follow_requests(application, batches=map(batch_path, self._registry))

    def _acceptance(self) -> Acceptance:
        return Acceptance(
            store=self._adapters.store,
            submissions=self._adapters.submissions,
            reply_queues=self._settings.reply_queues,
            clock=self._adapters.clock,
            new_id=new_id,
        )

    def _intake(self) -> Intake:
        settings = self._settings
        return Intake(self._ports, self._registry, settings.reply_queues, settings.pick_up_seconds)

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
        steps = (step for workflow in self._registry for step in workflow.steps)
        endpoints = load_endpoints({step.agent for step in steps} - self._settings.agents_elsewhere)
        policy = BreakerPolicy(
            failures=self._settings.breaker_failures,
            open_for=timedelta(seconds=self._settings.breaker_open_seconds),
        )
        return make_agents(endpoints, agent_makers(registrations), self._ports, policy, http_session)

    def _queued_agents(self) -> list[QueuedAgent]:
        """Serve the Agents behind queues whose remote service we know; others are served elsewhere."""
        return [
            QueuedAgent(name, agent, self._ports)
            for name, agent in self._agents.items()
            if name in self._registry.queued_agents
        ]

    def _sweep(self) -> Sweep:
        return Sweep(self._ports, self._policy(), new_id())

    def _policy(self) -> SupervisionPolicy:
        return SupervisionPolicy(
            threshold=self._settings.supervisor_threshold,
            extended_waits=tuple(timedelta(seconds=wait) for wait in self._settings.extended_waits),
            skew=timedelta(seconds=self._settings.skew_seconds),
            start_within=timedelta(seconds=self._settings.pick_up_seconds),
        )

    def _operators(self) -> FastAPI:
        adapters = self._adapters
        tasks = Tasks(store=adapters.store, index=adapters.index, clock=adapters.clock)
        actions = Actions(
            tasks=tasks,
            store=adapters.store,
            clock=adapters.clock,
            start_within=self._settings.pick_up_seconds,
        )
        summaries = SummaryReader(
            index=adapters.index,
            heartbeats=adapters.heartbeat,
            breakers=adapters.breaker_rows,
            clock=adapters.clock,
        )
        overviews = OverviewReader(
            index=adapters.index,
            heartbeats=adapters.heartbeat,
            breakers=adapters.breaker_rows,
            queues=adapters.queue_depths(QUEUES),
            clock=adapters.clock,
        )
        routes = operator_routes(
            tasks=tasks,
            actions=actions,
            registry=self._registry,
            clock=adapters.clock,
            summaries=summaries,
            overviews=overviews,
            traces=Traces(self._settings.trace_url_template),
        )
        guard = guard_of(self._settings, adapters.clock, key_name="operator")
        application = operators_application(adapters.store_figures, adapters.bus_figures, routes, guard=guard)
        return follow_requests(application)

    def _housekeeping(self) -> Housekeeping:
        return Housekeeping(
            store=self._adapters.store,
            index=self._adapters.index,
            tasks=self._adapters.task_retention,
            rejected=self._adapters.rejected,
            clock=self._adapters.clock,
            retention_days=self._settings.retention_days,
        )

    def _webhook(self) -> Webhook | None:
        address, alert_format = self._settings.alert_webhook_url, self._settings.alert_format
        if address is None:
            return None
        chosen = None if alert_format is None else AlertFormat(alert_format)
        return Webhook(str(address), chosen, session=http_session)
