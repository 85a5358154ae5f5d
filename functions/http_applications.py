"""The functions of HTTP routes, and the applications behind them, which are made at their first request.

FastAPI is imported then, because a start pays for each import.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from functools import cache, partial
from typing import TYPE_CHECKING

import azure.functions as func

from functions.console.console_page import console_application
from functions.core.workflow_definition import WorkflowRegistry
from functions.host_functions import http_functions
from functions.host_handlers import check_store
from functions.machine import new_id, utc_now
from functions.messaging.hub_sender import HubSender
from functions.messaging.intake_measurement import read_intake
from functions.messaging.queue_depths import PeekedQueues
from functions.messaging.rejected_messages import REJECTED_TABLE, RejectedMessages
from functions.messaging.senders import MessageSender
from functions.roles import AppRole
from functions.services.service import SampleService
from functions.settings import Settings
from functions.table_clients import TableAccount
from functions.task_parts import TaskParts
from functions.web.blueprint import HttpRoute

if TYPE_CHECKING:
    from fastapi import FastAPI

    from functions.web.access import Guard
    from functions.web.identification import Interface

_METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD")


class HttpApplications:
    """The HTTP applications of one process. `services` are the sample services that it serves.

    Orders are submitted by `sender`; `bus` sends rejected messages again.
    """

    def __init__(
        self,
        settings: Settings,
        registry: WorkflowRegistry,
        tasks: TaskParts,
        *,
        sender: MessageSender | HubSender,
        bus: MessageSender,
        queues: PeekedQueues,
        account: TableAccount,
        services: Collection[SampleService],
    ) -> None:
        self._settings, self._registry, self._tasks = settings, registry, tasks
        self._sender, self._account, self._services = sender, account, services
        self._bus, self._queues = bus, queues
        self._callers, self._operators = cache(self._make_callers), cache(self._make_operators)

    def front(self) -> list[func.Blueprint]:
        """Return the functions for callers, and those of the sample services."""
        health, api = HttpRoute("health", "health", is_open=True), HttpRoute("api", "{*route}", _METHODS)
        functions = [http_functions(self._callers, health, api)]
        if self._services:
            route = HttpRoute("services", "services/{*route}", ("GET", "PUT", "DELETE"))
            functions.append(http_functions(self._make_services, route))
        return functions

    def operators(self) -> list[func.Blueprint]:
        """Return the functions for operators and their console, which has open files without secrets."""
        page = HttpRoute("console_page", "ops", is_open=True)
        files = HttpRoute("console_files", "ops/console/{name}", is_open=True)
        operations = HttpRoute("operations", "ops/{*route}", ("GET", "POST"))
        return [
            http_functions(console_application, page, files),
            http_functions(self._operators, operations),
        ]

    def pages(self) -> list[func.Blueprint]:
        """Return the functions of the API's documentation.

        Its page is open, because a browser sends no key for scripts; it sends the key for the document.
        """
        page = HttpRoute("docs", "docs/{name?}", is_open=True)
        return [http_functions(self._make_pages, page, HttpRoute("openapi", "openapi.json"))]

    def _make_callers(self) -> FastAPI:
        from functions.api.callers_application import callers_application
        from functions.api.event_routes import Events
        from functions.api.intake_limit import IntakeLimit
        from functions.api.orders import Orders

        settings, storage = self._settings, self._tasks.storage
        orders = Orders(
            storage=storage,
            submit=self._sender.submit,
            now=utc_now,
            new_id=new_id,
            reply_queues=settings.reply_queues,
        )
        events = Events(
            storage=storage, record=self._tasks.receivers.event, registry=self._registry, now=utc_now
        )
        intake = IntakeLimit(partial(read_intake, storage.table), settings.intake_bounds, utc_now)
        return callers_application(
            self._registry,
            orders,
            events,
            partial(check_store, storage.table),
            guard=self._guard("api"),
            intake=intake.check,
        )

    def _make_operators(self) -> FastAPI:
        from functions.operators.operator_routes import operators_application
        from functions.operators.overview import OverviewReader
        from functions.operators.task_actions import TaskActions

        storage, gates = self._tasks.storage, self._tasks.gates
        actions = TaskActions(
            storage=storage,
            registry=self._registry,
            settings=self._tasks.rules,
            record_event=self._tasks.receivers.event,
            now=utc_now,
        )
        overview = OverviewReader(
            storage,
            gates,
            self._registry,
            depths=self._queues.depths,
            bounds=self._settings.intake_bounds,
            now=utc_now,
        )
        return operators_application(
            actions,
            gates,
            overview,
            rejected=RejectedMessages(self._account.table(REJECTED_TABLE), utc_now),
            put=self._bus.put,
            figures=lambda: {
                "table_storage": self._account.figures,
                "service_bus": asdict(self._bus.figures),
            },
            guard=self._guard("operations"),
            trace_url_template=self._settings.trace_url_template,
        )

    def _make_services(self) -> FastAPI:
        from functions.services.application import services_application

        return services_application(self._services, self._account.client, utc_now)

    def _make_pages(self) -> FastAPI:
        from functions.api.pages import api_document, pages_application

        made = {AppRole.FRONT: self._callers, AppRole.SUPERVISOR: self._operators}
        applications = [make() for role, make in made.items() if role in self._settings.roles]
        return pages_application(api_document("Scheduler Agent Supervisor", *applications))

    def _guard(self, interface: Interface) -> Guard:
        from functions.web.access import Guard
        from functions.web.caps import Caps
        from functions.web.identification import identify_by

        settings = self._settings
        caps = Caps(settings.rate_per_minute, settings.requests_in_flight)
        return Guard(identify_by(settings.auth_mode, interface), caps, utc_now)
