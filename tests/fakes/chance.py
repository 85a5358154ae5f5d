"""A random source with a known result."""

from __future__ import annotations

from random import Random


class Least(Random):
    """Always returns the lowest value, so that waits are shortest."""

    def random(self) -> float:
        """Return the lowest number that can be drawn."""
        return 0.0


def seeded(seed: int) -> Random:
    """Create a random source that gives the same each time."""
    return Random(seed)  # noqa: S311 - a test's
