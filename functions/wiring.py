"""The composition root: joins the parts of the application by its settings, and registers its functions.

Nothing connects before it is used. FastAPI and the HTTP applications are imported with their first request,
because each import makes the start slower.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import azure.functions as func

from functions import host_functions as host
from functions.agents import agent_catalog
from functions.agents.http_agent import HttpAgent
from functions.agents.queue_agent import QueueAgent
from functions.connections import connect_bus, connection_string_of
from functions.core.definition.workflow_definition import WorkflowRegistry
from functions.core.record import RuleSettings, queue_gate
from functions.host_functions import new_id, utc_now
from functions.http.asgi_handler import HttpRoute
from functions.http.destinations import http_session, once_session
from functions.messaging.announcer import Announcer
from functions.messaging.intake_measurement import measure_intake, read_intake
from functions.messaging.queue_depths import PeekedQueues, log_queue_ages
from functions.messaging.queue_names import (
    AGENT_REPLIES_QUEUE,
    OPERATOR_ALERTS_QUEUE,
    SCHEDULER_REQUESTS_QUEUE,
    SUBMISSIONS_QUEUE,
    all_queues,
    dead_letter_queue,
)
from functions.messaging.received_messages import QueueBatches
from functions.messaging.rejected_messages import REJECTED_TABLE, LostMessages, RejectedMessages
from functions.messaging.request_ledger import RequestLedger
from functions.messaging.senders import MessageSender
from functions.operators import minute_rows
from functions.operators.alerts import Alerts, Webhook
from functions.roles import AGENT_TABLES, PERMISSIONS, AppRole, Permissions, permissions_of
from functions.scheduler.queue_handlers import QueueHandlers
from functions.scheduler.receivers import Receivers
from functions.scheduler.run import Runs
from functions.service_credentials import ManagedIdentity
from functions.services.service import service_tables
from functions.settings import Settings
from functions.storage.gate_releases import GateReleases
from functions.storage.gates import CallLimits, Gates
from functions.storage.task_storage import TaskStorage
from functions.submission.admission import Admission
from functions.submission.event_batches import EventBatches
from functions.supervisor.old_rows import DeleteBefore, delete_old_rows
from functions.supervisor.sweep_progress import FULL_SWEEP, SUPERVISOR, TASK_SWEEP, report_sweep
from functions.supervisor.table_sweep import TableSweep
from functions.supervisor.task_sweep import TaskSweep, sweep_once
from functions.table_accounts import TASKS_TABLE, TableAccount, prepare_tables
from functions.telemetry.export import export_telemetry
from functions.telemetry.task_counts import TaskCounts
from functions.workflows.registry import Registration, agent_classes, sample_services

if TYPE_CHECKING:
    from fastapi import FastAPI

    from functions.http.access import Guard
    from functions.http.identification import Interface

#: Every hour; a full sweep without time left continues at its cursors.
_FULL_SWEEP_SCHEDULE = "0 3 * * * *"
#: Every five minutes, and not at the same second.
_PURGE_SCHEDULE, _OLD_ROWS_SCHEDULE, _AGES_SCHEDULE = "15 */5 * * * *", "45 */5 * * * *", "55 */5 * * * *"
_INTAKE_SCHEDULE, _SUMMARY_SCHEDULE = "*/15 * * * * *", "10/15 * * * * *"
_METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD")
#: The time for which counts of minutes are kept: the console shows one hour.
_MINUTES_KEPT = timedelta(hours=2)


def start_telemetry(settings: Settings) -> None:
    """Export telemetry, if the settings name a receiver. Raises `SettingsError`."""
    to_otlp = settings.otlp_endpoint is not None
    with connection_string_of("APPLICATIONINSIGHTS_CONNECTION_STRING"):
        export_telemetry(settings.service_name, settings.application_insights, to_otlp=to_otlp)


def console_application() -> FastAPI:
    """Return the console: the page at `/api/ops` and its files below `/api/ops/console`, without secrets."""
    from functions.http.application import bare_application, serve_page, static_files
    from functions.http.problems import install_problems

    app = bare_application("Console")
    install_problems(app)
    files = static_files(Path(__file__).parent / "console/static")
    serve_page(app, "/api/ops", files, "index.html", below="/api/ops/console")
    return app


def collect_garbage_rarely() -> None:
    """Collect garbage less often: it took a seventh of a busy process's time (docs/performance.md)."""
    gc.freeze()
    gc.set_threshold(5_000, 3, 1_000)  # new objects, and then younger collections: short pauses


