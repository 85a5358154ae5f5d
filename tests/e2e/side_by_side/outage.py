"""Table storage as the application sees it, which can be away: it answers 503 then."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from aiohttp import ClientSession, web
from yarl import URL

from local.platform import Addresses, PlatformOptions
from local.platform.blueprint import Stages, whole_platform
from tests.fakes.web_server import served

#: Headers of one connection, which say nothing on the next.
_OF_A_CONNECTION = {"connection", "keep-alive", "transfer-encoding", "content-length", "host"}


class TablesWithOutages:
    """Passes requests on to the tables, and refuses them while `away`; counts what it `refused`."""

    def __init__(self) -> None:
        self.away = False
        self.refused = 0
        self._url = URL()
        self._tables = ""
        self._session: ClientSession | None = None

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[TablesWithOutages]:
        """Serve on a free port."""
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", self._pass_on)
        async with ClientSession(auto_decompress=False) as self._session, served(app) as url:
            self._url = URL(url)
            yield self

    def between(self, options: PlatformOptions, addresses: Addresses) -> Stages:
        """Return the whole platform, with this between its host and the tables."""
        self._tables = f"http://127.0.0.1:{addresses.ports.table}"
        assert self._url.port is not None
        seen_by_host = Addresses(replace(addresses.ports, table=self._url.port))
        settings = {**options.settings, "StateStore": seen_by_host.storage_connection}
        return whole_platform(replace(options, settings=settings), addresses)

    async def _pass_on(self, request: web.Request) -> web.Response:
        if self.away:
            self.refused += 1
            return web.Response(status=503)
        assert self._session is not None
        async with self._session.request(
            request.method,
            URL(f"{self._tables}{request.raw_path}", encoded=True),
            headers={name: text for name, text in request.headers.items() if _is_passed_on(name)},
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),  # some are signed
            data=await request.read() or None,
        ) as answer:
            headers = [(name, text) for name, text in answer.headers.items() if _is_passed_on(name)]
            body = await answer.read()
            passed = web.Response(status=answer.status, body=body)
            for name, text in headers:
                passed.headers[name] = text
            return passed


def _is_passed_on(header: str) -> bool:
    return header.lower() not in _OF_A_CONNECTION
