"""The HTTP management API of the Durable extension, for the SDK's client and for other tools.

Paths, statuses and bodies are the extension's; operation names are not case-sensitive.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from typing import Any

from aiohttp import web

from functions_local.durable import requests
from functions_local.durable.answers import (
    PUBLIC_PREFIX,
    RPC_PREFIX,
    ManagementUrls,
    history_events,
    parsed,
    status_payload,
)
from functions_local.durable.client import DurableClient
from functions_local.durable.event_json import to_json
from functions_local.durable.events import RuntimeStatus
from functions_local.durable.refusals import (
    BadRequestError,
    RefusedError,
    UnknownInstanceError,
    UnsupportedRequestError,
)
from functions_local.durable.store import InstanceRow

_log = logging.getLogger(__name__)

#: Instances on a page unless the caller sets another number (the extension's default).
_PAGE_SIZE = 100
_CONTINUATION = "x-ms-continuation-token"

type Handler = Callable[[web.Request], Awaitable[web.Response]]


class ManagementApi:
    """The routes of the API; they answer 503 while the engine is not running."""

    def __init__(self, hub: str) -> None:
        self._hub = hub
        self._open_client: DurableClient | None = None

    def open(self, client: DurableClient) -> None:
        """Start serving."""
        self._open_client = client

    def close(self) -> None:
        """Stop serving."""
        self._open_client = None

    async def started(
        self, origin: str, name: str, instance: str, given: str | None
    ) -> Mapping[str, str] | None:
        """Start an instance as a request to `origin` with that text; None when it would be refused."""
        if self._open_client is None:
            return None
        try:
            await self._open_client.start_new(name, instance, None if given is None else to_json(given))
        except RefusedError:
            return None
        return self._urls(origin, instance)

    @property
    def _client(self) -> DurableClient:
        if self._open_client is None:
            raise web.HTTPServiceUnavailable(text="The Durable engine is not running.")
        return self._open_client

    def routes(self) -> list[web.RouteDef]:
        """Return the routes below both prefixes."""
        table: list[tuple[str, str, Handler]] = [
            ("POST", "/orchestrators/{name}", self._start),
            ("POST", "/orchestrators/{name}/{id}", self._start),
            ("GET", "/instances", self._list),
            ("GET", "/instances/", self._list),
            ("DELETE", "/instances", self._purge_by),
            ("DELETE", "/instances/", self._purge_by),
            ("GET", "/instances/{id}", self._status),
            ("DELETE", "/instances/{id}", self._purge),
            ("POST", "/instances/{id}/{operation}", self._operate),
            ("POST", "/instances/{id}/{operation}/{event}", self._raise_event),
            ("*", "/entities{rest:.*}", _refuse_entities),
        ]
        return [
            web.route(method, f"{prefix}{path}", _answering_refusals(handler))
            for prefix in (PUBLIC_PREFIX, RPC_PREFIX)
            for method, path, handler in table
        ]

    async def _start(self, request: web.Request) -> web.Response:
        instance = await self._client.start_new(
            request.match_info["name"],
            request.match_info.get("id"),
            await requests.json_body(request),
            request.query.get("version"),
        )
        if "timeout" not in request.query:
            return self._accepted(request, instance)
        row = await self._client.wait(instance, requests.number(request, "timeout", 0))
        return _result(row) if row.status.is_terminal else self._accepted(request, instance)

    def _accepted(self, request: web.Request, instance: str) -> web.Response:
        urls = self._urls(f"{request.scheme}://{request.host}", instance)
        headers = {"Location": urls["statusQueryGetUri"], "Retry-After": "10"}
        return _json(urls, 202, headers)

    def _urls(self, origin: str, instance: str) -> dict[str, str]:
        urls = ManagementUrls(origin, self._hub).of_instance(instance)
        del urls["rewindPostUri"]
        return urls

    async def _status(self, request: web.Request) -> web.Response:
        row = self._client.find(request.match_info["id"])
        show_input = requests.flag(request, "showInput", default=True)
        payload = status_payload(row, show_input=show_input)
        if requests.flag(request, "showHistory", default=False):
            show_output = requests.flag(request, "showHistoryOutput", default=False)
            bodies = self._client.history(row.id)
            payload["historyEvents"] = history_events(bodies, show_input=show_input, show_output=show_output)
        if not row.status.is_terminal:
            return _json(payload, 202, {"Location": str(request.url), "Retry-After": "5"})
        wants_500 = requests.flag(request, "returnInternalServerErrorOnFailure", default=False)
        return _json(payload, 500 if wants_500 and row.status is RuntimeStatus.Failed else 200)

    async def _list(self, request: web.Request) -> web.Response:
        size = int(requests.number(request, "top", _PAGE_SIZE)) or _PAGE_SIZE
        page = self._client.list(requests.instance_filter(request), size, request.headers.get(_CONTINUATION))
        show_input = requests.flag(request, "showInput", default=True)
        headers = {} if page.continuation is None else {_CONTINUATION: page.continuation}
        return _json([status_payload(row, show_input=show_input) for row in page.rows], 200, headers)

    async def _operate(self, request: web.Request) -> web.Response:
        instance, reason = request.match_info["id"], request.query.get("reason")
        match request.match_info["operation"].lower():
            case "terminate":
                await self._client.terminate(instance, reason)
            case "suspend":
                await self._client.suspend(instance, reason)
            case "resume":
                await self._client.resume(instance, reason)
            case "restart":
                new_id = requests.flag(request, "restartWithNewInstanceId", default=True)
                return self._accepted(request, await self._client.restart(instance, new_id=new_id))
            case "rewind":
                raise UnsupportedRequestError("Rewinding an orchestration is not supported by the local host")
            case _:
                raise web.HTTPNotFound
        return web.Response(status=202)

    async def _raise_event(self, request: web.Request) -> web.Response:
        if request.match_info["operation"].lower() != "raiseevent":
            raise web.HTTPNotFound
        if request.content_type != "application/json":
            raise BadRequestError("Only application/json request content is supported")
        payload = await requests.json_body(request)
        await self._client.raise_event(request.match_info["id"], request.match_info["event"], payload)
        return web.Response(status=202)

    async def _purge(self, request: web.Request) -> web.Response:
        await self._client.purge(request.match_info["id"])
        return _json({"instancesDeleted": 1}, 200)

    async def _purge_by(self, request: web.Request) -> web.Response:
        wanted = requests.instance_filter(request)
        if wanted.created_from is None:
            raise BadRequestError("Please provide value for 'createdTimeFrom' parameter.")
        deleted = await self._client.purge_by(wanted)
        return _json({"instancesDeleted": deleted}, 200) if deleted else web.Response(status=404)


async def _refuse_entities(_: web.Request) -> web.Response:
    raise UnsupportedRequestError("Entities are not supported by the local host")


def _answering_refusals(handler: Handler) -> Handler:
    """Make a handler answer a refused request as the extension does."""

    @wraps(handler)
    async def answer(request: web.Request) -> web.Response:
        try:
            return await handler(request)
        except UnknownInstanceError as error:
            return web.Response(status=error.status)  # the SDK expects no body
        except BadRequestError as error:
            body = {
                "Message": "One or more of the arguments submitted is incorrect",
                "ExceptionMessage": str(error),
                "ExceptionType": "System.ArgumentException",
                "StackTrace": "",
            }
            return _json(body, error.status)
        except RefusedError as error:
            if isinstance(error, UnsupportedRequestError):
                _log.error("%s", error)  # the SDK's client drops the text of some answers
            return _json({"Message": str(error)}, error.status)

    return answer


def _result(row: InstanceRow) -> web.Response:
    """Respond to a caller who waited: the output, or the whole status if there is none."""
    if row.status is RuntimeStatus.Completed:
        return _json(parsed(row.output), 200)
    return _json(status_payload(row, show_input=True), 500 if row.status is RuntimeStatus.Failed else 200)


def _json(body: Any, status: int, headers: dict[str, str] | None = None) -> web.Response:
    return web.json_response(body, status=status, headers=headers, dumps=to_json)
