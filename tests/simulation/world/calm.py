"""The fates of requests when nothing goes wrong."""

from __future__ import annotations

from random import Random

from tests.simulation.world.fate import Fate, Place


class CalmFates:
    """Requests take some time, and nothing else."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance

    def of(self, host: str, place: Place, what: str) -> Fate:  # noqa: ARG002 - all are treated alike
        """Give each way some milliseconds."""
        return Fate(self._chance.uniform(0.0005, 0.02), self._chance.uniform(0.0005, 0.02))
