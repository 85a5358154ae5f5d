"""The timer that measures what waits: whether orders can be taken in, and how old queues are."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict
from datetime import datetime, timedelta

from functions.operations.alerts.alerts import Alerts
from functions.operations.alerts.queues import log_ages
from functions.pattern.crowds import SCHEDULERS
from functions.pattern.errors import TransientError
from functions.pattern.intake import IntakeLimits, measured
from functions.pattern.ports import Ports
from functions.pattern.shared_rows import Chore
from functions.supervisor.crowds import read_crowds

_log = logging.getLogger(__name__)


class Backlog:
    """Records how much waits before the intake, logs the ages of queues, and posts the summary of alerts."""

    def __init__(self, ports: Ports, limits: IntakeLimits, alerts: Alerts) -> None:
        self._alerts = alerts
        self._ports = ports
        self._limits = limits
        self._told_at: datetime | None = None

    async def run(self) -> None:
        """Measure once. What can't be measured is left as it was, and closes nothing before long."""
        try:
            await self._measure()
        except TransientError as fault:
            _log.warning("what waits to be taken in can't be measured: %s", fault)
        try:
            await self._alerts.post_summary()
        except TransientError as fault:
            _log.warning("the summary of alerts is not posted yet: %s", fault)
        now = self._ports.clock.now()
        # Alert rules look every five minutes; runs are not exactly so far apart.
        if self._told_at is None or now - self._told_at >= timedelta(minutes=5) - timedelta(seconds=5):
            self._told_at = now
            await log_ages(self._ports)

    async def _measure(self) -> None:
        line = await self._ports.line.look()
        crowds, now = read_crowds(await self._ports.heartbeats.latest(Chore.CROWDS)), self._ports.clock.now()
        late = sum(each.tasks for each in crowds if each.behind == SCHEDULERS and each.was_found_lately(now))
        intake = measured(line, late, now, self._limits)
        await self._ports.heartbeats.beat(Chore.INTAKE, asdict(intake))
        if intake.retry_after:
            facts = {name: value for name, value in asdict(intake).items() if name != "at"}
            _log.warning("orders are refused for now %s", json.dumps(facts))
