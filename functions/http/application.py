"""A new HTTP application, pages with their files, and reads that requests share."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Header, Response

from functions.http.problems import ProblemError

#: The content types by suffix. Other files are not served.
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}

#: It allows scripts, styles and requests of this origin only, and no inline scripts, frames or forms.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'{images};"
    " frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


_Tag = Annotated[str | None, Header(alias="If-None-Match")]


@dataclass(frozen=True, slots=True)
class StaticFile:
    """One file; `tag` changes with its content."""

    content: bytes
    media_type: str
    tag: str

    def answer(self, known_tag: str | None, policy: str) -> Response:
        """Return the file, or 304 when it is known. `policy` is the Content-Security-Policy."""
        # The browser caches the file and revalidates it each time.
        headers = {"Referrer-Policy": "no-referrer", "Cache-Control": "no-cache", "ETag": self.tag}
        headers["Content-Security-Policy"] = policy
        if known_tag == self.tag:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        return Response(self.content, media_type=self.media_type, headers=headers)


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


def serve_page(
    app: FastAPI,
    path: str,
    files: Mapping[str, StaticFile],
    page: str,
    *,
    below: str,
    data_images: bool = False,
) -> None:
    """Serve a page at `path`, and all files below `below`. `data_images` allows images of style sheets."""
    policy = _POLICY.format(images=" data:" if data_images else "")

    @app.get(path)
    async def serve(known: _Tag = None) -> Response:
        return files[page].answer(known, policy)

    @app.get(f"{below}/{{name}}")
    async def file(name: str, known: _Tag = None) -> Response:
        if name not in files:
            raise ProblemError(HTTPStatus.NOT_FOUND, "The page has no such file.")
        return files[name].answer(known, policy)


def static_files(folder: Path) -> Mapping[str, StaticFile]:
    """Read all files of a folder, by name. No request reads from the disk."""
    return {path.name: static_file(path) for path in sorted(folder.iterdir()) if path.suffix in _TYPES}


def static_file(path: Path) -> StaticFile:
    """Read one file. Raises `KeyError` for a type that is not served, and `OSError`."""
    content = path.read_bytes()
    return StaticFile(content, _TYPES[path.suffix], f'"{hashlib.sha256(content).hexdigest()[:32]}"')


class Cached[ValueT]:
    """A value that is read again after a number of seconds. Requests of the same moment share one read."""

    def __init__(self, read: Callable[[], Coroutine[Any, Any, ValueT]], seconds: float) -> None:
        self._read, self._seconds = read, seconds
        self._reading: asyncio.Task[ValueT] | None = None
        self._next_at = 0.0

    async def get(self) -> ValueT:
        """Return the value. Raises the errors of the read; the next caller reads again."""
        reading, now = self._reading, asyncio.get_running_loop().time()
        if reading is None or (reading.done() and (_failed(reading) or now >= self._next_at)):
            self._reading = reading = asyncio.create_task(self._value())
        return await asyncio.shield(reading)

    async def _value(self) -> ValueT:
        value = await self._read()
        self._next_at = asyncio.get_running_loop().time() + self._seconds
        return value


def _failed(reading: asyncio.Task[Any]) -> bool:
    return reading.cancelled() or reading.exception() is not None
