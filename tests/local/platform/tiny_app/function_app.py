"""The smallest application that the platform can call healthy."""

from __future__ import annotations

import os

import azure.functions as func

app = func.FunctionApp(http_auth_level=func.AuthLevel.ANONYMOUS)


@app.route(route="health", methods=["GET"])
def health(req: func.HttpRequest) -> func.HttpResponse:
    """Answer with the setting that was asked for, or with nothing."""
    return func.HttpResponse(os.environ.get(req.params.get("setting", ""), ""))
