"""The HTTP-triggered function in front of the sample remote services."""

from __future__ import annotations

import azure.durable_functions as df
from fastapi import FastAPI

from functions.web.blueprint import HttpRoute, http_blueprint


def services_blueprint(application: FastAPI) -> df.Blueprint:
    """Register the sample services; as all that changes something, they need a function key."""
    return http_blueprint(application, HttpRoute("services", "services/{*route}", ("GET", "PUT", "DELETE")))
