"""How long the Agent is waited for: by what it has shown to need, and when it was away."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass

#: An Agent that runs replies to something, or settles, within so many times what it needed for one request,
#: or its lock, which is how long something that was lost stays away; and within so many seconds in any case.
_TIMES_ITS_NEED = 5
_TIMES_ITS_LOCK = 2
MOST_SECONDS = 300.0


@dataclass(slots=True)
class Patience:
    """Times are by the loop's clock, `lock` and `needs` in seconds.

    `needs` is what a request took when the Agent had no other. It was `killed` last, and `back`, then.
    """

    lock: float
    needs: float = 0.0
    killed: float = 0.0
    back: float = 0.0

    @property
    def seconds(self) -> float:
        """How long the Agent is waited for since it last showed that it is at work."""
        return min(max(_TIMES_ITS_LOCK * self.lock, _TIMES_ITS_NEED * self.needs), MOST_SECONDS)

    def ends(self, begun: float, heard: float, first_within: float | None = None) -> float:
        """Tell when the wait that was begun ends, if nothing else is heard; the first may be given more."""
        if first_within is not None and heard < begun:
            return begun + first_within
        return max(begun, heard, self.unlocked, self.back) + self.seconds

    @property
    def unlocked(self) -> float:
        """When what the Agent had in its hands, when it was killed, comes again at the latest."""
        return self.killed + self.lock

    def is_killed(self) -> None:
        """Note that the Agent is away, until it `is_back`."""
        self.killed, self.back = asyncio.get_running_loop().time(), math.inf

    def is_back(self) -> None:
        """Note that the Agent is there again, or not waited for any more."""
        self.back = asyncio.get_running_loop().time()
