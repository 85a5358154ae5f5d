"""How long something has stood as it is: by the time of the process alone, so that no wrong clock matters."""

from __future__ import annotations

import asyncio
from datetime import timedelta


class Watch:
    """Watches one value, as often as it is asked."""

    def __init__(self) -> None:
        self._value: object = None
        self._since = 0.0

    def seen_for(self, value: object) -> timedelta:
        """Tell for how long at least it has been this value."""
        now = asyncio.get_running_loop().time()
        if value != self._value:
            self._value, self._since = value, now
        return timedelta(seconds=now - self._since)
