"""When an Agent behind a queue replied last: how the Supervisor knows that somebody serves the queue."""

from __future__ import annotations

import logging
from datetime import datetime

from functions.pattern.errors import TransientError
from functions.pattern.ports import Ports
from functions.pattern.shared_rows import Occasion
from functions.pattern.silent_agents import NOTED_EVERY

_log = logging.getLogger(__name__)


class SignsOfLife:
    """Keeps the time of each Agent's last reply, to ten seconds."""

    def __init__(self, ports: Ports) -> None:
        self._times = ports.times
        self._clock = ports.clock
        self._noted: dict[str, datetime] = {}

    async def heard_of(self, agent: str) -> None:
        """Note that an Agent replied; a reply that is recorded is not put in question by a failure here."""
        now, noted = self._clock.now(), self._noted.get(agent)
        if noted is not None and now < noted + NOTED_EVERY:
            return
        self._noted[agent] = now
        try:
            await self._times.note(Occasion.REPLIED, agent, now, NOTED_EVERY)
        except TransientError as fault:
            del self._noted[agent]
            _log.warning("the time of Agent %s's reply is not noted: %s", agent, fault)
