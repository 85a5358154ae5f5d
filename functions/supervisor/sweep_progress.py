"""The progress of sweeps: each has a unit for each partition of its parts, and continues at cursors.

All Supervisors share the rows of one partition: a heartbeat for each kind of sweep with the cursors, and the
corrupt rows that operators know. Times are UTC.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import date, datetime, timedelta

from pydantic import TypeAdapter

from functions.core.record import Message, MessageKind
from functions.storage.record_rows import decoded, joined, message_change, split
from functions.storage.table_contract import CorruptRowError, RowChange, Table, TransientStorageError, write

_log = logging.getLogger(__name__)

#: The partition of the rows of all Supervisors, and of their alerts.
SUPERVISOR = "supervisor"
#: The kinds of sweeps, which are the keys of their heartbeats.
TASK_SWEEP, FULL_SWEEP = "sweep", "full sweep"
_CORRUPT = "corrupt-rows"
#: Corrupt rows that the list keeps; further ones are logged and not alerted.
_MOST_KNOWN = 500
#: Corrupt rows that one alert names.
_MOST_NAMED = 10
#: Days after which a corrupt row that was not found again is alerted again.
_FORGOTTEN_AFTER = timedelta(days=7)
_MOST_TRIES = 5

#: Handles a page of rows of a partition after a cursor. It returns the next cursor, None at the end.
type Page = Callable[[str, str | None], Awaitable[str | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """The result of the last sweep of a kind, with the cursors of its unfinished units in `left`."""

    began_at: datetime
    ended_at: datetime
    figures: Mapping[str, int] = field(default_factory=dict)
    left: Mapping[str, str | None] = field(default_factory=dict)


_HEARTBEAT, _KNOWN = TypeAdapter(Heartbeat), TypeAdapter(dict[str, date])


@dataclass(slots=True)
class SweepReport:
    """The result of a sweep.

    `left` has the cursors of the units that are not at their end. `corrupt` is the reason by row key. `moved`
    counts tasks that were due later, `created` and `deleted` index rows, `purged` tasks and reservations.
    `late_seconds` is the longest time for which an examined task had been due.
    """

    began_at: datetime
    left: dict[str, str | None] = field(default_factory=dict)
    corrupt: dict[str, str] = field(default_factory=dict)
    examined: int = 0
    recovered: int = 0
    moved: int = 0
    resumed: int = 0
    sent: int = 0
    dropped: int = 0
    created: int = 0
    deleted: int = 0
    purged: int = 0
    failed: int = 0
    late_seconds: int = 0

    @property
    def figures(self) -> Mapping[str, int]:
        """Return the figures that are not zero."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        counts = {name: value for name, value in values.items() if isinstance(value, int)}
        return {name: count for name, count in {**counts, "corrupt": len(self.corrupt)}.items() if count}

    def add_corrupt(self, errors: Iterable[CorruptRowError]) -> None:
        """Add corrupt rows."""
        self.corrupt |= {error.row_key: error.reason for error in errors}

    def add_failure(self, what: str, error: Exception) -> None:
        """Count an error that ends the work on one task, message or page, but not the sweep."""
        if isinstance(error, CorruptRowError):
            self.add_corrupt([error])
            return
        self.failed += 1
        _log.warning("%s: %s: %s", what, type(error).__name__, error)


async def run_part(
    part: str, page: Page, report: SweepReport, *, at_once: int, is_over: Callable[[], bool]
) -> None:
    """Run the units of a part page by page, first those left over. A unit that fails keeps its cursor."""
    waiting = iter([name for name in report.left if name.startswith(f"{part} ")])

    async def work() -> None:
        for name in waiting:
            try:
                while not is_over():
                    cursor = await page(name.removeprefix(f"{part} "), report.left[name])
                    if cursor is None:
                        del report.left[name]
                        break
                    report.left[name] = cursor
            except Exception as error:  # noqa: BLE001 - the other units continue
                report.add_failure(name, error)

    await asyncio.gather(*(work() for _ in range(at_once)))


async def report_sweep(kind: str, sweep: Callable[[], Awaitable[SweepReport]]) -> None:
    """Sweep, and log one line, which alert rules use as a heartbeat. It raises nothing."""
    try:
        report = await sweep()
    except Exception:  # noqa: BLE001 - the next sweep tries again
        _log.exception("%s failed", kind)
        return
    is_bad = report.failed or report.left or report.corrupt
    _log.log(logging.WARNING if is_bad else logging.INFO, "%s %s", kind, json.dumps(dict(report.figures)))


