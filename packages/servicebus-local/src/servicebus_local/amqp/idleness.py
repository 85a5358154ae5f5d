"""Ends what is not used, as Service Bus does: links, and connections without links."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import monotonic
from typing import Protocol

from servicebus_local.amqp.channel import Channel

#: In seconds. Longest time that nothing comes or goes on a link.
LINK_SECONDS = 600.0
#: Longest time without a link, after the last one and when there was none yet.
WITHOUT_LINKS_SECONDS, NEVER_LINKED_SECONDS = 300.0, 60.0
#: Time between two looks.
_LOOK_SECONDS = 5.0


class WatchedConnection(Protocol):
    """A connection, as far as its use is concerned."""

    had_link: bool

    @property
    def channels(self) -> Sequence[Channel]:
        """The open sessions."""

    def shut_down(self, condition: str, text: str) -> None:
        """Close the connection with an error."""


class IdleWatch:
    """Looks now and then what a connection uses, until it is stopped."""

    def __init__(self, connection: WatchedConnection) -> None:
        self._connection = connection
        self._linked_at = monotonic()
        self._next_look = self._later()

    def stop(self) -> None:
        """Look no more."""
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
