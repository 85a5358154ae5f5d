"""The course of a sweep through the shards: what one sweep does not come to, the next one begins with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

#: The figure of the heartbeat that holds what is left: places by shards, as JSON.
_LEFT = "left"


class Course:
    """Where one sweep begins in each shard, and how far it comes; what a place is, only the sweep knows.

    `latest` is the heartbeat of the sweep before.
    """

    def __init__(self, shards: int, latest: Mapping[str, Any] | None) -> None:
        left = _left_by(latest)
        begins = {shard: left[shard] for shard in left if shard < shards}
        others = (shard for shard in range(shards) if shard not in begins)
        self._untouched: dict[int, str | None] = begins | dict.fromkeys(others)
        self._touched: dict[int, str | None] = {}
        #: The shards in their turn.
        self.shards = tuple(self._untouched)
        #: Whether any shard could be read.
        self.read = False

    def begin(self, shard: int) -> str | None:
        """Tell where to begin in a shard."""
        self._touched[shard] = self._untouched.pop(shard)
        return self._touched[shard]

    def came_to(self, shard: int, place: str | None) -> str | None:
        """Keep in mind how far a shard is done, and give that; None is its end."""
        self.read = True
        self._touched[shard] = place
        if place is None:
            del self._touched[shard]
        return place

    def failed(self, shard: int) -> None:
        """Have a shard begun anew by the next sweep: what can't be read may be the place itself."""
        self._touched.pop(shard, None)

    @property
    def left(self) -> dict[int, str | None]:
        """Give what is left, as places by shards: first those shards that have had no turn."""
        return self._untouched | self._touched

    @property
    def unfinished(self) -> bool:
        """Tell whether there is more."""
        return bool(self.left)

    def figures(self) -> dict[str, bytes]:
        """Return what is left, for the heartbeat: bytes, since a text has half the room."""
        return {_LEFT: json.dumps(self.left).encode()}


def _left_by(latest: Mapping[str, Any] | None) -> dict[int, str | None]:
    """Read what a sweep has left; one whose heartbeat can't be read has left nothing."""
    try:
        left = json.loads((latest or {}).get(_LEFT, "{}"))
        return {int(shard): None if place is None else str(place) for shard, place in left.items()}
    except (ValueError, TypeError, AttributeError):
        return {}
