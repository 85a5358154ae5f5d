"""Joins the parts: the one place that knows which adapter stands for which port."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from random import SystemRandom

import aiohttp
import azure.durable_functions as df
from azure.data.tables.aio import TableServiceClient
from purgatory import AsyncCircuitBreakerFactory

from functions.agents.payment import PaymentAgent
from functions.agents.remote import RemoteService
from functions.agents.runner import AgentRunner
from functions.announcing.announcer import Announcer
from functions.api.acceptance import Acceptance
from functions.api.application import callers_application
from functions.api.blueprint import api_blueprint
from functions.bus import connect as service_bus
from functions.bus.announcements import QueuedAnnouncements
from functions.bus.scheduler_requests import QueuedSchedulerRequests
from functions.bus.sender import QueueSender
from functions.bus.submissions import QueuedSubmissions
from functions.clock import SystemClock
from functions.figures import BusFigures, StoreFigures
from functions.operations.application import operators_application
from functions.operations.blueprint import operations_blueprint
from functions.pattern.definition import Workflow
from functions.pattern.messages import SCHEDULER_REQUESTS_QUEUE, SUBMISSIONS_QUEUE
from functions.pattern.ports import Agent
from functions.scheduler.blueprint import scheduler_blueprint
from functions.scheduler.claim import Claimer
from functions.scheduler.requests import RequestTaker
from functions.services.blueprint import services_blueprint
from functions.services.payments import PAYMENTS_TABLE, Payments, payments_application
from functions.settings import Settings
from functions.store import connect as table_storage
from functions.store.outbox import TableOutbox
from functions.store.rejected import TableRejectedMessages
from functions.store.state_store import TableStateStore
from functions.store.tables import REJECTED_TABLE, TASKS_TABLE, prepare_tables
from functions.submission.blueprint import submission_blueprint
from functions.submission.intake import Intake
from functions.workflows.registry import Registry


def new_id() -> str:
    """Make an id that nobody else has: 32 hexadecimal digits."""
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class Remote:
    """A remote service: its address, and the Agent that wraps it."""

    address: str
    agent: Callable[[RemoteService], Agent]


class Wiring:
    """The application's parts, joined after its settings; `remotes` is by the Agents' names."""

    def __init__(
        self, settings: Settings, workflows: tuple[Workflow, ...], remotes: Mapping[str, Remote]
    ) -> None:
        self._settings = settings
        self._remotes = remotes
        self._clock = SystemClock()
        self._registry = Registry(workflows, settings.step_seconds)
        self._store_figures = StoreFigures()
        self._bus_figures = BusFigures()
        self._tables: TableServiceClient = table_storage.connect(settings.state_store_connection)
        self._bus = service_bus.connect(settings.service_bus_connection)
        self._rejected = TableRejectedMessages(
            self._tables.get_table_client(REJECTED_TABLE), clock=self._clock
        )
        self._announcements = QueuedAnnouncements(self._sender)
        tasks = self._tables.get_table_client(TASKS_TABLE)
        self._outbox = TableOutbox(tasks, shards=settings.state_shards, figures=self._store_figures)
        self._store = TableStateStore(
            tasks,
            shards=settings.state_shards,
            clock=self._clock,
            new_id=new_id,
            figures=self._store_figures,
            announcer=Announcer(
                outbox=self._outbox,
                announcements=self._announcements,
                requests=QueuedSchedulerRequests(self._sender(SCHEDULER_REQUESTS_QUEUE)),
            ),
        )

    def prepare(self) -> None:
        """Make sure that the tables are there. Raises `SettingsError` when they can't be used."""
        tables = (TASKS_TABLE, REJECTED_TABLE, *([PAYMENTS_TABLE] if self._settings.sample_services else []))
        with table_storage.connect_at_start(self._settings.state_store_connection) as service:
            prepare_tables(service, tables, shards=self._settings.state_shards)

    def blueprints(self) -> list[df.Blueprint]:
        """Give every function of the application."""
        blueprints = [
            operations_blueprint(operators_application(self._store_figures, self._bus_figures)),
            api_blueprint(callers_application(self._registry, self._acceptance(), self._store.check)),
            submission_blueprint(self._intake()),
            scheduler_blueprint(self._claimer(), self._runner(), RequestTaker(self._rejected)),
        ]
        if self._settings.sample_services:
            payments = Payments(self._tables.get_table_client(PAYMENTS_TABLE), clock=self._clock)
            blueprints.append(services_blueprint(payments_application(payments)))
        return blueprints

    def _sender(self, queue: str) -> QueueSender:
        return QueueSender(self._bus, queue, self._bus_figures)

    def _acceptance(self) -> Acceptance:
        return Acceptance(
            store=self._store,
            submissions=QueuedSubmissions(self._sender(SUBMISSIONS_QUEUE)),
            reply_queues=self._settings.reply_queues,
            clock=self._clock,
            new_id=new_id,
        )

    def _intake(self) -> Intake:
        return Intake(
            store=self._store,
            rejected=self._rejected,
            registry=self._registry,
            reply_queues=self._settings.reply_queues,
            clock=self._clock,
            pick_up_within=self._settings.pick_up_seconds,
        )

    def _claimer(self) -> Claimer:
        return Claimer(
            store=self._store,
            registry=self._registry,
            clock=self._clock,
            start_within=self._settings.pick_up_seconds,
        )

    def _runner(self) -> AgentRunner:
        return AgentRunner(
            store=self._store,
            agents=self._agents(),
            registry=self._registry,
            clock=self._clock,
            start_within=self._settings.pick_up_seconds,
        )

    def _agents(self) -> dict[str, Agent]:
        breakers = AsyncCircuitBreakerFactory(
            default_threshold=self._settings.breaker_failures, default_ttl=self._settings.breaker_open_seconds
        )
        return {
            name: remote.agent(
                RemoteService(
                    name,
                    remote.address,
                    session=_session,
                    breakers=breakers,
                    clock=self._clock,
                    random=SystemRandom(),
                )
            )
            for name, remote in self._remotes.items()
        }


def remotes_of(settings: Settings) -> dict[str, Remote]:
    """Name the remote services of the workflows that are registered."""
    return {"payment": Remote(str(settings.payment_url), PaymentAgent)}


@cache
def _session() -> aiohttp.ClientSession:
    """Open the HTTP client at its first use, when there is an event loop; it lives as long as the process."""
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit_per_host=100))
