"""The composition root: joins the parts of the application by its settings, and registers its functions.

Nothing connects before it is used. FastAPI and the HTTP applications are imported with their first request.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, Any

import azure.functions as func
from pydantic import BeforeValidator, Field, ValidationError
from pydantic_settings import NoDecode

from functions import host_functions as host
from functions import settings as old_settings
from functions.agents.agent_catalog import (
    agents_here,
    check_agents,
    finders,
    load_endpoints,
    make_agents,
)
from functions.agents.gates import Gates
from functions.agents.queue_agent import QueueAgent, RequestLedger
from functions.core.plan import output_of
from functions.core.record import RuleSettings
from functions.core.step_definition import Retry
from functions.core.workflow_definition import WorkflowRegistry
from functions.host_handlers import QueueHandlers, purge_instances, report_sweep
from functions.machine import SystemClock, new_id
from functions.messaging.agent_messages import AGENT_REPLIES_QUEUE, requests_queue
from functions.messaging.announcer import Announcer
from functions.messaging.message_format import QueueMessage
from functions.messaging.queue_names import SUBMISSIONS_QUEUE
from functions.messaging.received_messages import LostMessages, QueueBatches, handle
from functions.messaging.rejected_messages import REJECTED_TABLE, RejectedMessages
from functions.messaging.scheduler_messages import SCHEDULER_REQUESTS_QUEUE, ReleaseRequest, RunRequest
from functions.messaging.senders import BusFigures, MessageSender, connect_bus
from functions.pattern.errors import SettingsError
from functions.roles import AGENT_TABLES, REACHES, AppRole, Reach, reach_of
from functions.scheduler.receivers import Receivers
from functions.scheduler.run import Runs
from functions.services.service import service_tables
from functions.storage.azure_table import AzureTable
from functions.storage.task_inbox import Transition
from functions.storage.task_storage import TaskStorage
from functions.submission.admission import Admission
from functions.supervisor.table_sweep import TableSweep
from functions.supervisor.task_sweep import TaskSweep
from functions.table_clients import TableAccount
from functions.table_setup import TASKS_TABLE, prepare_tables
from functions.web.blueprint import HttpRoute
from functions.web.destinations import http_session, once_session
from functions.web.service_credentials import ManagedIdentity
from functions.workflows_next.registration import Registration, agent_classes, sample_services

if TYPE_CHECKING:
    from fastapi import FastAPI

#: Every hour; a full sweep without time left continues at its cursors.
_FULL_SWEEP_SCHEDULE = "0 3 * * * *"
#: Every five minutes, and not together with a sweep.
_PURGE_SCHEDULE = "15 */5 * * * *"
#: The longest time that a circuit stays open, unless BREAKER_OPEN_SECONDS is longer.
_LONGEST_OPENING = timedelta(seconds=30)


def _retry_of(text: object) -> object:
    """Return the waits of a text such as `first=0.2,longest=10`."""
    read = old_settings.pairs(text)
    if not isinstance(read, dict):
        return read
    if not read.keys() <= {"first", "factor", "longest"}:
        raise ValueError("its parts are first, factor and longest")
    return Retry(**{name: float(value) for name, value in read.items()})


class Settings(old_settings.Settings):
    """The application's settings; times are in seconds.

    At the switch these are removed: `agents_pick_up_seconds`, `function_timeout_seconds` (replaced by
    `run_seconds`), `crowd_tasks`, `crowd_per_minute`, `crowd_hours` and `intake_most_waiting`.
    """

    run_seconds: float = Field(240, ge=30, le=86_400)
    """the seconds of one run, at least 30 fewer than host.json's functionTimeout"""
    defer_hours: float = Field(6, gt=0, le=168)
    """the hours for which a step waits behind a closed gate before it counts as overdue"""
    retry: Annotated[Retry, NoDecode, BeforeValidator(_retry_of)] = Retry()  # type: ignore[assignment]
    """the waits between attempts of a call, such as first=0.2,factor=2,longest=10"""

    @property
    def retention(self) -> timedelta:
        """Return the time for which finished tasks are kept."""
        return timedelta(days=self.retention_days)


def load_settings() -> Settings:
    """Read the settings from the environment. Raises `SettingsError` for the first that is wrong."""
    try:
        settings = Settings()
    except ValidationError as error:
        name, fault = old_settings.faults_of(error)[0]
        meanings = {field.validation_alias: field.description for field in Settings.model_fields.values()}
        raise SettingsError(f"setting {name} {fault}: set it to {meanings.get(name)}") from None
    old_settings.load_settings()  # which checks settings against each other
    return settings


