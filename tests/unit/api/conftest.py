"""The callers' application over a store in memory."""

from __future__ import annotations

from itertools import count

import pytest
from fastapi import FastAPI

from functions.api.acceptance import Acceptance
from functions.api.application import callers_application
from functions.api.gate import Gate
from functions.pattern.definition import Registry, Workflow
from functions.pattern.messages import order_of
from functions.pattern.transitions import admit
from functions.web.access import Guard
from functions.web.events import Events
from tests.fakes.asgi import AsgiClient
from tests.fakes.clock import FakeClock
from tests.fakes.guards import KEYS
from tests.fakes.orders import ORDERS
from tests.fakes.ports import fake_ports
from tests.fakes.queues import RecordedSubmissions
from tests.fakes.store import MemoryStateStore
from tests.fakes.tasks import after
from tests.fakes.workflows import BIRTH, DIAMOND


class Api:
    """The application, and what is behind it."""

    def __init__(self, guard: Guard | None = None) -> None:
        clock, ids = FakeClock(), count(1)
        self.store = MemoryStateStore(clock)
        self.submissions = RecordedSubmissions()
        ports = fake_ports(
            clock=clock,
            store=self.store,
            submissions=self.submissions,
            new_id=lambda: f"new-{next(ids)}",
        )
        self.acceptance = Acceptance(ports, {"notices-demo"}, 30)
        self._ports = ports
        self._guard = guard or KEYS
        self.application = self.application_of(ORDERS, DIAMOND)
        self.client = AsgiClient(self.application)

    def serving(self, *workflows: Workflow) -> AsgiClient:
        """Ask an application for other workflows, over the same store."""
        return AsgiClient(self.application_of(*workflows))

    def application_of(self, *workflows: Workflow) -> FastAPI:
        """Make an application for other workflows, over the same store."""
        registry = Registry(workflows, {})
        events = Events(self._ports, registry, 30)
        return callers_application(registry, self.acceptance, events, self._check_store, guard=self._guard)

    def application_with(self, gate: Gate) -> FastAPI:
        """Make the application with a gate."""
        registry = Registry((ORDERS, DIAMOND), {})
        events = Events(self._ports, registry, 30)
        return callers_application(
            registry, self.acceptance, events, self._check_store, guard=self._guard, gate=gate
        )

    def record_submitted(self) -> None:
        """Record the accepted orders, as the submission does."""
        for message in self.submissions.messages:
            self.store.put(admit(order_of(message, ORDERS, BIRTH), pick_up_by=after(30)))

    async def _check_store(self) -> None:
        if self.store.failure is not None:
            raise self.store.failure


@pytest.fixture
def api() -> Api:
    """Make an application without orders."""
    return Api()
