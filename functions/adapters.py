"""Makes the adapters to Table Storage and Service Bus, after the settings."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from functools import cache

import aiohttp

from functions.bus import connect as service_bus
from functions.bus.agent_messages import QueuedAgentReplies, QueuedAgentRequests
from functions.bus.announcements import QueuedAnnouncements
from functions.bus.queue_depths import PeekedQueues
from functions.bus.scheduler_requests import QueuedSchedulerRequests
from functions.bus.sender import QueueSender
from functions.bus.submissions import QueuedSubmissions
from functions.clock import SystemClock
from functions.pattern.messages import SCHEDULER_REQUESTS_QUEUE, SUBMISSIONS_QUEUE
from functions.pattern.ports import Ports
from functions.pattern.registry import Registry
from functions.pattern.request_figures import BusFigures, StoreFigures
from functions.settings import Settings
from functions.store import connect as table_storage
from functions.store.announcer import Announcer
from functions.store.breakers import TableBreakerRows
from functions.store.heartbeat import TableHeartbeat
from functions.store.index_rows import TableIndexRows
from functions.store.lease import TableLeaseRow
from functions.store.outbox import TableOutbox
from functions.store.rejected import TableRejectedMessages
from functions.store.retention import TableTaskRetention
from functions.store.state_store import TableStateStore
from functions.store.tables import REJECTED_TABLE, TASKS_TABLE, prepare_tables
from functions.store.task_index import TableTaskIndex
from functions.telemetry.changes import CountedChanges
from functions.telemetry.submissions import SubmissionSpans
from functions.web.destinations import CheckedResolver


def new_id() -> str:
    """Make an id that nobody else has: 32 hexadecimal digits."""
    return uuid.uuid4().hex


@cache
def http_session() -> aiohttp.ClientSession:
    """Open the HTTP client at its first use, when there is an event loop; it lives as long as the process."""
    connector = aiohttp.TCPConnector(limit_per_host=100, resolver=CheckedResolver())
    return aiohttp.ClientSession(connector=connector)


class Adapters:
    """One of each adapter; nothing connects before it is used."""

    def __init__(self, settings: Settings, registry: Registry) -> None:
        self._settings = settings
        self._registry = registry
        self.clock = SystemClock()
        self.store_figures = StoreFigures()
        self.bus_figures = BusFigures()
        self._bus = service_bus.connect(settings.service_bus_connection)
        self.tables = table_storage.connect(settings.state_store_connection)
        self._make_store()

    def _make_store(self) -> None:
        shards, figures = self._settings.state_shards, self.store_figures
        tasks = self.tables.get_table_client(TASKS_TABLE)
        rejected = self.tables.get_table_client(REJECTED_TABLE)
        self.announcements = QueuedAnnouncements(self._sender)
        self.outbox = TableOutbox(tasks, shards=shards, figures=figures, clock=self.clock)
        self.store = TableStateStore(
            tasks,
            shards=shards,
            clock=self.clock,
            new_id=new_id,
            figures=figures,
            announcer=CountedChanges(self._announcer(), self._registry),
        )
        self.agent_requests = QueuedAgentRequests(self._sender, clock=self.clock)
        self.agent_replies = QueuedAgentReplies(self._sender)
        self.submissions = SubmissionSpans(QueuedSubmissions(self._sender(SUBMISSIONS_QUEUE)))
        self.rejected = TableRejectedMessages(rejected, clock=self.clock)
        self.index = TableTaskIndex(tasks, shards=shards, figures=figures)
        self.index_rows = TableIndexRows(tasks, shards=shards, new_id=new_id, figures=figures)
        self.breaker_rows = TableBreakerRows(tasks, new_id=new_id, figures=figures)
        self.lease_row = TableLeaseRow(tasks, figures=figures)
        self.heartbeat = TableHeartbeat(tasks, figures=figures)
        self.task_retention = TableTaskRetention(tasks, shards=shards, figures=figures)

    def ports(self, queues: Sequence[str]) -> Ports:
        """Give all of it as what the parts know it by; `queues` are those that are looked into."""
        return Ports(
            clock=self.clock,
            new_id=new_id,
            store=self.store,
            index=self.index,
            index_rows=self.index_rows,
            outbox=self.outbox,
            retention=self.task_retention,
            rejected=self.rejected,
            breakers=self.breaker_rows,
            heartbeat=self.heartbeat,
            submissions=self.submissions,
            announcements=self.announcements,
            agent_requests=self.agent_requests,
            agent_replies=self.agent_replies,
            queues=self.queue_depths(queues),
        )

    def _announcer(self) -> Announcer:
        return Announcer(
            outbox=self.outbox,
            announcements=self.announcements,
            requests=QueuedSchedulerRequests(self._sender(SCHEDULER_REQUESTS_QUEUE)),
        )

    def prepare_tables(self, *more: str) -> None:
        """Make the tables that are missing, `more` among them. Raises `SettingsError`."""
        with table_storage.connect_at_start(self._settings.state_store_connection) as service:
            names = (TASKS_TABLE, REJECTED_TABLE, *more)
            prepare_tables(service, names, shards=self._settings.state_shards)

    def queue_depths(self, queues: Sequence[str]) -> PeekedQueues:
        """Make what looks into these queues."""
        return PeekedQueues(self._bus, queues)

    def _sender(self, queue: str) -> QueueSender:
        return QueueSender(self._bus, queue, self.bus_figures)
