"""Rows that can't be read: named in the log and alerted once, however often a sweep meets them."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import date, timedelta
from typing import Any

from functions.pattern.errors import UnreadableError
from functions.pattern.ports import Ports
from functions.pattern.shared_rows import Chore
from functions.supervisor.sweeping import Report

#: Rows that are kept in mind: they have to fit into one property. Beyond them, none is alerted any more.
_MOST = 1_500
_DIGEST_CHARACTERS = 16
#: Rows that an alert names.
_NAMED = 10
#: One that is met no more is forgotten, and alerted should it come back.
_FORGOTTEN_AFTER = timedelta(days=7)
_KNOWN = "known"

_log = logging.getLogger(__name__)

#: Alerts operators of so many rows that can't be read, of which it names some, with the reasons.
type AlertDamage = Callable[[int, Mapping[str, str]], Awaitable[None]]


class Damage:
    """What operators know of rows that can't be read; all instances share it."""

    def __init__(self, ports: Ports, alert: AlertDamage) -> None:
        self._heartbeats = ports.heartbeats
        self._clock = ports.clock
        self._alert = alert

    async def report(self, report: Report) -> None:
        """Log and alert what of a report is new. Two sweeps at once may both do it."""
        if not report.damage:
            return
        with report.surviving("rows that can't be read"):
            read = _known(await self._heartbeats.latest(Chore.DAMAGE))
            today = self._clock.now().date()
            known = {row: day for row, day in read.items() if today - day < _FORGOTTEN_AFTER}
            new = {key: each for key, each in report.damage.items() if _digest(key) not in known}
            told = dict(list(new.items())[: max(0, _MOST - len(known))])
            if told:
                await self._tell(told)
            kept = known | {_digest(key): today for key in report.damage if key in told or key not in new}
            if kept != read:
                days = {row: day.isoformat() for row, day in kept.items()}
                await self._heartbeats.beat(Chore.DAMAGE, {_KNOWN: json.dumps(days).encode()})

    async def _tell(self, rows: Mapping[str, UnreadableError]) -> None:
        for each in rows.values():
            _log.warning("%s; it is passed over until it is mended", each)
        named = {key: each.reason for key, each in list(rows.items())[:_NAMED]}
        await self._alert(len(rows), named)


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:_DIGEST_CHARACTERS]


def _known(row: Mapping[str, Any] | None) -> dict[str, date]:
    """Read the rows that operators know, each with the day when it was met last."""
    try:
        days = json.loads((row or {}).get(_KNOWN, "{}"))
        return {known: date.fromisoformat(day) for known, day in days.items()}
    except (ValueError, TypeError, AttributeError):
        return {}
