"""The HTTP server: functions with HTTP triggers, next to the routes of the engine and the administration."""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Iterable, Mapping

from aiohttp import web
from aiohttp.typedefs import Handler

from functions_local.configuration import StartError
from functions_local.http.keys import Keys
from functions_local.http.messages import to_client, to_worker
from functions_local.http.routes import RouteMatch, RouteTable
from functions_local.invocations import Invocations
from functions_local.worker import FunctionFailed

_log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"

#: Azure's limit for a request: 100 MB.
_MAX_BODY = 100 * 1024 * 1024

#: The response of `/`, unless a function has that path.
_HOME = "Your function app is running."


class HttpFunctions:
    """Answers a request by running the function whose route matches it."""

    def __init__(self, routes: RouteTable, invocations: Invocations, keys: Keys) -> None:
        self._routes = routes
        self._invocations = invocations
        self._keys = keys
        self._stopping = False

    def stop(self) -> None:
        """Answer 503 to new requests; requests in flight continue."""
        self._stopping = True

    async def handle(self, request: web.Request) -> web.Response:
        """Run the function and return its response: 404 without a function, 401 without its key.

        `/` without a function is 200, for tools that check whether the host runs. Headers that are not UTF-8
        are 400, as with the Azure Functions host's server (Kestrel).
        """
        if self._stopping:
            return web.Response(status=503, headers={"Connection": "close"})
        if any(_is_garbled(value) for value in request.headers.values()):
            return web.Response(status=400)
        match = self._routes.find(request.method, request.rel_url.raw_path)
        if match is None:
            return web.Response(status=404) if request.path != "/" else web.Response(text=_HOME)
        if not self._keys.allow(request, match.route.trigger.auth, match.route.function.name):
            return web.Response(status=401)
        return await self._run(request, match)

    async def _run(self, request: web.Request, match: RouteMatch) -> web.Response:
        """Run the function: 500 if it raises, or returns an invalid response."""
        body = await request.read() if request.body_exists else b""
        function, parameter = match.route.function, match.route.trigger.parameter
        outcome = await self._invocations.run(function, {parameter: to_worker(request, body, match.values)})
        if isinstance(outcome, FunctionFailed):
            return web.Response(status=500)
        try:
            return to_client(request.method, outcome.given(function.response) if function.response else None)
        except ValueError as error:
            _log.error("function %s returned no valid response: %s", function.name, error)
            return web.Response(status=500)


class HttpServer:
    """Listens on the loopback interface only."""

    def __init__(self, port: int, headers: Mapping[str, str]) -> None:
        """Reserve the port (0: any free one); connections are refused until `serve`.

        Every response gets the `headers` that it has not set itself.
        Raises StartError when another process has it.
        """
        self._socket = _bind(port)
        self._headers = headers
        self._app = web.Application(client_max_size=_MAX_BODY, middlewares=[_checked])
        if headers:
            self._app.on_response_prepare.append(self._add_headers)
        self._runner = web.AppRunner(self._app, access_log=None, handle_signals=False, shutdown_timeout=0.1)
        self.address: str = f"{LOOPBACK}:{self._socket.getsockname()[1]}"
        self.url = f"http://{self.address}"

    async def serve(self, routes: Iterable[web.RouteDef], functions: HttpFunctions) -> None:
        """Start answering: `routes` first, everything else goes to the functions."""
        self._app.add_routes(routes)
        self._app.router.add_route("*", "/{path:(?s:.*)}", functions.handle)  # line breaks, too
        await self._runner.setup()
        await web.SockSite(self._runner, self._socket, backlog=1024).start()

    async def close(self) -> None:
        """Close the listener and every connection."""
        await self._runner.cleanup()
        self._socket.close()

    async def _add_headers(self, _request: web.Request, response: web.StreamResponse) -> None:
        for name, value in self._headers.items():
            response.headers.setdefault(name, value)


@web.middleware
async def _checked(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer 400 to a body that its headers contradict."""
    try:
        return await handler(request)
    except web.RequestPayloadError:
        response = web.Response(status=400)
        response.force_close()  # the rest of the body can't be separated from the next request
        return response


def _is_garbled(header: str) -> bool:
    """Return whether a header is not UTF-8: aiohttp decodes such bytes as lone surrogates."""
    return any("\ud800" <= character <= "\udfff" for character in header)


def _bind(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
    except OSError as error:
        listener.close()
        if error.errno != errno.EADDRINUSE:
            raise
        raise StartError(
            f"port {port} is taken by another process; choose one with --port (0 for any)"
        ) from error
    return listener
