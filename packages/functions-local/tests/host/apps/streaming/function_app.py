"""HTTP streaming: its extension package registers a web framework of its own, here one that does nothing."""

from __future__ import annotations

import azure.functions as func
from azurefunctions.extensions.base import RequestTrackerMeta, ResponseLabels, ResponseTrackerMeta, WebApp

app = func.FunctionApp()


class Request:
    """A request as the framework has it."""


class Tracked(metaclass=RequestTrackerMeta):
    """Registers the type of requests."""

    request_type = Request
    synchronizer = object()


class TrackedResponse(metaclass=ResponseTrackerMeta):
    """Registers a type of responses."""

    label = ResponseLabels.STR
    response_type = str


class Framework(WebApp):
    """Registers the framework."""


@app.route("stream")
async def stream(req: Request) -> str:
    """Stream."""
    return str(req)
