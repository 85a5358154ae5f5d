"""The host's start before the app is loaded: early imports of modules, and waits for services.

An app that uses its services while it is imported, for example to create tables, can be started together with
them: meanwhile the host imports modules that do not need the services.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

_log = logging.getLogger(__name__)

_POLL = 0.02
#: Timeout in seconds of a connection attempt or an HTTP request.
_TRY = 5.0
#: Seconds of waiting after which the log names the address.
_LOG_AFTER = 5.0


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a service that must answer before the app is loaded: an HTTP URL or a TCP port."""

    text: str

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read `http://…`, `https://…` or `HOST:PORT`. Raises ValueError for any other text."""
        if not text.startswith(("http://", "https://")):
            host, _, port = text.rpartition(":")
            if not host or not port.isdecimal():
                raise ValueError(f"{text!r} is neither a URL (http://…) nor HOST:PORT")
        return cls(text)

    async def answers(self) -> bool:
        """Whether an HTTP request is answered, with any status, or the port accepts a connection."""
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_TRY):
                return await (self._request() if "://" in self.text else self._connect())
        return False

    async def _request(self) -> bool:
        url = urlsplit(self.text)
        secure = url.scheme == "https"
        port = url.port or (443 if secure else 80)
        reader, writer = await asyncio.open_connection(url.hostname, port, ssl=secure or None)
        try:
            writer.write(f"GET {url.path or '/'} HTTP/1.0\r\nHost: {url.netloc}\r\n\r\n".encode())
            return await reader.read(1) != b""
        finally:
            writer.close()

    async def _connect(self) -> bool:
        host, _, port = self.text.rpartition(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.close()
        return True


def preload(modules: Sequence[str]) -> None:
    """Import modules before the app. A failed import is only logged: the app imports the module again."""
    for name in modules:
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the module raises
            _log.warning("the module %s cannot be imported before the app: %r", name, error)


async def until_all_answer(addresses: Sequence[Address]) -> None:
    """Wait without a timeout until every address answers; log each address that delays the start."""
    await asyncio.gather(*map(_until_it_answers, addresses))


async def _until_it_answers(address: Address) -> None:
    waiting = asyncio.get_running_loop().call_later(_LOG_AFTER, _log.info, "waiting for %s", address.text)
    try:
        while not await address.answers():  # noqa: ASYNC110 - another process starts
            await asyncio.sleep(_POLL)
    finally:
        waiting.cancel()
