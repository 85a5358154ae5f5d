"""Joins the parts: the one place that knows which adapter stands for which port."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import azure.durable_functions as df
from fastapi import FastAPI

from functions.adapters import Adapters, http_session, new_id
from functions.agents.blueprint import queued_agents_blueprint
from functions.agents.catalog import check_agents
from functions.agents.queued import QueuedAgent
from functions.api.acceptance import Acceptance
from functions.api.application import batch_path, callers_application
from functions.api.blueprint import api_blueprint, pages_blueprint
from functions.api.pages import TITLE, page_files, pages_application
from functions.console.application import console_application, console_files
from functions.console.blueprint import console_blueprint
from functions.http_guards import guard_of
from functions.operations.alerts.alerts import AlertFormat, Alerts
from functions.operations.alerts.queues import QUEUES, Backlog, DeadLetters
from functions.operations.alerts.webhook import Webhook
from functions.operations.application import operators_application
from functions.operations.blueprint import (
    alerts_blueprint,
    backlog_blueprint,
    dead_letters_blueprint,
    housekeeping_blueprint,
    operations_blueprint,
)
from functions.operations.housekeeping import Housekeeping
from functions.operations.tasks.views import Traces
from functions.pattern.definition import Workflow
from functions.pattern.registry import Registry
from functions.pattern.supervision import SupervisionPolicy
from functions.remotes import Remote, make_agents
from functions.scheduler.blueprint import scheduler_blueprint
from functions.scheduler.claim import Claimer
from functions.scheduler.outcomes import Outcomes
from functions.scheduler.replies import ReplyTaker
from functions.scheduler.requests import RequestTaker
from functions.scheduler.step_runner import AgentRunner
from functions.services.application import SERVICE_TABLES, services_application
from functions.services.blueprint import services_blueprint
from functions.settings import Settings
from functions.submission.blueprint import submission_blueprint
from functions.submission.intake import Intake
from functions.supervisor.blueprint import supervisor_blueprint
from functions.supervisor.full_sweep import FullSweep
from functions.supervisor.lease import Lease
from functions.supervisor.leftovers import Leftovers
from functions.supervisor.sweep import Sweep
from functions.telemetry.incoming import follow_requests
from functions.web.openapi import api_document


class Wiring:
    """The application's parts, joined after its settings; `remotes` is by the Agents' names."""

    def __init__(
        self, settings: Settings, workflows: tuple[Workflow, ...], remotes: Mapping[str, Remote]
    ) -> None:
        self._settings = settings
        self._registry = Registry(workflows, settings.step_seconds)
        self._adapters = Adapters(settings, self._registry)
        self._ports = self._adapters.ports(QUEUES)
        self._agents = make_agents(remotes, settings, self._adapters)
        check_agents(workflows, self._agents)
        self._instance = new_id()
        self._alerts = Alerts(self._webhook())

    def prepare(self) -> None:
        """Make sure that the tables are there. Raises `SettingsError` when they can't be used."""
        self._adapters.prepare_tables(*(SERVICE_TABLES if self._settings.sample_services else ()))

    def blueprints(self) -> list[df.Blueprint]:
        """Give every function of the application."""
        adapters = self._adapters
        blueprints = [
            console_blueprint(console_application(console_files())),
            *self._http_interfaces(),
            submission_blueprint(self._intake()),
            scheduler_blueprint(
                self._claimer(), self._runner(), RequestTaker(adapters.rejected), self._reply_taker()
            ),
            queued_agents_blueprint(self._queued_agents()),
            supervisor_blueprint(
                self._sweep(), self._full_sweep(), schedule=self._settings.supervisor_schedule
            ),
            alerts_blueprint(self._alerts),
            dead_letters_blueprint(DeadLetters(self._ports, self._alerts), QUEUES),
            backlog_blueprint(Backlog(self._ports)),
            housekeeping_blueprint(Housekeeping(self._ports, self._settings.retention_days)),
        ]
        if self._settings.sample_services:
            services = services_application(adapters.tables.get_table_client, adapters.clock)
            blueprints.append(services_blueprint(services))
        return blueprints

    def _http_interfaces(self) -> list[df.Blueprint]:
        callers, operators = self._callers(), self._operators()
        pages = pages_application(api_document(TITLE, callers, operators), page_files())
        return [api_blueprint(callers), operations_blueprint(operators), pages_blueprint(pages)]

    def _callers(self) -> FastAPI:
        guard = guard_of(self._settings, self._adapters.clock, key_name="function-key")
        application = callers_application(
            self._registry,
            Acceptance(self._ports, self._settings.reply_queues),
            self._adapters.store.check,
            guard=guard,
        )
        return follow_requests(application, batches=map(batch_path, self._registry))

    def _intake(self) -> Intake:
        return Intake(
            store=self._adapters.store,
            rejected=self._adapters.rejected,
            registry=self._registry,
            reply_queues=self._settings.reply_queues,
            clock=self._adapters.clock,
            pick_up_within=self._settings.pick_up_seconds,
        )

    def _claimer(self) -> Claimer:
        return Claimer(
            store=self._adapters.store,
            registry=self._registry,
            clock=self._adapters.clock,
            start_within=self._settings.pick_up_seconds,
        )

    def _outcomes(self) -> Outcomes:
        return Outcomes(
            store=self._adapters.store,
            clock=self._adapters.clock,
            start_within=self._settings.pick_up_seconds,
        )

    def _runner(self) -> AgentRunner:
        return AgentRunner(
            store=self._adapters.store,
            outcomes=self._outcomes(),
            agents=self._agents,
            requests=self._adapters.agent_requests,
            registry=self._registry,
            clock=self._adapters.clock,
            new_token=new_id,
        )

    def _reply_taker(self) -> ReplyTaker:
        return ReplyTaker(
            store=self._adapters.store,
            outcomes=self._outcomes(),
            registry=self._registry,
            rejected=self._adapters.rejected,
        )

    def _queued_agents(self) -> list[QueuedAgent]:
        """Serve the Agents behind queues whose remote service we know; others are served elsewhere."""
        adapters = self._adapters
        return [
            QueuedAgent(
                name,
                agent,
                replies=adapters.agent_replies,
                rejected=adapters.rejected,
                clock=adapters.clock,
            )
            for name, agent in self._agents.items()
            if name in self._registry.queued_agents
        ]

    def _sweep(self) -> Sweep:
        adapters, clock = self._adapters, self._adapters.clock
        return Sweep(
            index=adapters.index,
            store=adapters.store,
            policy=self._policy(),
            lease=Lease(adapters.lease_row, holder=self._instance, clock=clock),
            leftovers=Leftovers(outbox=adapters.outbox, announcements=adapters.announcements, clock=clock),
            heartbeat=adapters.heartbeat,
            clock=clock,
            instance=self._instance,
        )

    def _policy(self) -> SupervisionPolicy:
        return SupervisionPolicy(
            threshold=self._settings.supervisor_threshold,
            extended_waits=tuple(timedelta(seconds=wait) for wait in self._settings.extended_waits),
            skew=timedelta(seconds=self._settings.skew_seconds),
            start_within=timedelta(seconds=self._settings.pick_up_seconds),
        )

    def _full_sweep(self) -> FullSweep:
        return FullSweep(
            rows=self._adapters.index_rows, store=self._adapters.store, clock=self._adapters.clock
        )

    def _operators(self) -> FastAPI:
        adapters = self._adapters
        application = operators_application(
            self._ports,
            self._registry,
            adapters.store_figures,
            adapters.bus_figures,
            guard=guard_of(self._settings, adapters.clock, key_name="operator"),
            start_within=self._settings.pick_up_seconds,
            traces=Traces(self._settings.trace_url_template),
        )
        return follow_requests(application)

    def _webhook(self) -> Webhook | None:
        address, alert_format = self._settings.alert_webhook_url, self._settings.alert_format
        if address is None:
            return None
        chosen = None if alert_format is None else AlertFormat(alert_format)
        return Webhook(str(address), chosen, session=http_session)