def rule_settings(settings: Settings, registry: WorkflowRegistry) -> RuleSettings:
    """Return the settings of the rules."""
    first_opening = timedelta(seconds=settings.breaker_open_seconds)
    return RuleSettings(
        start_within=timedelta(seconds=settings.pick_up_seconds),
        skew=timedelta(seconds=settings.skew_seconds),
        threshold=settings.supervisor_threshold,
        extended_waits=tuple(timedelta(seconds=wait) for wait in settings.extended_waits),
        first_deferral=first_opening,
        longest_opening=max(_LONGEST_OPENING, first_opening),
        open_after=settings.breaker_failures,
        defer_for=timedelta(hours=settings.defer_hours),
        output=partial(output_of, registry=registry),
    )


def utc_now() -> datetime:
    """Return the machine's time in UTC."""
    return datetime.now(UTC)


class TaskParts:
    """The parts that read and change tasks. Runs are started directly where a Durable client is bound."""

    def __init__(
        self,
        table: AzureTable,
        settings: Settings,
        registry: WorkflowRegistry,
        sender: MessageSender,
        finders: frozenset[str],
    ) -> None:
        self.rules = rule_settings(settings, registry)
        self._sender = sender
        self.storage = TaskStorage(
            table,
            shards=settings.state_shards,
            settings=self.rules,
            now=utc_now,
            new_id=new_id,
            announce=self._announce,
        )
        self.announcer = Announcer(send=sender.send, forget=self.storage.forget, start_run=self._request_run)
        self.gates = Gates(
            self.storage, settings=self.rules, now=utc_now, schedule_release=self._schedule_release
        )
        self.receivers = Receivers(
            storage=self.storage,
            registry=registry,
            announcer=self.announcer,
            gates=self.gates,
            settings=self.rules,
            now=utc_now,
            start_run=self._request_run,
            finders=finders,
        )

    async def _request_run(self, request: RunRequest) -> None:
        try:
            await host.start_run(request)
        except host.NoDurableClientError:
            await self._sender.send(request)

    async def _announce(self, transition: Transition) -> None:
        await self.announcer.announce(transition)

    async def _schedule_release(self, gate: str, link: int, at: datetime) -> None:
        await self.announcer.send_once(ReleaseRequest(gate=gate, link=link, at=at))


