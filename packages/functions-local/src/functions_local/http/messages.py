"""Converts between aiohttp's requests and responses and the worker's."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any
from urllib.parse import quote

from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy

from functions_local.protos import MESSAGES, TypedData

_SAME_SITE = {1: "Lax", 2: "Strict", 3: "None"}

#: Headers that belong to the connection: the server sets its own.
_CONNECTION_HEADERS = frozenset({"connection", "keep-alive", "transfer-encoding"})


#: Final statuses: below 200 the client would wait for another response.
_STATUSES = range(200, 1000)


def to_worker(request: web.BaseRequest, body: bytes, values: Mapping[str, str]) -> TypedData:
    """Make the worker's request: lower-case headers, route and non-empty query values, the whole body."""
    return TypedData(
        http=MESSAGES.RpcHttp(
            method=request.method,
            url=f"{request.scheme}://{request.host}{request.rel_url}",
            headers=_joined_headers(request.headers),
            params=values,
            query=_joined_query(request),
            body=TypedData(bytes=body) if body else TypedData(),
        )
    )


def to_client(method: str, value: TypedData | None) -> web.Response:
    """Make the response from a function's return value: a response, a text, or None (204).

    Raises ValueError for values that HTTP cannot transport: a status below 200, a lone surrogate.
    """
    if value is None:
        return web.Response(status=204)
    if value.kind == "http":
        return _response(method, value.value)
    if value.kind == "bytes":
        return web.Response(body=value.value, content_type="application/octet-stream")
    return web.Response(text=str(value.value))


def _response(method: str, answer: Any) -> web.Response:
    body = answer.body.value if answer.body is not None else b""
    headers = CIMultiDict({k: v for k, v in answer.headers.items() if k.lower() not in _CONNECTION_HEADERS})
    # For HEAD, the function sets the length of the absent body; otherwise the server counts the body.
    if method != "HEAD":
        headers.pop("content-length", None)
    for cookie in answer.cookies or ():
        headers.add("Set-Cookie", _cookie(cookie))
    status = int(answer.status_code)
    if status not in _STATUSES:
        raise ValueError(f"{status} is not the status of a response")
    return web.Response(status=status, headers=headers, body=body)


def _joined_headers(headers: CIMultiDictProxy[str]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, value in headers.items():
        key = name.lower()
        if key in joined:
            separator = "; " if key == "cookie" else ", "
            joined[key] = f"{joined[key]}{separator}{value}"
        else:
            joined[key] = value
    return joined


def _joined_query(request: web.BaseRequest) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, value in request.query.items():
        if value:
            joined[name] = f"{joined[name]},{value}" if name in joined else value
    return joined


def _cookie(cookie: Any) -> str:
    # ASP.NET Core, which writes the cookies in Azure, percent-encodes a cookie's value.
    parts = [f"{cookie.name}={quote(cookie.value, safe='')}"]
    if cookie.expires is not None:
        expires = datetime.fromtimestamp(cookie.expires.value.seconds, UTC)
        parts.append(f"expires={format_datetime(expires, usegmt=True)}")
    if cookie.max_age is not None:
        parts.append(f"max-age={cookie.max_age.value:.0f}")
    parts += [
        f"{name}={field.value}"
        for name in ("domain", "path")
        if (field := getattr(cookie, name)) and field.value
    ]
    parts += ["secure"] if cookie.secure and cookie.secure.value else []
    parts += [f"samesite={_SAME_SITE[cookie.same_site].lower()}"] if cookie.same_site else []
    parts += ["httponly"] if cookie.http_only and cookie.http_only.value else []
    return "; ".join(parts)
