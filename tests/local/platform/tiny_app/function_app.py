"""A small application: one function, without queues, and without the paths of this project's application."""

from __future__ import annotations

import os

import azure.functions as func

app = func.FunctionApp(http_auth_level=func.AuthLevel.ANONYMOUS)


@app.route(route="setting/{name}", methods=["GET"])
def setting(req: func.HttpRequest) -> func.HttpResponse:
    """Return the value of a setting, or nothing."""
    return func.HttpResponse(os.environ.get(req.route_params["name"], ""))