class SupervisorRows:
    """The rows that all Supervisors share. Its methods raise `TransientStorageError`."""

    def __init__(self, table: Table, now: Callable[[], datetime]) -> None:
        self._table, self._now = table, now

    async def heartbeat(self, kind: str) -> Heartbeat | None:
        """Return the last heartbeat of a kind of sweep, None before the first. Raises `CorruptRowError`."""
        row = await self._table.read(SUPERVISOR, kind)
        if row is None:
            return None
        return decoded(kind, lambda: _HEARTBEAT.validate_json(joined(row, "Heartbeat") or ""))

    async def begin(self, kind: str, parts: Mapping[str, Iterable[str]]) -> SweepReport:
        """Return the report of a new sweep by part. Unfinished units of the last one are first."""
        left: Mapping[str, str | None] = {}
        try:
            heartbeat = await self.heartbeat(kind)
            left = {} if heartbeat is None else heartbeat.left
        except CorruptRowError as error:
            _log.warning("%s; the sweep starts at the beginning", error)
        units = [f"{part} {partition}" for part, partitions in parts.items() for partition in partitions]
        names = sorted(units, key=lambda name: name not in left)
        return SweepReport(self._now(), {name: left.get(name) for name in names})

    async def record(self, kind: str, report: SweepReport) -> None:
        """Write the heartbeat, and name the corrupt rows that operators do not know yet."""
        if report.corrupt:
            await self._name_corrupt(report.corrupt)
        heartbeat = Heartbeat(
            began_at=report.began_at, ended_at=self._now(), figures=report.figures, left=report.left
        )
        row = split("Heartbeat", _HEARTBEAT.dump_json(heartbeat).decode())
        await write(self._table, SUPERVISOR, [RowChange("upsert", kind, row)])

    async def _name_corrupt(self, corrupt: Mapping[str, str]) -> None:
        """Log and alert each corrupt row once, with the list of known rows in the same transaction."""
        today = self._now().date()
        for _ in range(_MOST_TRIES):
            row = await self._table.read(SUPERVISOR, _CORRUPT)
            listed = {} if row is None else _decode_known(row.get("Known"))
            known = {digest: day for digest, day in listed.items() if today - day < _FORGOTTEN_AFTER}
            new = {key: reason for key, reason in corrupt.items() if _digest(key) not in known}
            named = dict(list(new.items())[: max(0, _MOST_KNOWN - len(known))])
            found = {_digest(key) for key in corrupt if key in named or key not in new}
            after = known | dict.fromkeys(found, today)
            if len(new) > len(named):
                _log.warning("further corrupt rows are skipped: %s", ", ".join([*new][len(named) :]))
            if after == listed:
                return
            columns = {"Known": _KNOWN.dump_json(after).decode()}
            etag = "" if row is None else str(row["odata.etag"])
            changes = [RowChange("insert" if row is None else "update", _CORRUPT, columns, etag or "*")]
            changes += [message_change(_alert(named, self._now()))] if named else []
            if not await write(self._table, SUPERVISOR, changes):
                continue
            for key, reason in named.items():
                _log.warning("row %s is corrupt and is skipped: %s", key, reason)
            return
        raise TransientStorageError(f"list of corrupt rows: other instances changed it {_MOST_TRIES} times")


def _decode_known(text: object) -> dict[str, date]:
    try:
        return _KNOWN.validate_json(str(text))
    except ValueError:
        return {}


def _digest(row_key: str) -> str:
    return hashlib.sha256(row_key.encode()).hexdigest()[:16]


def _alert(named: Mapping[str, str], now: datetime) -> Message:
    """Return the alert of corrupt rows, which names the first ones."""
    rows = dict(list(named.items())[:_MOST_NAMED])
    reason = f"{len(named)} rows cannot be read or changed; they are skipped until they are repaired"
    body = {"cause": "corrupt rows", "reason": reason, "rows": rows}
    alert_id = f"corrupt.{_digest('|'.join(named))}.{now:%Y%m%d}"
    return Message(kind=MessageKind.ALERT, id=alert_id, task="", at=now, body=body)
