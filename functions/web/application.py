"""How every HTTP application begins: without what FastAPI would add to it."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from functions.telemetry.incoming import FASTAPIS_OWN_IS_OFF


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
        telemetry=FASTAPIS_OWN_IS_OFF,
    )
