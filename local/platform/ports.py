"""Ports for the parts: those asked for are checked before anything starts, the others are chosen.

The platform chooses every port itself, as an address must be known before its part starts (the payment
service's) and must stay the same when a part is started again.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict

from local.platform.errors import PlatformError, PortTakenError
from local.platform.options import Ports

_LOOPBACK = "127.0.0.1"
#: Below the ports that Linux (32768) and macOS (49152) give to outgoing connections, so that no client's
#: connection sits on a part's port while that part is down.
_CHOICE = range(20_000, 32_000)
_ATTEMPTS = 200
#: What each port is for, and the option of the command line that chooses it.
_PURPOSES = {
    "host": ("the Functions host", "--port"),
    "service_bus": ("the Service Bus broker", "--sb-port"),
    "admin": ("the broker's administration", "--admin-port"),
    "blob": ("Azurite's blobs", "--azurite-ports"),
    "queue": ("Azurite's queues", "--azurite-ports"),
    "table": ("Azurite's tables", "--azurite-ports"),
}


@contextmanager
def claimed(requested: Ports) -> Iterator[Ports]:
    """Give the ports to use, 0 replaced by free ones, which no other platform chooses until the block ends.

    Raises `PortTakenError` for a port that another program, or another part, has.
    """
    with ExitStack() as claims:
        with ExitStack() as listeners:
            chosen = {
                name: _check(name, port, listeners) if port else _choose(claims, listeners)
                for name, port in asdict(requested).items()
            }
        yield Ports(**chosen)


def _check(name: str, port: int, listeners: ExitStack) -> int:
    """Return `port`, and listen on it until all ports are known, so that none is given twice."""
    try:
        _listen(port, listeners)
    except OSError as error:
        purpose, option = _PURPOSES[name]
        raise PortTakenError(port, purpose, option, error.strerror or str(error)) from error
    return port


def _choose(claims: ExitStack, listeners: ExitStack) -> int:
    """Return a free port.

    Its claim is the UDP port of the same number, which nothing uses: it keeps platforms that start at the
    same moment from choosing the same port, and ends with this process whatever happens.
    """
    for port in random.sample(_CHOICE, _ATTEMPTS):
        with ExitStack() as attempt:
            try:
                claim = attempt.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                claim.bind((_LOOPBACK, port))
                _listen(port, listeners)
            except OSError:
                continue
            claims.push(attempt.pop_all())
            return port
    raise PlatformError(f"No free port between {_CHOICE.start} and {_CHOICE.stop}: {_ATTEMPTS} were tried.")


def _listen(port: int, listeners: ExitStack) -> None:
    listener = listeners.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
    # A port whose last connections are still in TIME_WAIT is free, as it is for the part that will have it.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((_LOOPBACK, port))
    listener.listen(1)
