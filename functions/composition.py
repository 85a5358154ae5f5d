"""The composition root: joins the parts of the application by its settings, and registers its functions.

Nothing connects before it is used. FastAPI and the HTTP applications are imported with their first request.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from typing import Any, Protocol

import azure.functions as func
from pydantic import Field, ValidationError

from functions import host_functions as host
from functions import settings as old_settings
from functions.agents.agent_call import Agent
from functions.agents.gates import Gates
from functions.core.plan import output_of
from functions.core.record import RuleSettings
from functions.core.workflow_definition import Workflow, WorkflowRegistry
from functions.machine import new_id
from functions.messaging.agent_messages import (
    AGENT_REPLIES_QUEUE,
    AgentRequest,
)
from functions.messaging.announcer import Announcer
from functions.messaging.scheduler_messages import (
    SCHEDULER_REQUESTS_QUEUE,
    ReleaseRequest,
    RunRequest,
    SchedulerMessage,
)
from functions.pattern.errors import SettingsError
from functions.roles import AppRole, reach_of
from functions.scheduler.receivers import Receivers
from functions.scheduler.run import Runs
from functions.storage.azure_table import AzureTable
from functions.storage.task_inbox import Transition
from functions.storage.task_storage import TaskStorage
from functions.supervisor.sweep_progress import SweepReport
from functions.supervisor.table_sweep import TableSweep
from functions.supervisor.task_sweep import TaskSweep
from functions.table_clients import TableAccount
from functions.table_setup import TASKS_TABLE, prepare_tables

_log = logging.getLogger(__name__)

#: Every hour; a full sweep without time left continues at its cursors.
_FULL_SWEEP_SCHEDULE = "0 3 * * * *"
#: Every five minutes, and not together with a sweep.
SUBMISSIONS_QUEUE = "submissions"
_PURGE_SCHEDULE = "15 */5 * * * *"
#: Age at which a Durable instance is purged, and seconds of one purge.
_INSTANCES_KEPT_FOR, _PURGE_SECONDS = timedelta(days=1), 240
#: The longest time that a circuit stays open, unless BREAKER_OPEN_SECONDS is longer.
_LONGEST_OPENING = timedelta(seconds=30)


class Settings(old_settings.Settings):
    """The application's settings; times are in seconds.

    At the switch these are removed: `agents_pick_up_seconds`, `function_timeout_seconds` (replaced by
    `run_seconds`), `crowd_tasks`, `crowd_per_minute`, `crowd_hours` and `intake_most_waiting`.
    """

    run_seconds: float = Field(240, ge=30, le=86_400)
    """the seconds of one run, at least 30 fewer than host.json's functionTimeout"""
    defer_hours: float = Field(6, gt=0, le=168)
    """the hours for which a step waits behind a closed gate before it counts as overdue"""

    @property
    def deferral(self) -> timedelta:
        """Return the time for which a step can be deferred."""
        return timedelta(hours=self.defer_hours)


def load_settings() -> Settings:
    """Read the settings from the environment. Raises `SettingsError` for the first that is wrong."""
    old_settings.load_settings()
    try:
        return Settings()
    except ValidationError as error:
        name, fault = old_settings.faults_of(error)[0]
        meanings = {field.validation_alias: field.description for field in Settings.model_fields.values()}
        raise SettingsError(f"setting {name} {fault}: set it to {meanings.get(name)}") from None


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
        defer_for=settings.deferral,
        output=partial(output_of, registry=registry),
    )


def utc_now() -> datetime:
    """Return the machine's time in UTC."""
    return datetime.now(UTC)


class MessageSender(Protocol):
    """Sends messages. Each method raises an error if a message may not be sent."""

    async def send(self, message: SchedulerMessage) -> None:
        """Send a message of the application to its queue."""

    async def send_request(self, agent: str, request: AgentRequest) -> None:
        """Send a request to the queue of an Agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageHandlers:
    """The handlers of the Scheduler's queues."""

    submissions: host.ReceiveMessages
    scheduler_request: host.ReceiveMessage
    agent_reply: host.ReceiveMessage