class Wiring:
    """The application's parts, joined by its settings and workflows."""

    def __init__(self, settings: Settings, registrations: Sequence[Registration]) -> None:
        self._settings, self._roles = settings, settings.roles
        self._permissions = permissions_of(settings.roles)
        workflows = [version for each in registrations for version in each.versions]
        self._registry = WorkflowRegistry(
            workflows, step_seconds=settings.step_seconds, run_seconds=settings.run_seconds
        )
        self._queues = all_queues(self._registry.queue_agents)
        _check_retention(self._registry, settings.retention_days)
        self._account = TableAccount(settings.state_store_connection, utc_now)
        agent_store = settings.agent_store_connection
        self._agent_account = self._account if agent_store is None else TableAccount(agent_store, utc_now)
        self._bus, self._figures = connect_bus(settings.service_bus_connection), Counter(messages=0)
        self._sender = self._make_sender(self._permissions)
        classes = agent_classes(registrations)
        self._finders = agent_catalog.finders(self._registry, classes)
        self._endpoints = self._load_endpoints(classes)
        self._agents = self._make_agents(classes)
        self._services = sample_services(registrations) if settings.sample_services else ()
        self._callers, self._operators = cache(self._make_callers), cache(self._make_operators)

    def _make_sender(self, permissions: Permissions) -> MessageSender:
        return MessageSender(self._bus, may_send=permissions.sends_to, now=utc_now, figures=self._figures)

    def _load_endpoints(self, classes: Mapping[str, type[HttpAgent]]) -> dict[str, agent_catalog.Endpoint]:
        here = agent_catalog.agents_here(
            self._registry,
            self._settings.agents_elsewhere,
            serves_calls=AppRole.SCHEDULER in self._roles,
            serves_queues=AppRole.AGENTS in self._roles,
        )
        agent_catalog.check_agents(self._registry, classes, here)
        return agent_catalog.load_endpoints(here)

    def _make_agents(self, classes: Mapping[str, type[HttpAgent]]) -> dict[str, HttpAgent]:
        return agent_catalog.make_agents(
            self._endpoints,
            classes,
            now=utc_now,
            session=http_session,
            once_session=once_session,
            issuer=ManagedIdentity(self._settings.agents_client_id),
            retry=self._settings.retry,
        )

    def prepare(self) -> None:
        """Check the table of tasks. An application with all roles creates missing tables.

        Raises `SettingsError` and `TableSetupError`.
        """
        settings, has_all = self._settings, self._settings.has_all_roles
        own = () if self._agent_account is self._account else AGENT_TABLES
        if own and has_all:
            with self._agent_account.service() as service:
                prepare_tables(service, own, setting="AgentStore")
        if TASKS_TABLE in self._permissions.tables:
            every = {TASKS_TABLE, REJECTED_TABLE, *AGENT_TABLES, *service_tables(self._services)}
            names = every - {*own} if has_all else ()
            with self._account.service() as service:
                prepare_tables(service, names, setting="StateStore", shards=settings.state_shards)

    def function_app(self) -> func.FunctionApp:
        """Return the application with every function of its roles."""
        app, roles = func.FunctionApp(http_auth_level=func.AuthLevel.FUNCTION), self._roles
        if AppRole.FRONT in roles:
            self._add_front(app)
        if AppRole.SCHEDULER in roles:
            self._add_scheduler(app)
        if AppRole.AGENTS in roles:
            self._add_queue_agents(app)
        if AppRole.SUPERVISOR in roles:
            self._add_supervisor(app)
        if roles & {AppRole.FRONT, AppRole.SUPERVISOR}:
            # The page is open, because a browser sends no key for scripts; it sends the key for the document.
            page = HttpRoute("docs", "docs/{name?}", is_open=True)
            host.add_routes(app, self._make_pages, page, HttpRoute("openapi", "openapi.json"))
        return app

    @cached_property
    def _calls_at_once(self) -> dict[str, int]:
        return {
            gate: each.calls_at_once
            for name, each in self._endpoints.items()
            for gate in (name, queue_gate(name))
            if each.calls_at_once is not None
        }

    @cached_property
    def _rules(self) -> RuleSettings:
        return self._settings.rules(self._registry)

    @cached_property
    def _announcer(self) -> Announcer:
        write = partial(minute_rows.write_minute, self._account.table(TASKS_TABLE))
        counts = TaskCounts(write, now=utc_now, new_id=new_id)
        return Announcer(send=self._sender.send, start_run=host.start_run, counts=counts)

    @cached_property
    def _storage(self) -> TaskStorage:
        return TaskStorage(
            self._account.table(TASKS_TABLE),
            shards=self._settings.state_shards,
            settings=self._rules,
            now=utc_now,
            new_id=new_id,
            announce=self._announcer.announce,
        )

    @cached_property
    def _gates(self) -> Gates:
        return Gates(
            self._storage,
            settings=self._rules,
            now=utc_now,
            schedule_release=self._announcer.request_release,
            calls_at_once=self._calls_at_once,
        )

    @cached_property
    def _rejected(self) -> RejectedMessages:
        return RejectedMessages(self._account.table(REJECTED_TABLE), utc_now)

    @cached_property
    def _lost(self) -> LostMessages:
        return LostMessages(self._rejected, self._alerts.alert_lost)

    @cached_property
    def _alerts(self) -> Alerts:
        settings, table = self._settings, self._storage.table
        post = None
        if settings.alert_webhook_url is not None:
            address = str(settings.alert_webhook_url)
            post = Webhook(address, settings.alert_format, session=http_session).post
        return Alerts(post, table, settings.alerts_per_minute, utc_now)

    def _add_front(self, app: func.FunctionApp) -> None:
        self._account.table(TASKS_TABLE)  # raises SettingsError at the start, not with the first request
        health, api = HttpRoute("health", "health", is_open=True), HttpRoute("api", "{*route}", _METHODS)
        host.add_routes(app, self._callers, health, api)
        if self._services:
            route = HttpRoute("services", "services/{*route}", ("GET", "PUT", "DELETE"))
            host.add_routes(app, self._make_services, route)

    def _add_scheduler(self, app: func.FunctionApp) -> None:
        settings = self._settings
        runs = Runs(
            storage=self._storage,
            registry=self._registry,
            agents=self._agents,
            gates=self._gates,
            send_request=self._sender.send_request,
            now=utc_now,
            new_id=new_id,
            run_seconds=settings.run_seconds,
            steps_at_once=settings.steps_at_once,
        )
        host.add_scheduler(app, runs.run_agents)
        host.add_purge(app, _PURGE_SCHEDULE, settings.retention, utc_now)
        admission = Admission(
            storage=self._storage,
            registry=self._registry,
            rejected=self._rejected,
            announcer=self._announcer,
            put=self._sender.put,
            settings=self._rules,
            now=utc_now,
            new_id=new_id,
            reply_queues=settings.reply_queues,
            retention=settings.retention,
            finders=self._finders,
        )
        batches = QueueBatches(SUBMISSIONS_QUEUE, self._sender.put, self._lost.lose, utc_now)
        host.add_submission(app, partial(batches.handle, work=admission.take))
        if settings.event_hubs_connection is not None:
            hub = settings.event_hub_name
            events = EventBatches(hub, admission, self._lost.lose)
            host.add_hub(app, hub, settings.event_hub_consumer_group, events.take)
        receivers = Receivers(
            storage=self._storage,
            registry=self._registry,
            announcer=self._announcer,
            gates=self._gates,
            releases=GateReleases(self._gates),
            settings=self._rules,
            now=utc_now,
            start_run=host.start_run,
            finders=self._finders,
        )
        handlers = QueueHandlers(receivers, self._rejected, alert=self._alerts.alert_rejected, now=utc_now)
        for queue, receive in (
            (SCHEDULER_REQUESTS_QUEUE, handlers.scheduler_request),
            (AGENT_REPLIES_QUEUE, handlers.agent_reply),
        ):
            host.add_queue(app, queue.replace("-", "_"), queue, receive, starts_runs=True)

    def _add_queue_agents(self, app: func.FunctionApp) -> None:
        sender = self._make_sender(PERMISSIONS[AppRole.AGENTS])
        reads_gates = TASKS_TABLE in self._permissions.tables
        limits = self._gates if reads_gates else CallLimits(self._calls_at_once, utc_now)
        for name in sorted(self._agents.keys() & self._registry.queue_agents):
            agent = QueueAgent(
                name=name,
                agent=self._agents[name],
                ledger=self._ledger,
                send_reply=sender.send_reply,
                now=utc_now,
                new_id=new_id,
                function_seconds=self._settings.run_seconds,
                limits=limits,
            )
            host.add_agent(app, agent)

    @cached_property
    def _ledger(self) -> RequestLedger:
        return RequestLedger(self._agent_account.table("AgentRequests"), utc_now)

    def _add_supervisor(self, app: func.FunctionApp) -> None:
        settings, storage, timer = self._settings, self._storage, partial(host.add_timer, app)
        sweep = TaskSweep(
            storage, gates=self._gates, registry=self._registry, send=self._sender.send, now=utc_now
        )
        full_sweep = TableSweep(
            storage,
            retention=settings.retention,
            reserved_for=timedelta(hours=settings.reservation_hours),
            now=utc_now,
        )
        bounds = settings.intake_bounds
        sweep_tasks = partial(sweep_once, sweep, storage.table, bounds, utc_now)
        sweep_run = partial(report_sweep, "supervisor sweep", sweep_tasks)
        timer("supervisor", settings.supervisor_schedule, sweep_run)
        timer("full_sweep", _FULL_SWEEP_SCHEDULE, partial(report_sweep, FULL_SWEEP, full_sweep.run))
        intake = partial(measure_intake, self._peeked, storage.table, bounds, utc_now)
        timer("intake", _INTAKE_SCHEDULE, intake)
        timer("queue_ages", _AGES_SCHEDULE, partial(log_queue_ages, self._peeked, utc_now))
        timer("alert_summary", _SUMMARY_SCHEDULE, self._alerts.post_summary)
        old_rows: dict[str, tuple[timedelta, DeleteBefore]] = {
            "rejected": (settings.retention, self._rejected.delete_before),
            "minutes": (_MINUTES_KEPT, partial(minute_rows.delete_before, storage.table)),
            "requests": (max(settings.retention, timedelta(days=1)), self._ledger.delete_before),
        }
        timer("old_rows", _OLD_ROWS_SCHEDULE, partial(delete_old_rows, old_rows, utc_now))
        take_alert = self._alerts.take
        host.add_queue(app, "operator_alert", OPERATOR_ALERTS_QUEUE, lambda each: take_alert(each.body))
        for queue in self._queues:
            name = f"dead_letter_{queue.replace('-', '_')}"
            host.add_queue(app, name, dead_letter_queue(queue), partial(self._lost.take, queue))
        page = HttpRoute("console_page", "ops", is_open=True)
        files = HttpRoute("console_files", "ops/console/{name}", is_open=True)
        host.add_routes(app, console_application, page, files)
        host.add_routes(app, self._operators, HttpRoute("operations", "ops/{*route}", ("GET", "POST")))

    @cached_property
    def _peeked(self) -> PeekedQueues:
        return PeekedQueues(self._bus, list(filter(self._permissions.receives_from, self._queues)))

    def _make_callers(self) -> FastAPI:
        from functions.api.callers_application import IntakeLimit, callers_application
        from functions.api.event_routes import Events
        from functions.api.orders import Orders

        settings, storage = self._settings, self._storage
        orders = Orders(
            storage=storage,
            submit=self._sender.submit,
            now=utc_now,
            new_id=new_id,
            reply_queues=settings.reply_queues,
        )
        events = Events(storage=storage, registry=self._registry, now=utc_now)
        intake = IntakeLimit(partial(read_intake, storage.table), settings.intake_bounds, utc_now)
        return callers_application(
            self._registry,
            orders,
            events,
            partial(storage.table.read, SUPERVISOR, TASK_SWEEP),
            guard=self._guard("api"),
            intake=intake.check,
        )

    def _make_operators(self) -> FastAPI:
        from functions.operators.operator_routes import operators_application
        from functions.operators.overview import OverviewReader
        from functions.operators.task_actions import TaskActions

        storage, gates = self._storage, self._gates
        actions = TaskActions(storage=storage, registry=self._registry, settings=self._rules, now=utc_now)
        overview = OverviewReader(
            storage,
            gates,
            self._registry,
            depths=self._peeked.depths,
            bounds=self._settings.intake_bounds,
            now=utc_now,
        )
        return operators_application(
            actions,
            gates,
            overview,
            rejected=self._rejected,
            put=self._sender.put,
            figures=lambda: {"table_storage": self._account.figures, "service_bus": self._figures},
            guard=self._guard("operations"),
            trace_url_template=self._settings.trace_url_template,
        )

    def _make_services(self) -> FastAPI:
        from functions.services.sample_application import services_application

        account = TableAccount(self._settings.state_store_connection, utc_now)  # with figures of its own
        return services_application(self._services, account.table, utc_now)

    def _make_pages(self) -> FastAPI:
        from functions.api.pages import api_document, pages_application

        made = {AppRole.FRONT: self._callers, AppRole.SUPERVISOR: self._operators}
        applications = [make() for role, make in made.items() if role in self._settings.roles]
        return pages_application(api_document("Scheduler Agent Supervisor", *applications))

    def _guard(self, interface: Interface) -> Guard:
        from functions.http.access import Caps, Guard
        from functions.http.identification import identify_by

        settings = self._settings
        caps = Caps(settings.rate_per_minute, settings.requests_in_flight)
        return Guard(identify_by(settings.auth_mode, interface), caps)


def _check_retention(registry: WorkflowRegistry, days: float) -> None:
    """Check that a task exists as long as its caller may cancel it. Raises `DefinitionError`."""
    for workflow in registry:
        if workflow.cancel_within is not None and workflow.cancel_within > days * 86_400:
            raise workflow.error(
                f"cancel_within: {workflow.cancel_within:g} s is longer than the retention of tasks"
                f" (RETENTION_DAYS={days:g}): shorten it, or set RETENTION_DAYS to a larger number"
            )
