"""Where the application may send requests to; addresses come from settings, and are checked nevertheless.

Link-local addresses are always refused: there, clouds hand out credentials (169.254.169.254). This machine
is reached only where the setting names it, and every other one only through TLS. Other private addresses
are allowed: services in a virtual network have them.
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
        raise ValueError("requests may not go to this address")
    if url.scheme != "https" and not here:
        raise ValueError("it must be https, unless it is on this machine")
    if url.username or url.password:
        raise ValueError("it may hold no name or password")
    return url


class CheckedResolver(AbstractResolver):
    """Resolves a name for every connection, and refuses addresses that requests may not go to."""

    def __init__(self, names: AbstractResolver | None = None) -> None:
        """Ask `names`, or else the system. Needs a running event loop."""
        self._names = names or DefaultResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of a name. Raises `OSError` when one of them may not be reached."""
        found = await self._names.resolve(host, port, family)
        for each in found:
            address = ip_address(each["host"].partition("%")[0])
            if not _may_be_reached(address, here=host == _THIS_MACHINE):
                _log.error("%s resolves to %s, where requests may not go", host, address)
                raise OSError(f"{host} resolves to where requests may not go")
        return found

    async def close(self) -> None:
        """Close the resolver that it asks."""
        await self._names.close()


def _may_be_reached(address: Address, *, here: bool) -> bool:
    plain = (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
    if plain.is_loopback:
        return here
    # Azure's own service for virtual machines' configuration, at a public address.
    if plain == IPv4Address("168.63.129.16"):
        return False
    return not (plain.is_link_local or plain.is_multicast or plain.is_unspecified or plain.is_reserved)


class _SentTrace(TraceConfig):
    """Calls the `trace_request_ctx` of a request, a function, before its first byte is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.on_request_headers_sent.append(self._mark)

    @staticmethod
    async def _mark(_session: ClientSession, context: Any, _headers: Any) -> None:
        if context.trace_request_ctx is not None:
            context.trace_request_ctx()


def is_traced(session: ClientSession) -> bool:
    """Return whether a session says when a request leaves."""
    return any(isinstance(each, _SentTrace) for each in session.trace_configs)


def new_session(connector: TCPConnector) -> ClientSession:
    """Return a client without cookies, which would be sent with the requests of all other tasks."""
    return ClientSession(connector=connector, cookie_jar=DummyCookieJar(), trace_configs=[_SentTrace()])


@cache
def http_session() -> ClientSession:
    """Open the HTTP client at its first use, when there is an event loop; it lives as long as the process."""
    return new_session(_connector())


@cache
def once_session() -> ClientSession:
    """Open the HTTP client of requests that are sent once: each has a connection of its own."""
    return new_session(_connector(force_close=True))


def _connector(*, force_close: bool = False) -> TCPConnector:
    return TCPConnector(limit=0, limit_per_host=200, resolver=CheckedResolver(), force_close=force_close)