class TaskParts:
    """The parts that read and change tasks. Runs are started directly where a Durable client is bound."""

    def __init__(
        self, table: AzureTable, settings: Settings, registry: WorkflowRegistry, sender: MessageSender
    ) -> None:
        self.registry = registry
        self.rules = rule_settings(settings, registry)
        self.sender = sender
        self.storage = TaskStorage(
            table,
            shards=settings.state_shards,
            settings=self.rules,
            now=utc_now,
            new_id=new_id,
            announce=self._announce,
        )
        self.announcer = Announcer(send=sender.send, forget=self.storage.forget, start_run=self.request_run)
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
            start_run=self.request_run,
        )

    async def request_run(self, request: RunRequest) -> None:
        """Start a run, or request it by a message. Raises whatever a client raises."""
        try:
            await host.start_run(request)
        except host.NoDurableClientError:
            await self.sender.send(request)

    async def _announce(self, transition: Transition) -> None:
        await self.announcer.announce(transition)

    async def _schedule_release(self, gate: str, link: int, at: datetime) -> None:
        await self.announcer.send_once(ReleaseRequest(gate=gate, link=link, at=at))


async def report_sweep(kind: str, sweep: Callable[[], Awaitable[SweepReport]]) -> None:
    """Sweep, and log one line; alert rules take it for a sign of life. It raises nothing."""
    try:
        report = await sweep()
    except Exception:  # noqa: BLE001 - the next sweep tries again
        _log.exception("%s failed", kind)
        return
    is_bad = report.failed or report.left or report.corrupt
    _log.log(logging.WARNING if is_bad else logging.INFO, "%s %s", kind, json.dumps(dict(report.figures)))


async def purge_instances(retention: timedelta, purge: host.PurgeInstances) -> None:
    """Purge the Durable instances of old runs. It raises nothing, as the next purge continues."""
    before = utc_now() - min(retention, _INSTANCES_KEPT_FOR)
    try:
        async with asyncio.timeout(_PURGE_SECONDS):
            number = await purge(before)
    except Exception as error:  # noqa: BLE001 - the client raises nothing narrower
        _log.warning("Durable instances are not purged: %s", type(error).__name__)
        return
    _log.info("purge %s", json.dumps({"instances": number}))


class Wiring:
    """The application's parts, joined by its settings and workflows; nothing connects before it is used."""

    def __init__(
        self,
        settings: Settings,
        workflows: Sequence[Workflow[Any]],
        agents: Mapping[str, Agent],
        sender: MessageSender,
        receive: Callable[[TaskParts], MessageHandlers],
    ) -> None:
        self._settings, self._agents, self._sender = settings, agents, sender
        self._roles, self._reach = settings.roles, reach_of(settings.roles)
        self._registry = WorkflowRegistry(
            workflows, step_seconds=settings.step_seconds, run_seconds=settings.run_seconds
        )
        self._account = TableAccount(settings.state_store_connection)
        self._receive = receive

    def prepare(self) -> None:
        """Check the table of tasks. The whole application creates missing tables.

        Raises `SettingsError` and `TableSetupError`.
        """
        settings = self._settings
        if TASKS_TABLE not in self._reach.tables:
            return
        names = (TASKS_TABLE, "Rejected") if settings.is_whole else ()
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
        return TaskParts(table, self._settings, self._registry, self._sender)

    def _front(self) -> list[func.Blueprint]:
        return []

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
        handlers = self._receive(tasks)
        queues = [
            host.QueueFunction(
                "scheduler_requests", SCHEDULER_REQUESTS_QUEUE, handlers.scheduler_request, starts_runs=True
            ),
            host.QueueFunction("agent_replies", AGENT_REPLIES_QUEUE, handlers.agent_reply, starts_runs=True),
        ]
        retention = timedelta(days=settings.retention_days)
        return [
            host.scheduler_functions(runs.run_agents),
            host.submission_function(SUBMISSIONS_QUEUE, handlers.submissions),
            host.queue_functions(queues),
            host.purge_function(_PURGE_SCHEDULE, partial(purge_instances, retention)),
        ]

    def _queue_agents(self) -> list[func.Blueprint]:
        return []

    def _supervisor(self) -> list[func.Blueprint]:
        settings, tasks = self._settings, self.tasks
        sweep = TaskSweep(
            tasks.storage, gates=tasks.gates, registry=self._registry, send=self._sender.send, now=utc_now
        )
        retention = timedelta(days=settings.retention_days)
        full_sweep = TableSweep(tasks.storage, retention=retention, now=utc_now)
        timers = [
            host.TimerFunction(
                "supervisor",
                settings.supervisor_schedule,
                partial(report_sweep, "supervisor sweep", sweep.run),
            ),
            host.TimerFunction(
                "full_sweep", _FULL_SWEEP_SCHEDULE, partial(report_sweep, "full sweep", full_sweep.run)
            ),
        ]
        return [host.timer_functions(timers)]
