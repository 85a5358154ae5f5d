"""Times that instances share, and alerts of refused replies, in memory."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from functions.pattern.errors import TransientError
from functions.pattern.rejected import About
from functions.pattern.shared_rows import Occasion
from functions.pattern.silent_agents import SilentAgent


class MemoryTimes:
    """Keeps times; fails while `failing`."""

    def __init__(self) -> None:
        self.kept: dict[tuple[Occasion, str], datetime] = {}
        self.failing = False
        self.asked = 0

    async def note(self, occasion: Occasion, name: str, now: datetime, every: timedelta) -> bool:
        """Keep a time, unless there is a late one."""
        self.asked += 1
        if self.failing:
            raise TransientError("no store")
        before = self.kept.get((occasion, name))
        if before is not None and now < before + every:
            return False
        self.kept[occasion, name] = now
        return True

    async def latest(self, occasion: Occasion) -> Mapping[str, datetime]:
        """Give those of an occasion."""
        return {name: at for (kept, name), at in self.kept.items() if kept is occasion}


class RecordedRefusals:
    """Records the alerts of refused replies."""

    def __init__(self) -> None:
        self.alerts: list[tuple[About, str]] = []

    async def alert(self, about: About, reason: str) -> None:
        """Record the alert."""
        self.alerts.append((about, reason))


class RecordedSilences:
    """Records the alerts of silent Agents, and of those that reply again."""

    def __init__(self) -> None:
        self.begun: list[SilentAgent] = []
        self.ended: list[SilentAgent] = []

    async def alert(self, silent: SilentAgent, ended: bool) -> None:  # noqa: FBT001 - the port's
        """Record the alert."""
        (self.ended if ended else self.begun).append(silent)
