"""Headers that the app's configuration adds to responses: `customHeaders` of host.json, and CORS."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web

from functions_local.configuration import Cors


class ResponseHeaders:
    """Adds them to every response, of functions and of the host's own endpoints."""

    def __init__(self, custom: Mapping[str, str], cors: Cors) -> None:
        self._custom = custom
        self._cors = cors

    def serve(self, application: web.Application) -> None:
        """Add them to what an application answers, if there are any."""
        if self._custom or self._cors.origins:
            application.on_response_prepare.append(self._add)

    def is_preflight(self, request: web.Request) -> bool:
        """Whether a browser asks what another origin's page may do. The host answers, not a function."""
        asks = request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers
        return asks and "Origin" in request.headers and bool(self._cors.origins)

    async def _add(self, request: web.Request, response: web.StreamResponse) -> None:
        """Add the headers that the response has not set itself."""
        for name, value in {**self._custom, **self._of_cors(request)}.items():
            response.headers.setdefault(name, value)

    def _of_cors(self, request: web.Request) -> Mapping[str, str]:
        origin = request.headers.get("Origin", "")
        if not origin or not self._cors.allows(origin):
            return {}
        headers = {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}
        if self._cors.credentials:
            headers["Access-Control-Allow-Credentials"] = "true"
        if self.is_preflight(request):
            headers["Access-Control-Allow-Methods"] = request.headers["Access-Control-Request-Method"]
            wanted = request.headers.get("Access-Control-Request-Headers")
            headers |= {"Access-Control-Allow-Headers": wanted} if wanted else {}
        return headers
