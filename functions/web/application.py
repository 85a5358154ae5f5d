"""How every HTTP application begins: without what FastAPI would add to it."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI
from fastapi.telemetry import TelemetryConfig

#: FastAPI's own telemetry exports paths, queries and exceptions' texts.
_NO_TELEMETRY: Final[TelemetryConfig] = {"tracing": False, "metrics": False, "logs": False}


def bare_application(title: str, *, responses: dict[int | str, dict[str, Any]] | None = None) -> FastAPI:
    """Make an application without pages, which FastAPI loads from elsewhere, and without its telemetry.

    `responses` are what each of its routes may answer, for the OpenAPI document.
    """
    return FastAPI(
        title=title,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        responses=responses,
        telemetry=_NO_TELEMETRY,
    )
