"""The start of each HTTP application, pages with their files, and reads that requests share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.staticfiles import StaticFiles

#: Scripts, styles and requests of our own only; no inline scripts, frames or forms.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'{images};"
    " frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


def bare_application(title: str, *, responses: dict[int | str, dict[str, Any]] | None = None) -> FastAPI:
    """Return an application without FastAPI's own pages, redirects, and telemetry, which exports paths."""
    return FastAPI(
        title=title,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        responses=responses,
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )


class _PageFiles(StaticFiles):
    """Files that browsers revalidate each time and use under a Content-Security-Policy."""

    policy: str

    def file_response(self, *args: Any, **options: Any) -> Response:
        """Return a file, or 304 if the browser has it."""
        response = super().file_response(*args, **options)
        response.headers["Content-Security-Policy"] = self.policy
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["Cache-Control"] = "no-cache"
        return response


def serve_page(
    app: FastAPI,
    path: str,
    folder: Path,
    page: str,
    *,
    below: str,
    packages: list[str | tuple[str, str]] | None = None,
    data_images: bool = False,
) -> None:
    """Serve a page of `folder` at `path`, and the files of `folder` and `packages` below `below`.

    `data_images` allows images that style sheets contain.
    """
    files = _PageFiles(directory=folder, packages=packages)
    files.policy = _POLICY.format(images=" data:" if data_images else "")

    @app.get(path)
    async def serve(request: Request) -> Response:
        return await files.get_response(page, request.scope)

    app.mount(below, files)


class Cached[ValueT]:
    """A value that is read again after a number of seconds. Requests of the same moment share one read."""

    def __init__(
        self,
        read: Callable[[], Coroutine[Any, Any, ValueT]],
        seconds: float,
        now: Callable[[], datetime],
    ) -> None:
        self._read, self._keep, self._now = read, timedelta(seconds=seconds), now
        self._reading: asyncio.Task[ValueT] | None = None
        self._next_at = now()

    async def get(self) -> ValueT:
        """Return the value. Raises the errors of the read; the next caller reads again."""
        reading = self._reading
        if reading is None or (reading.done() and (self._now() >= self._next_at or reading.exception())):
            self._next_at = self._now() + self._keep
            self._reading = reading = asyncio.create_task(self._read())
        return await asyncio.shield(reading)