class Wiring:
    """The application's parts, joined by its settings and workflows."""

    def __init__(self, settings: Settings, registrations: Sequence[Registration]) -> None:
        self._settings, self._roles = settings, settings.roles
        self._reach = reach_of(settings.roles)
        workflows = [version for each in registrations for version in each.versions]
        self._registry = WorkflowRegistry(
            workflows, step_seconds=settings.step_seconds, run_seconds=settings.run_seconds
        )
        self._account = TableAccount(settings.state_store_connection)
        agent_store = settings.agent_store_connection
        self._agent_account = self._account if agent_store is None else TableAccount(agent_store)
        self._bus, self._figures = connect_bus(settings.service_bus_connection), BusFigures()
        self._sender = self._make_sender(self._reach)
        self._agents = self._make_agents(registrations)
        self._services = sample_services(registrations) if settings.sample_services else ()

    def _make_sender(self, reach: Reach) -> MessageSender:
        return MessageSender(self._bus, may_send=reach.sends_to, now=utc_now, figures=self._figures)

    def _make_agents(self, registrations: Sequence[Registration]) -> dict[str, Any]:
        classes = agent_classes(registrations)
        self._finders = finders(self._registry, classes)
        here = agents_here(
            self._registry,
            self._settings.agents_elsewhere,
            serves_calls=AppRole.SCHEDULER in self._roles,
            serves_queues=AppRole.AGENTS in self._roles,
        )
        check_agents(self._registry, classes, here)
        return make_agents(
            load_endpoints(here),
            classes,
            now=utc_now,
            session=http_session,
            once_session=once_session,
            issuer=ManagedIdentity(self._settings.agents_client_id),
            retry=self._settings.retry,
        )

    def prepare(self) -> None:
        """Check the table of tasks. The whole application creates missing tables.

        Raises `SettingsError` and `TableSetupError`.
        """
        settings, is_whole = self._settings, self._settings.is_whole
        own = () if self._agent_account is self._account else AGENT_TABLES
        if own and is_whole:
            with self._agent_account.service() as service:
                prepare_tables(service, own, setting="AgentStore")
        if TASKS_TABLE in self._reach.tables:
            every = {TASKS_TABLE, REJECTED_TABLE, *AGENT_TABLES, *service_tables(self._services)}
            names = every - {*own} if is_whole else ()
            with self._account.service() as service:
                prepare_tables(service, names, setting="StateStore", shards=settings.state_shards)

    def blueprints(self) -> list[func.Blueprint]:
        """Return every function of the application's roles."""
        made = {
            AppRole.FRONT: self._front,
            AppRole.SCHEDULER: self._scheduler,
            AppRole.AGENTS: self._queue_agents,
            AppRole.SUPERVISOR: self._supervisor,
        }
        return [each for role in AppRole if role in self._roles for each in made[role]()]

    @cached_property
    def tasks(self) -> TaskParts:
        """Return the parts that read and change tasks."""
        table = self._account.table(TASKS_TABLE)
        return TaskParts(table, self._settings, self._registry, self._sender, self._finders)

    @cached_property
    def _rejected(self) -> RejectedMessages:
        return RejectedMessages(self._account.table(REJECTED_TABLE), utc_now)

    @cached_property
    def _lost(self) -> LostMessages:
        return LostMessages(self._rejected, _no_alert)

    def _front(self) -> list[func.Blueprint]:
        if not self._services:
            return []
        services = HttpRoute("services", "services/{*route}", ("GET", "PUT", "DELETE"))
        return [host.http_functions(self._make_services, services)]

    def _make_services(self) -> FastAPI:
        from functions.services.application import services_application

        return services_application(self._services, self._account.client, SystemClock())

    def _scheduler(self) -> list[func.Blueprint]:
        settings, tasks = self._settings, self.tasks
        runs = Runs(
            storage=tasks.storage,
            registry=self._registry,
            agents=self._agents,
            gates=tasks.gates,
            send_request=self._sender.send_request,
            now=utc_now,
            new_id=new_id,
            run_seconds=settings.run_seconds,
            steps_at_once=settings.steps_at_once,
        )
        admission = Admission(
            storage=tasks.storage,
            registry=self._registry,
            rejected=self._rejected,
            announcer=tasks.announcer,
            put=self._sender.put,
            settings=tasks.rules,
            now=utc_now,
            new_id=new_id,
            reply_queues=settings.reply_queues,
            retention=settings.retention,
            finders=self._finders,
        )
        batches = QueueBatches(SUBMISSIONS_QUEUE, self._sender.put, self._lost.lose, utc_now)
        handlers = QueueHandlers(tasks.receivers, self._rejected, alert=_no_alert, now=utc_now)
        queues = [
            _queue_function("scheduler_requests", SCHEDULER_REQUESTS_QUEUE, handlers.scheduler_request),
            _queue_function("agent_replies", AGENT_REPLIES_QUEUE, handlers.agent_reply),
        ]
        return [
            host.scheduler_functions(runs.run_agents),
            host.submission_function(SUBMISSIONS_QUEUE, partial(batches.handle, work=admission.take)),
            host.queue_functions(queues, start_runs=True),
            host.purge_function(_PURGE_SCHEDULE, partial(purge_instances, settings.retention, utc_now)),
        ]

    def _queue_agents(self) -> list[func.Blueprint]:
        sender = self._make_sender(REACHES[AppRole.AGENTS])
        ledger = RequestLedger(self._agent_account.table("AgentRequests"), utc_now)
        served = sorted(self._agents.keys() & self._registry.queue_agents)
        agents = [
            QueueAgent(
                name=name,
                agent=self._agents[name],
                ledger=ledger,
                send_reply=sender.send_reply,
                now=utc_now,
                new_id=new_id,
                function_seconds=self._settings.run_seconds,
                gates=self.tasks.gates if TASKS_TABLE in self._reach.tables else None,
            )
            for name in served
        ]
        return [host.queue_functions(map(_agent_function, agents))]

    def _supervisor(self) -> list[func.Blueprint]:
        settings, tasks = self._settings, self.tasks
        sweep = TaskSweep(
            tasks.storage, gates=tasks.gates, registry=self._registry, send=self._sender.send, now=utc_now
        )
        full_sweep = TableSweep(tasks.storage, retention=settings.retention, now=utc_now)
        sweep_run = partial(report_sweep, "supervisor sweep", sweep.run)
        full_run = partial(report_sweep, "full sweep", full_sweep.run)
        timers = [
            host.TimerFunction("supervisor", settings.supervisor_schedule, sweep_run),
            host.TimerFunction("full_sweep", _FULL_SWEEP_SCHEDULE, full_run),
        ]
        return [host.timer_functions(timers)]


async def _no_alert(_alert: object) -> None:
    """Alert nobody; the log has a line."""


def _queue_function(name: str, queue: str, receive: host.ReceiveMessage) -> host.QueueFunction:
    """Return a function that retries a message within its lock."""

    async def receive_within_lock(message: QueueMessage) -> None:
        await handle(queue, message, partial(receive, message))

    return host.QueueFunction(name, queue, receive_within_lock)


def _agent_function(agent: QueueAgent) -> host.QueueFunction:
    """Return the function of an Agent's queue. Its message stays locked as long as the function runs."""
    queue, seconds = requests_queue(agent.name), agent.function_seconds

    async def receive(message: QueueMessage) -> None:
        work = partial(agent.take, message.message_id, message.body)
        await handle(queue, message, work, seconds=seconds)

    return host.QueueFunction(f"agent_{agent.name.replace('-', '_')}", queue, receive)
