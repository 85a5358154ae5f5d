"""Chance that leaves nothing to chance."""

from __future__ import annotations

from random import Random


class Least(Random):
    """Draws the least each time: of waits, the shortest."""

    def random(self) -> float:
        """Give the least number that there is to draw."""
        return 0.0
