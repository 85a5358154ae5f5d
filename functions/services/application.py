"""The FastAPI application of all sample services, with their fault switches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from azure.data.tables.aio import TableClient
from fastapi import FastAPI

from functions.pattern.ports import Clock
from functions.services.accounts import ACCOUNTS, ACCOUNTS_TABLE, account_routes
from functions.services.deliveries import DELIVERIES
from functions.services.drones import DRONES
from functions.services.fault_routes import fault_routes
from functions.services.fault_table import FAULTS_TABLE, Faults
from functions.services.faulty_calls import FaultyCalls
from functions.services.packages import PACKAGES
from functions.services.payments import PAYMENTS
from functions.services.resources import Resources
from functions.services.service import SampleService, service_routes
from functions.services.transports import TRANSPORTS
from functions.web.application import bare_application
from functions.web.problems import install_problems

_SERVICES: tuple[SampleService[Any], ...] = (PAYMENTS, PACKAGES, TRANSPORTS, DRONES, DELIVERIES)
_NAMES = (ACCOUNTS, *(service.name for service in _SERVICES))

#: The tables that have to be there for `services_application`.
SERVICE_TABLES = (ACCOUNTS_TABLE, FAULTS_TABLE, *(service.table for service in _SERVICES))


def services_application(table: Callable[[str], TableClient], clock: Clock) -> FastAPI:
    """Serve the sample services; `table` gives the client of the table of that name."""
    app = bare_application("Sample services")
    faults = Faults(table(FAULTS_TABLE), clock=clock)
    app.add_middleware(FaultyCalls, services=_NAMES, faults=faults)
    install_problems(app)
    app.include_router(fault_routes(_NAMES, faults))
    app.include_router(account_routes(Resources(table(ACCOUNTS_TABLE), clock=clock)))
    for service in _SERVICES:
        app.include_router(service_routes(service, Resources(table(service.table), clock=clock)))
    return app
