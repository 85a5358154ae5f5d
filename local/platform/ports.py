"""Ports for the parts: requested ones are checked before anything starts, the others are chosen.

The platform chooses them itself, not the parts: an address must be known before its part starts, and stay
the same when the part is started again.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict

from local.platform.options import PlatformPorts
from local.platform.parts import PlatformError, PortTakenError

_LOOPBACK = "127.0.0.1"
#: Below the ports that Linux (32768) and macOS (49152) use for outgoing connections, so that no client's
#: connection takes a part's port while the part is down.
_CHOICE = range(20_000, 32_000)
_ATTEMPTS = 200
#: The purpose of each port, and the command-line option that chooses it.
_PURPOSES = {
    "host": ("the Functions host", "--port"),
    "service_bus": ("the Service Bus broker", "--sb-port"),
    "admin": ("the broker's administration", "--admin-port"),
    "blob": ("Azurite's blobs", "--azurite-ports"),
    "queue": ("Azurite's queues", "--azurite-ports"),
    "table": ("Azurite's tables", "--azurite-ports"),
    "scheduler": ("the Scheduler's host", "--port"),
    "agents": ("the Agents' host", "--port"),
    "supervisor": ("the Supervisor's host, the port after --port", "--port"),
    **{f"host_{number}": (f"host {number}", "--port") for number in (2, 3, 4)},
}


@contextmanager
def claimed(requested: PlatformPorts) -> Iterator[PlatformPorts]:
    """Yield the ports, 0 replaced by free ones, which no other platform chooses until the block ends.

    Raises `PortTakenError` for a port that another program, or another part, uses.
    """
    with ExitStack() as claims:
        with ExitStack() as listeners:
            chosen = {
                name: _check(name, port, listeners) if port else _choose(claims, listeners)
                for name, port in asdict(requested).items()
                if port is not None
            }
        yield PlatformPorts(**chosen)


def _check(name: str, port: int, listeners: ExitStack) -> int:
    """Return `port`, and listen on it until all ports are known, so that none is used twice."""
    try:
        _listen(port, listeners)
    except OSError as error:
        purpose, option = _PURPOSES[name]
        raise PortTakenError(port, purpose, option, error.strerror or str(error)) from error
    return port


def _choose(claims: ExitStack, listeners: ExitStack) -> int:
    """Return a free port.

    It is claimed by the UDP port of the same number, which nothing uses: platforms that start at the same
    moment do not choose the same port, and the claim ends with this process whatever happens.
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
    # A port whose last connections are in TIME_WAIT counts as free, as it does for the part.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((_LOOPBACK, port))
    listener.listen(1)
