"""The gates of remote services and of Agents' queues in the state store.

All instances share the rows of one partition. An instance sees a gate as it was at most two seconds ago;
while the table cannot be read, it sees the latest rows that it has read. Times are UTC.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import Context
from dataclasses import replace
from datetime import datetime, timedelta
from math import inf
from typing import Any

from pydantic import TypeAdapter

from functions.core.deadline_rules import counts_as_failure
from functions.core.gate_rules import (
    Circuit,
    Gate,
    close_until_probe,
    count_overdue,
    end_hold,
    is_unreached,
    record_failure,
    record_lag,
    record_reply,
    record_success,
    start_hold,
)
from functions.core.record import Message, MessageKind, RuleSettings, StepType, TaskRecord
from functions.core.task_events import Due, OutcomeKind
from functions.storage.index_pages import every_page
from functions.storage.record_rows import decoded, message_change
from functions.storage.row_keys import ALL_TASKS, sortable
from functions.storage.table_contract import (
    CorruptRowError,
    Row,
    RowChange,
    StorageError,
    TransientStorageError,
    write,
)
from functions.storage.task_storage import TaskStorage

_log = logging.getLogger(__name__)
_GATE = TypeAdapter(Gate)

#: The age of an instance's view, after which it is read again.
_FRESH_SECONDS = 2
#: Age of an answered request from which the lag is recorded, by one instance once in `_FRESH_SECONDS`.
_LAG = timedelta(seconds=10)
#: A gate that opens again so soon has no further alert.
_ONE_ALERT = timedelta(minutes=1)
#: Tries to write a row that other instances change at the same time.
MOST_TRIES = 5
#: Sends message `link` of a gate's release chain, to be received at a time (UTC). It raises nothing, as the
#: Supervisor replaces a lost message.
type ScheduleRelease = Callable[[str, int, datetime], Coroutine[Any, Any, None]]
type GateChange = Callable[[Gate], Gate]
#: An overdue request: its start, its deadline and its start id.
type _Request = tuple[datetime, datetime, str]


class NoFreeSlotError(Exception):
    """All slots of a gate stayed in use until the deadline: the service was not called."""


class CallLimits:
    """Limits the calls that this instance has under way to the settings `calls_at_once`, by gate."""

    def __init__(self, calls_at_once: Mapping[str, int], now: Callable[[], datetime]) -> None:
        self._calls_at_once, self.now = calls_at_once, now
        self._slots: dict[str, tuple[int, asyncio.Semaphore]] = {}

    async def refresh(self) -> Mapping[str, Gate]:
        """Return all gates: none are known here."""
        return {}

    def _limit(self, name: str) -> int | None:
        return self._calls_at_once.get(name)

    @asynccontextmanager
    async def call(self, name: str, until: datetime) -> AsyncIterator[None]:
        """Limit the calls that this instance has under way to the limit of a gate.

        Raises `NoFreeSlotError` if no call may begin until a time (UTC). The outcome is then *not begun*, and
        is not reported: it says nothing about the service. A new limit counts calls that begin after it.
        """
        if self._limit(name) is None:
            yield
            return
        try:
            async with asyncio.timeout((until - self.now()).total_seconds()):
                slots = await self._slot(name)
        except TimeoutError:
            raise NoFreeSlotError(f"{self._limit(name)} calls of {name} were under way") from None
        try:
            yield
        finally:
            if slots is not None:
                slots.release()

    async def _slot(self, name: str) -> asyncio.Semaphore | None:
        """Return the semaphore of which one slot is taken, None without a limit."""
        while (limit := self._limit(name)) is not None:
            if name not in self._slots or self._slots[name][0] != limit:
                self._slots[name] = limit, asyncio.Semaphore(limit)
            slots = self._slots[name][1]
            await slots.acquire()
            if slots is self._slots[name][1] and limit == self._limit(name):
                return slots
            slots.release()  # the limit has changed: the next one that waits moves, too
        return None


class Gates(CallLimits):
    """Reads and changes gates. `GateReleases` releases the steps behind them."""

    #: The partition of the gates and of the alerts about them.
    partition = "gates"

    def __init__(
        self,
        storage: TaskStorage,
        *,
        settings: RuleSettings,
        now: Callable[[], datetime],
        schedule_release: ScheduleRelease,
        calls_at_once: Mapping[str, int] | None = None,
    ) -> None:
        """Without a limit in its row, a gate has that of `calls_at_once`."""
        super().__init__(calls_at_once or {}, now)
        self.storage = storage
        self.settings = settings
        self.schedule_release = schedule_release
        #: The corrupt rows of the latest read: the reason by row key.
        self.corrupt: Mapping[str, str] = {}
        self._view: dict[str, Gate] = {}
        #: Times of the event loop: the clock may be set back.
        self._read_at = self._tried_at = -inf
        self._reading = asyncio.Lock()
        self._changes = defaultdict[str, asyncio.Lock](asyncio.Lock)
        self._failures = Counter[str]()
        self._noted_at: dict[str, float] = {}
        self._sending = set[asyncio.Task[None]]()

    # The view of this instance

    def of(self, name: str) -> Gate | None:
        """Return a gate as this instance last read it; a gate without a row is open."""
        return self._view.get(name)

    def _limit(self, name: str) -> int | None:
        gate = self.of(name)
        if gate is not None and gate.calls_at_once is not None:
            return gate.calls_at_once
        return self._calls_at_once.get(name)

    async def due(self) -> Due:
        """Return the event that a time has passed, with the holds of all gates."""
        gates = await self.refresh()
        return Due(holds={name: gate.holds for name, gate in gates.items() if gate.holds})

    async def refresh(self, *, is_forced: bool = False) -> Mapping[str, Gate]:
        """Return all gates, and read them if they were not read in the last two seconds.

        A read that fails leaves the view as it is. With `is_forced` the gates are read now, and
        `TransientStorageError` is raised: without the holds, no deadline can be decided.
        """
        time = asyncio.get_running_loop().time
        asked_at = time()
        if not is_forced and asked_at - self._read_at < _FRESH_SECONDS:
            return self._view
        async with self._reading:
            is_outdated = is_forced and self._read_at < asked_at
            if is_outdated or time() - self._tried_at >= _FRESH_SECONDS:
                try:
                    async with asyncio.timeout(10 if is_forced else 2):
                        await self._read_all()
                except (TransientStorageError, TimeoutError) as error:
                    self._tried_at = time()  # those that waited for this read do not repeat it
                    if is_forced:
                        raise TransientStorageError(f"gates not read: {error}") from error
                    _log.warning("gates not read: %s", error)
        return self._view

    async def _read_all(self) -> None:
        self._tried_at = began_at = asyncio.get_running_loop().time()
        view: dict[str, Gate] = {}
        corrupt: dict[str, str] = {}
        async for page in every_page(self.storage.table, self.partition, ALL_TASKS):
            for row in page.rows:
                try:
                    gate = _gate_of(row)
                except CorruptRowError as error:
                    corrupt[error.row_key] = error.reason
                    known = self.of(error.row_key)  # the gate as it was, maybe with a hold
                    gate = known or Gate(name=error.row_key)
                view[gate.name] = gate
        self._view, self._read_at, self.corrupt = view, began_at, corrupt

    # Outcomes of calls, replies and overdue requests

    async def report(self, name: str, kind: OutcomeKind, began_at: datetime) -> None:
        """Count the outcome of a call that began at a time. It raises nothing.

        *Not begun* opens the circuit at once, and so does any failure while it is half-open; otherwise
        `open_after` failures in a row of this instance open it.
        """
        gate = self.of(name)
        if kind is OutcomeKind.UNKNOWN:
            self._failures[name] += 1
            is_probe = gate is not None and gate.circuit is Circuit.HALF_OPEN
            if not is_probe and self._failures[name] < self.settings.open_after:
                return
        if kind is not OutcomeKind.NOT_BEGUN:
            self._failures.pop(name, None)
        is_failure = kind in {OutcomeKind.UNKNOWN, OutcomeKind.NOT_BEGUN}

        def change(gate: Gate) -> Gate:
            if is_failure:
                return record_failure(gate, began_at, self.now(), self.settings)
            return record_success(gate, began_at)

        try:
            await self.change(name, change)
        except StorageError as error:
            _log.warning("gate %s: an outcome is not counted: %s", name, error)

    async def reply(self, name: str, sent_at: datetime | None, *, is_taken: bool) -> None:
        """Count a reply of an Agent behind a queue; healthy traffic writes nothing. It raises nothing.

        `sent_at` is the start of the request, None if it is no longer on record. `is_taken` is False for
        `not_taken`: the Agent serves, but with a lag.
        """
        await self.refresh()
        now = self.now()
        time = asyncio.get_running_loop().time()
        is_noted = time - self._noted_at.get(name, -inf) < _FRESH_SECONDS
        is_behind = sent_at is not None and now - sent_at > _LAG and not is_noted

        def change(gate: Gate) -> Gate:
            gate = record_reply(gate, sent_at if is_taken else None, now)
            if is_behind and sent_at is not None:
                gate = record_lag(gate, sent_at, now)
            return gate if is_taken else close_until_probe(gate, sent_at or now, now, self.settings)

        if is_behind:
            self._noted_at[name] = time
        try:
            known = self._view.get(name, Gate(name=name))
            is_probe = known.circuit is Circuit.OPEN and sent_at and sent_at > (known.changed_at or now)
            await self.change(name, change, is_outdated=bool(is_probe))
        except StorageError as error:
            _log.warning("gate %s: a reply is not counted: %s", name, error)

    async def judge(self, record: TaskRecord, *, may_recover: bool) -> Due:
        """Count one overdue request of a task for each queue: the first that its Agent had reached.

        Return the event by which they are decided, with the gates as they were before. So an absence of an
        Agent counts at most as many failures of tasks as open the circuit. Two Supervisors at once, or the
        repetition after a lost answer, may count a request twice. A gate that cannot be changed is left out.
        """
        now, settings, late = self.now(), self.settings, dict[str, list[_Request]]()
        for spec, operation in record.operations:
            may_count = spec.type is StepType.QUEUE and counts_as_failure(
                record, spec, may_recover=may_recover
            )
            if may_count and operation.is_overdue(now - settings.skew):
                times = (operation.started_at or now, operation.complete_by or now)
                late.setdefault(spec.gate, []).append((*times, operation.start_id or ""))
        judged, counted = dict[str, Gate](), set[str]()
        if late:
            await self.refresh()
        for name, requests in late.items():

            def chosen(gate: Gate, requests: Sequence[_Request] = sorted(requests)) -> _Request:
                reached = (each for each in requests if not is_unreached(gate, *each[:2], settings))
                return next(reached, requests[0])

            try:
                gate = await self.change(
                    name, lambda gate: count_overdue(gate, *chosen(gate)[:2], now, settings)
                )
            except StorageError as error:
                _log.warning("gate %s: an overdue request is not counted: %s", name, error)
            else:
                judged[name] = gate
                counted.add(chosen(gate)[2])
        return replace(await self.due(), may_recover=may_recover, queues=judged, counted=counted)

    # Operators

    async def hold(self, name: str, reason: str, who: str) -> None:
        """Close a gate until the operator ends the hold. Operators' actions raise `TransientStorageError`.

        An operator's action replaces a corrupt row.
        """
        await self.change(name, lambda gate: start_hold(gate, reason, who, self.now()), is_operator=True)

    async def end_hold(self, name: str, since: datetime | None = None) -> None:
        """End an operator's hold, or only that of `since`, and start the release of the steps behind it."""
        await self.change(name, lambda gate: end_hold(gate, self.now(), since), is_operator=True)

    async def set_calls_at_once(self, name: str, limit: int | None) -> None:
        """Set the largest number of calls that one instance has under way, at least 1; None: no limit."""

        def change(gate: Gate) -> Gate:
            after = replace(gate, calls_at_once=None if limit is None else max(1, limit))
            return gate if after == gate else after

        await self.change(name, change, is_operator=True)

    # Rows

    async def read(self, name: str) -> tuple[Gate, str | None]:
        """Return a gate and the ETag of its row, None without a row. Raises `CorruptRowError`."""
        row = await self.storage.table.read(self.partition, name)
        return (Gate(name=name), None) if row is None else (_gate_of(row), str(row["odata.etag"]))

    async def change(
        self, name: str, change: GateChange, *, is_operator: bool = False, is_outdated: bool = False
    ) -> Gate:
        """Change a gate by compare-and-swap, and send the message of its release chain. Return it as it was.

        Nothing is read if the change would not alter the gate as this instance sees it, except for operators
        and if that view `is_outdated`. Raises `StorageError`.
        """
        before, after = await self._changed(name, change, is_operator=is_operator, is_outdated=is_outdated)
        if after.link != before.link and after.next_at is not None:
            # A slow message delays no outcome of a call.
            work = self.schedule_release(name, after.link, after.next_at)
            sending = asyncio.create_task(work, context=Context())
            self._sending.add(sending)
            sending.add_done_callback(self._sending.discard)
        return before

    async def _changed(
        self, name: str, change: GateChange, *, is_operator: bool, is_outdated: bool
    ) -> tuple[Gate, Gate]:
        """Return a gate before and after a change."""
        async with self._changes[name]:  # the instance does not compete with itself
            known = self._view.get(name, Gate(name=name))
            if not is_operator and not is_outdated and change(known) is known:
                return known, known
            for _ in range(MOST_TRIES):
                try:
                    gate, etag = await self.read(name)
                    after = change(gate)
                except CorruptRowError:
                    if not is_operator:
                        raise
                    gate, etag = known, "*"
                    after = replace(change(gate), link=gate.link + 1)
                if after is gate:
                    self._view[name] = gate
                    return gate, gate
                if await self.write(gate, after, etag):
                    return gate, after
        raise TransientStorageError(f"gate {name}: other instances changed it {MOST_TRIES} times")

    async def write(self, gate: Gate, after: Gate, etag: str | None) -> bool:
        """Write a gate's row with the alert of an opening; return False if another instance was first."""
        row = {"Circuit": str(after.circuit), "Gate": _GATE.dump_json(after, exclude_defaults=True).decode()}
        insert = RowChange("insert", after.name, row)
        changes = [insert if etag is None else RowChange("update", after.name, row, etag)]
        changes += [message_change(alert) for alert in _alerts(gate, after)]
        is_written = await write(self.storage.table, self.partition, changes)
        if is_written:
            self._view[after.name] = after
        return is_written


def _gate_of(row: Row) -> Gate:
    """Return a gate from its row. Raises `CorruptRowError`."""
    key = str(row["RowKey"])

    def decode() -> Gate:
        gate = _GATE.validate_json(row["Gate"])
        if gate.name != key:
            raise ValueError("it is of another gate")
        return gate

    return decoded(key, decode)


def _alerts(gate: Gate, after: Gate) -> list[Message]:
    """Return the alert of a circuit that opens: one for each absence of a service, none for its probes."""
    since, previous = after.away_from, gate.away_from
    if since is None or (previous is not None and timedelta() <= since - previous < _ONE_ALERT):
        return []
    body = {
        "cause": "gate closed",
        "gate": after.name,
        "reason": f"the gate of {after.name} has closed: its steps are deferred until a call succeeds",
    }
    alert_id = f"{after.name}.{sortable(since)}"
    return [Message(kind=MessageKind.ALERT, id=alert_id, task="", at=since, body=body)]
