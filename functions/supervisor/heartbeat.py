"""The Supervisor's sign of life."""

from __future__ import annotations

from typing import Protocol

from functions.supervisor.figures import Beat


class Heartbeat(Protocol):
    """Where the latest sweep leaves its figures, for operators and alert rules."""

    async def beat(self, beat: Beat) -> None:
        """Put the figures in the place of those of the sweep before. Raises `TransientError`."""
