"""The function in front of the sample services, and the tables that they need."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import azure.durable_functions as df

from functions.services.faults import FAULTS_TABLE
from functions.services.service import SampleService
from functions.web.blueprint import HttpRoute, http_blueprint

if TYPE_CHECKING:
    from starlette.types import ASGIApp


def service_tables(services: Collection[SampleService]) -> tuple[str, ...]:
    """Name the tables that must exist for the sample services, if there are any."""
    return (FAULTS_TABLE, *(service.table for service in services)) if services else ()


def services_blueprint(make: Callable[[], ASGIApp]) -> df.Blueprint:
    """Register the function in front of the sample services; it needs a function key, as `api` does."""
    return http_blueprint(make, HttpRoute("services", "services/{*route}", ("GET", "PUT", "DELETE")))
