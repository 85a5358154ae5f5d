"""Checks of the addresses to which the application sends requests. Settings name the addresses.

Link-local addresses are refused: clouds return credentials there (169.254.169.254). Only `localhost` and
loopback addresses reach this machine. Requests to other machines need TLS. Other private addresses are
allowed, because services in a virtual network have them.
"""

from __future__ import annotations

import logging
import socket
from contextlib import suppress
from functools import cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

from aiohttp import ClientSession, DummyCookieJar, TCPConnector, TraceConfig
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import DefaultResolver
from pydantic import HttpUrl

type Address = IPv4Address | IPv6Address

_THIS_MACHINE = "localhost"

_log = logging.getLogger(__name__)


def check_destination(url: HttpUrl) -> HttpUrl:
    """Check an address of a setting. Raises `ValueError`."""
    host = (url.host or "").strip("[]")
    literal = None
    with suppress(ValueError):
        literal = ip_address(host)
    here = host == _THIS_MACHINE or (literal is not None and literal.is_loopback)
    if literal is not None and not _may_be_reached(literal, here=here):
        raise ValueError("requests to this address are not allowed")
    if url.scheme != "https" and not here:
        raise ValueError("it must be https, unless it is on this machine")
    if url.username or url.password:
        raise ValueError("it must not contain a name or a password")
    return url


class CheckedResolver(AbstractResolver):
    """Resolves a name for every connection, and refuses addresses that are not allowed."""

    def __init__(self, names: AbstractResolver | None = None) -> None:
        """Use the resolver `names`, by default that of the system. Needs a running event loop."""
        self._names = names or DefaultResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of a name. Raises `OSError` when one of them may not be reached."""
        found = await self._names.resolve(host, port, family)
        for each in found:
            address = ip_address(each["host"].partition("%")[0])
            if not _may_be_reached(address, here=host == _THIS_MACHINE):
                _log.error("%s resolves to %s: requests to this address are not allowed", host, address)
                raise OSError(f"{host} resolves to an address to which requests are not allowed")
        return found

    async def close(self) -> None:
        """Close the inner resolver."""
        await self._names.close()


def _may_be_reached(address: Address, *, here: bool) -> bool:
    plain = (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
    if plain.is_loopback:
        return here
    # The service of Azure that configures virtual machines has a public address.
    if plain == IPv4Address("168.63.129.16"):
        return False
    return not (plain.is_link_local or plain.is_multicast or plain.is_unspecified or plain.is_reserved)


class _SentTrace(TraceConfig):
    """Calls the function `trace_request_ctx` of a request before its first byte is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.on_request_headers_sent.append(self._mark)

    @staticmethod
    async def _mark(_session: ClientSession, context: Any, _headers: Any) -> None:
        if context.trace_request_ctx is not None:
            context.trace_request_ctx()


def is_traced(session: ClientSession) -> bool:
    """Return whether a session calls `trace_request_ctx`."""
    return any(isinstance(each, _SentTrace) for each in session.trace_configs)


def new_session(connector: TCPConnector) -> ClientSession:
    """Return a client without cookies: a cookie of one task would be sent for other tasks."""
    return ClientSession(connector=connector, cookie_jar=DummyCookieJar(), trace_configs=[_SentTrace()])


@cache
def http_session() -> ClientSession:
    """Return the HTTP client of this process. The first call needs a running event loop."""
    return new_session(_connector())


@cache
def once_session() -> ClientSession:
    """Return the HTTP client of requests that are sent once. Each request has its own connection."""
    return new_session(_connector(force_close=True))


def _connector(*, force_close: bool = False) -> TCPConnector:
    return TCPConnector(limit=0, limit_per_host=200, resolver=CheckedResolver(), force_close=force_close)
