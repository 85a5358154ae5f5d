"""Closes idle links and connections without links, as Service Bus does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import monotonic
from typing import Protocol

from servicebus_local.amqp.channel import Channel

#: Seconds without a frame after which a link is idle.
LINK_SECONDS = 600.0
#: Seconds without a link after which a connection is idle: after its last link, and if it had none.
WITHOUT_LINKS_SECONDS, NEVER_LINKED_SECONDS = 300.0, 60.0
#: Seconds between two checks.
_LOOK_SECONDS = 5.0


class WatchedConnection(Protocol):
    """The part of a connection that the watch uses."""

    had_link: bool

    @property
    def channels(self) -> Sequence[Channel]:
        """The open sessions."""

    def shut_down(self, condition: str, text: str) -> None:
        """Close the connection with an error."""


class IdleWatch:
    """Checks at intervals whether a connection and its links are idle, until it is stopped."""

    def __init__(self, connection: WatchedConnection) -> None:
        self._connection = connection
        self._linked_at = monotonic()
        self._next_look = self._later()

    def stop(self) -> None:
        """Stop the checks."""
        self._next_look.cancel()

    def _later(self) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._look)

    def _look(self) -> None:
        self._next_look = self._later()
        now = monotonic()
        links = [link for channel in self._connection.channels for link in channel.links]
        for link in links:
            if link.ends_when_unused and now - link.used_at >= LINK_SECONDS:
                text = f"The link was not used for {LINK_SECONDS:.0f} seconds."
                link.channel.detach(link, "amqp:link:detach-forced", text)
        if links:
            self._linked_at = now
        limit = WITHOUT_LINKS_SECONDS if self._connection.had_link else NEVER_LINKED_SECONDS
        if now - self._linked_at >= limit:
            text = f"The connection had no link for {limit:.0f} seconds."
            self._connection.shut_down("amqp:connection:forced", text)
