"""Requests go only where they may: not to a cloud's metadata, and in the clear to this machine alone."""

from __future__ import annotations

import socket
from collections.abc import Sequence

import aiohttp
import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.test_utils import TestServer
from pydantic import HttpUrl, TypeAdapter, ValidationError

from functions.http.destinations import CheckedResolver, http_session
from functions.settings import Destination

_READ: TypeAdapter[HttpUrl] = TypeAdapter(Destination)


@pytest.mark.parametrize(
    "address",
    [
        "https://pay.example.com/payments",
        "https://10.1.2.3/payments",
        "https://[fd00::1]/payments",
        "http://127.0.0.1:7071/api/services/payments",
        "http://[::1]:7071/payments",
        "http://localhost:7071/payments",
    ],
)
def test_services_and_this_machine_may_be_asked(address: str) -> None:
    """A virtual network's private addresses, too; without TLS only this machine."""
    assert str(_READ.validate_python(address)) == address


@pytest.mark.parametrize(
    "address",
    [
        "http://pay.example.com/payments",
        "http://10.1.2.3/payments",
        "http://169.254.169.254/metadata/instance",
        "https://169.254.169.254/metadata/instance",
        "https://[fe80::1]/",
        "https://[::ffff:169.254.169.254]/",
        "https://2852039166/",  # 169.254.169.254 as one number
        "https://0xa9fea9fe/",
        "https://168.63.129.16/",
        "http://168.63.129.16/machine",
        "https://0.0.0.0/",
        "https://[::]/",
        "https://224.0.0.1/",
        "https://240.0.0.1/",
        "https://user:secret@pay.example.com/",
        "ftp://pay.example.com/",
        "file:///etc/passwd",
        "//pay.example.com/",
    ],
)
def test_other_addresses_are_refused(address: str) -> None:
    """However they are written."""
    with pytest.raises(ValidationError):
        _READ.validate_python(address)


class Names(AbstractResolver):
    """Resolves every name to the same addresses."""

    def __init__(self, *addresses: str) -> None:
        self._addresses: Sequence[str] = addresses
        self.closed = False

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses."""
        flags = socket.AI_NUMERICHOST
        return [
            ResolveResult(hostname=host, host=each, port=port, family=family, proto=0, flags=flags)
            for each in self._addresses
        ]

    async def close(self) -> None:
        """Note that."""
        self.closed = True


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "fe80::1%eth0", "168.63.129.16", "127.0.0.1", "::1", "::ffff:127.0.0.1", "0.0.0.0"],  # noqa: S104 - an address to refuse
)
async def test_a_name_may_not_lead_there_either(address: str) -> None:
    """Not even as one of several addresses, of which the client would try all."""
    resolver = CheckedResolver(Names("93.184.216.34", address))
    with pytest.raises(OSError, match=r"pay\.example\.com resolves to an address to which"):
        await resolver.resolve("pay.example.com", 443)


@pytest.mark.parametrize("address", ["93.184.216.34", "10.0.0.4", "fd00::1"])
async def test_other_names_resolve(address: str) -> None:
    """As the system says, and the system's resolver is given back."""
    names = Names(address)
    resolver = CheckedResolver(names)
    assert [each["host"] for each in await resolver.resolve("pay.example.com", 443)] == [address]
    await resolver.close()
    assert names.closed


async def test_the_client_asks_for_each_connection() -> None:
    """A name that resolves to this machine is refused, while this machine by its own name is served."""
    app = web.Application()
    app.router.add_get("/", _answer)
    async with TestServer(app, host="127.0.0.1") as server:
        connector = aiohttp.TCPConnector(resolver=CheckedResolver(Names("127.0.0.1")))
        async with aiohttp.ClientSession(connector=connector) as session:
            async with session.get(f"http://localhost:{server.port}/") as answer:
                assert answer.status == 200
            with pytest.raises(aiohttp.ClientConnectorError):
                await session.get(f"http://rebound.example:{server.port}/")


async def test_the_applications_client_is_as_careful() -> None:
    """The one client that all Agents and alerts share."""
    async with http_session.__wrapped__() as session:
        assert isinstance(session.connector, aiohttp.TCPConnector)
        assert isinstance(session.connector._resolver, CheckedResolver)


async def _answer(_: web.Request) -> web.Response:
    return web.Response()
