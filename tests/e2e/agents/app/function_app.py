"""The composition root of an Agent that runs by itself: it knows its queue, its service and its table."""

from __future__ import annotations

import os
import uuid
from datetime import UTC, datetime, timedelta

import azure.durable_functions as df

from functions.agents.blueprint import queued_agents_blueprint
from functions.agents.breaker import Breaker
from functions.agents.queued import QueuedAgent
from functions.agents.remote import RemoteService
from functions.agents.rest import RestAgent
from functions.bus.messages import QueuedMessages
from functions.bus.sender import QueueSender, connect_bus
from functions.pattern.breaker import BreakerPolicy
from functions.pattern.request_figures import BusFigures
from functions.settings import load_settings
from functions.store.agent_requests import AGENT_REQUESTS_TABLE, TableAgentRequests
from functions.store.connect import connect, connect_at_start
from functions.web.destinations import http_session, once_session
from tests.fakes.breaker_rows import MemoryBreakerRows
from tests.fakes.ports import fake_ports
from tests.fakes.queues import RecordedRejections


class _Clock:
    def now(self) -> datetime:
        """Return the machine's time."""
        return datetime.now(UTC)


settings = load_settings()
with connect_at_start(settings.state_store_connection) as tables:
    tables.create_table_if_not_exists(AGENT_REQUESTS_TABLE)
bus = connect_bus(settings.service_bus_connection)
clock = _Clock()
ports = fake_ports(
    clock=clock,
    new_id=lambda: uuid.uuid4().hex,
    rejected=RecordedRejections(),
    breakers=MemoryBreakerRows(),
    agent_requests=TableAgentRequests(
        connect(settings.state_store_connection).table(AGENT_REQUESTS_TABLE), clock=clock
    ),
    agent_messages=QueuedMessages(lambda queue: QueueSender(bus(), queue, BusFigures()), clock),
)
breaker = Breaker("payment", ports, BreakerPolicy(failures=1_000, open_for=timedelta(seconds=1)))
service = RemoteService(
    "payment",
    os.environ["PAYMENT_URL"],
    ports,
    session=http_session,
    once_session=once_session,
    breaker=breaker,
)

app = df.DFApp()
app.register_functions(
    queued_agents_blueprint([QueuedAgent("payment", RestAgent(service), ports, function_timeout=300)])
)
