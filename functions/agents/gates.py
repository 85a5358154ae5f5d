"""The gates of remote services and of Agents' queues in the state store, and their release chains.

All instances share the rows of one partition. An instance sees a gate as it was at most two seconds ago;
while the table cannot be read, it sees the latest rows that it has read. Times are UTC.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from pydantic import TypeAdapter

from functions.core.gate_rules import (
    Circuit,
    Gate,
    end_hold,
    failed,
    next_link,
    not_taken,
    overdue,
    replied,
    served,
    start_hold,
    succeeded,
)
from functions.core.record import Message, MessageKind, RuleSettings, StepType, TaskRecord
from functions.core.task_events import GateReleased, OutcomeKind
from functions.storage.record_rows import decoded, message_change
from functions.storage.row_keys import ALL_TASKS, TaskIndex, index_range, shard_name, sortable
from functions.storage.table_contract import (
    KEYS,
    CorruptRowError,
    RefusedChanges,
    Row,
    RowChange,
    RowQuery,
    StorageError,
    TransientStorageError,
    every_page,
)
from functions.storage.task_storage import TaskStorage

_log = logging.getLogger(__name__)
_GATE = TypeAdapter(Gate)

#: The age of an instance's view, after which it is read again.
_FRESH = timedelta(seconds=2)
#: Seconds for which a call and a sweep wait for a read.
_READ_SECONDS, _FORCED_READ_SECONDS = 2, 10
#: Age of an answered request from which the lag is recorded, by one instance once in `_FRESH`.
_LAG = timedelta(seconds=10)
#: A gate that opens again so soon has no further alert.
_ONE_ALERT = timedelta(minutes=1)
#: Tries to write a row that other instances change at the same time.
_MOST_TRIES = 5
#: Time after which the message of a release chain counts as lost, and a shorter one for its releases.
_LOST_AFTER, _RELEASE_TIME = timedelta(seconds=15), timedelta(seconds=10)
_RELEASES_AT_ONCE = 50
#: Time for which a task that could not be released is passed over.
_PASSED_OVER = timedelta(minutes=10)

#: Sends message `link` of a gate's release chain, to be received at a time (UTC). It raises nothing, as the
#: Supervisor replaces a lost message.
ScheduleRelease = Callable[[str, int, datetime], Awaitable[None]]
type _GateChange = Callable[[Gate], Gate]


class NoFreeSlotError(Exception):
    """No call of a gate ended in time, so that another one could begin: the service was not called."""


@dataclass(frozen=True, slots=True, order=True)
class _Waiting:
    """An index row of a task that waits behind a gate since a time (sortable text)."""

    since: str
    task: str
    steps: int
    shard: str
    key: str


class Gates:
    """Reads and changes gates, and releases the steps behind them."""

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
        self._storage, self._table = storage, storage.table
        self._settings = settings
        self._now = now
        self._schedule = schedule_release
        self._calls_at_once = calls_at_once or {}
        #: The corrupt rows of the latest read: the reason by row key.
        self.corrupt: Mapping[str, str] = {}
        self._view: dict[str, Gate] = {}
        self._read_at: datetime | None = None
        self._tried_at: datetime | None = None
        self._reading = asyncio.Lock()
        self._changes = defaultdict[str, asyncio.Lock](asyncio.Lock)
        self._failures = Counter[str]()
        self._noted_at: dict[str, datetime] = {}
        self._slots: dict[str, tuple[int, asyncio.Semaphore]] = {}
        self._passed_over: dict[str, datetime] = {}

    # The view of this instance

    def of(self, name: str) -> Gate | None:
        """Return a gate as this instance last read it; a gate without a row is open."""
        return self._view.get(name)

    async def refresh(self, *, is_forced: bool = False) -> Mapping[str, Gate]:
        """Return all gates, and read them if they were not read in the last two seconds.

        A read that fails leaves the view as it is. With `is_forced` the gates are read now, and
        `TransientStorageError` is raised: without the holds, no deadline can be decided.
        """
        asked_at = self._now()
        async with self._reading:
            is_outdated = is_forced and (self._read_at is None or self._read_at < asked_at)
            if is_outdated or self._tried_at is None or self._now() - self._tried_at >= _FRESH:
                try:
                    async with asyncio.timeout(_FORCED_READ_SECONDS if is_forced else _READ_SECONDS):
                        await self._read_all()
                except (TransientStorageError, TimeoutError) as error:
                    if is_forced:
                        raise TransientStorageError(f"gates not read: {error}") from error
                    _log.warning("gates not read: %s", error)
        return self._view

    async def _read_all(self) -> None:
        self._tried_at = began_at = self._now()
        view: dict[str, Gate] = {}
        corrupt: dict[str, str] = {}
        async for page in every_page(self._table, self.partition, ALL_TASKS):
            for row in page.rows:
                try:
                    gate = _gate_of(row)
                except CorruptRowError as error:
                    corrupt[error.row_key] = error.reason
                    known = self.of(error.row_key)  # the gate as it was, maybe with a hold
                    gate = known or Gate(name=error.row_key)
                view[gate.name] = gate
        self._view, self._read_at, self.corrupt = view, began_at, corrupt

    @asynccontextmanager
    async def call(self, name: str, until: datetime) -> AsyncIterator[None]:
        """Limit the calls that this instance has under way to the gate's `calls_at_once`.

        Raises `NoFreeSlotError` if no call may begin until a time (UTC). The outcome is then *not begun*, and
        is not reported: it says nothing about the service. A new limit counts calls that begin after it.
        """
        gate = self.of(name)
        limit = (gate and gate.calls_at_once) or self._calls_at_once.get(name)
        if limit is None:
            yield
            return
        if name not in self._slots or self._slots[name][0] != limit:
            self._slots[name] = limit, asyncio.Semaphore(limit)
        slots = self._slots[name][1]
        try:
            async with asyncio.timeout((until - self._now()).total_seconds()):
                await slots.acquire()
        except TimeoutError:
            raise NoFreeSlotError(f"{limit} calls of {name} were under way") from None
        try:
            yield
        finally:
            slots.release()

    # Outcomes of calls, replies, and requests without a reply

    async def report(self, name: str, kind: OutcomeKind, began_at: datetime) -> None:
        """Count the outcome of a call that began at a time. It raises nothing.

        *Not begun* opens the circuit at once, and so does any failure while it is half-open; otherwise
        `open_after` failures in a row of this instance open it.
        """
        gate = self.of(name)
        if kind is OutcomeKind.UNKNOWN:
            self._failures[name] += 1
            is_probe = gate is not None and gate.circuit is Circuit.HALF_OPEN
            if not is_probe and self._failures[name] < self._settings.open_after:
                return
        if kind is not OutcomeKind.NOT_BEGUN:
            self._failures.pop(name, None)
        is_failure = kind in {OutcomeKind.UNKNOWN, OutcomeKind.NOT_BEGUN}

        def change(gate: Gate) -> Gate:
            if is_failure:
                return failed(gate, began_at, self._now(), self._settings)
            return succeeded(gate, began_at)

        try:
            await self._change(name, change)
        except StorageError as error:
            _log.warning("gate %s: an outcome is not counted: %s", name, error)

    async def reply(self, name: str, sent_at: datetime | None, *, is_taken: bool) -> None:
        """Count a reply of an Agent behind a queue; healthy traffic writes nothing. It raises nothing.

        `sent_at` is the start of the request, None if it is no longer on record. `is_taken` is False for
        `not_taken`: the Agent serves, but with a lag.
        """
        now = self._now()
        is_noted = name in self._noted_at and now - self._noted_at[name] < _FRESH
        is_behind = sent_at is not None and now - sent_at > _LAG and not is_noted

        def change(gate: Gate) -> Gate:
            gate = replied(gate, sent_at if is_taken else None, now)
            if is_behind and sent_at is not None:
                gate = served(gate, sent_at, now)
            return gate if is_taken else not_taken(gate, sent_at or now, now, self._settings)

        if is_behind:
            self._noted_at[name] = now
        try:
            await self._change(name, change)
        except StorageError as error:
            _log.warning("gate %s: a reply is not counted: %s", name, error)

    async def judge(self, record: TaskRecord, *, may_recover: bool) -> Mapping[str, Gate]:
        """Count the overdue requests of a task at their queues' gates; return the gates as they were before.

        `Due` decides by these gates, so an absence of an Agent counts at most as many failures of tasks as
        open the circuit. A gate that cannot be changed is left out, and its requests are not decided.
        """
        now = self._now()
        oldest: dict[str, tuple[datetime, datetime]] = {}
        for spec, operation in record.operations():
            may_count = spec.may_fail or (may_recover and record.decision is None)
            is_counted = spec.type is StepType.QUEUE and not spec.must_not_repeat(record.direction)
            sent_at, ends_at = operation.started_at, operation.complete_by
            if not (is_counted and may_count and operation.is_overdue(now - self._settings.skew)):
                continue
            if sent_at is not None and ends_at is not None:
                request = (sent_at, ends_at)
                oldest[spec.gate] = min(oldest.get(spec.gate, request), request)
        judged: dict[str, Gate] = {}
        if oldest:
            await self.refresh()
        for name, (sent_at, ends_at) in oldest.items():
            try:
                judged[name] = await self._count_overdue(name, sent_at, ends_at, now)
            except StorageError as error:
                _log.warning("gate %s: an overdue request is not counted: %s", name, error)
        return judged

    async def _count_overdue(self, name: str, sent_at: datetime, ends_at: datetime, now: datetime) -> Gate:
        seen = Gate(name=name)

        def change(gate: Gate) -> Gate:
            nonlocal seen
            seen = gate
            return overdue(gate, sent_at, ends_at, now, self._settings)

        await self._change(name, change)
        return seen

    # Operators

    async def hold(self, name: str, reason: str, who: str) -> None:
        """Close a gate until the operator ends the hold. Operators' actions raise `TransientStorageError`.

        An operator's action replaces a corrupt row.
        """
        await self._change(name, lambda gate: start_hold(gate, reason, who, self._now()), is_operator=True)

    async def end_hold(self, name: str) -> None:
        """End an operator's hold, and start the release of the steps behind the gate."""
        await self._change(name, lambda gate: end_hold(gate, self._now()), is_operator=True)

    async def set_limit(self, name: str, limit: int) -> None:
        """Set the largest number of steps that one interval releases, at least 1."""
        await self._set(name, limit=max(1, limit))

    async def set_calls_at_once(self, name: str, limit: int | None) -> None:
        """Set the largest number of calls that one instance has under way, at least 1; None: no limit."""
        await self._set(name, calls_at_once=None if limit is None else max(1, limit))

    async def _set(self, name: str, **fields: int | None) -> None:
        def change(gate: Gate) -> Gate:
            after = replace(gate, **fields)  # type: ignore[arg-type]
            return gate if after == gate else after

        await self._change(name, change, is_operator=True)

    # The release chain

    async def release(self, name: str, link: int) -> None:
        """Handle message `link` of a release chain: release the steps that wait longest, send the next one.

        A repeated message has no effect. Raises `StorageError`: the message must be delivered again.
        """
        for _ in range(_MOST_TRIES):
            now = self._now()
            gate, etag = await self._read(name)
            if gate.link != link or gate.hold is not None:
                return
            if gate.circuit is Circuit.OPEN and gate.next_at is not None and now < gate.next_at:
                await self._schedule(name, link, gate.next_at + self._settings.skew)  # this clock is behind
                return
            after = next_link(gate, now, self._settings, is_waiting=True)
            beyond: dict[str, str] = {}
            oldest = await self._oldest(name, after.amount, beyond)
            if not oldest:
                after = next_link(gate, now, self._settings, is_waiting=False)
            if await self._write(gate, after, etag):
                break
        else:
            raise _too_many_changes(name)
        left = after.amount
        while oldest and left > 0:
            left -= await self._release_steps(gate, oldest, left)
            is_over = self._now() >= now + _RELEASE_TIME
            oldest = await self._oldest(name, left, beyond) if left > 0 and not is_over else []
        if after.next_at is not None:
            await self._schedule(name, after.link, after.next_at)

    async def start_missing_chains(self) -> None:
        """Start the release chain of each gate behind which steps wait, if its message was lost.

        Raises `TransientStorageError`.
        """
        for name in sorted(await self._names_waiting()):
            try:
                gate, _ = await self._read(name)
            except CorruptRowError as error:
                _log.warning("gate %s: no release: %s", name, error)
                continue
            is_lost = gate.next_at is None or gate.next_at < self._now() - _LOST_AFTER
            if is_lost and gate.hold is None:
                await self._schedule(name, gate.link, self._now())

    async def _release_steps(self, gate: Gate, waiting: Sequence[_Waiting], most: int) -> int:
        """Release at most `most` steps, and return how many were released."""
        room = asyncio.Semaphore(_RELEASES_AT_ONCE)
        until = self._now() + _RELEASE_TIME

        async def release(each: _Waiting, steps: int) -> int:
            async with room:
                event = GateReleased(gate=gate.name, most=steps, holds=gate.holds)
                try:
                    applied = await self._storage.change(each.task, event, until=until)
                except Exception as error:  # noqa: BLE001 - the error of one task delays no other one
                    _log.warning("task %s: not released: %s", each.task, error)
                    if not isinstance(error, TransientStorageError):
                        self._passed_over[each.task] = self._now() + _PASSED_OVER
                    return 0
                return steps if applied.rejection is None else 0

        releases = []
        for each in waiting:
            steps = min(each.steps, most)
            most -= steps
            if steps > 0:
                releases.append(release(each, steps))
        return sum(await asyncio.gather(*releases))

    async def _oldest(self, name: str, most: int, beyond: dict[str, str]) -> Sequence[_Waiting]:
        """Return the `most` tasks that wait longest behind a gate, and move the cursors `beyond` by shard."""
        now = self._now()
        self._passed_over = {task: end for task, end in self._passed_over.items() if end > now}
        shards = map(shard_name, range(self._storage.shards))
        pages = await asyncio.gather(*(self._waiting(name, most, each, beyond) for each in shards))
        oldest = sorted(each for page in pages for each in page)[:most]
        beyond |= {each.shard: each.key for each in oldest}
        return oldest

    async def _waiting(self, name: str, most: int, shard: str, beyond: Mapping[str, str]) -> list[_Waiting]:
        """Return the `most` tasks of a shard that wait longest, without those that are passed over."""
        query = replace(index_range(TaskIndex.GATE, name), most=max(most, 1), beyond=beyond.get(shard))
        waiting: list[_Waiting] = []
        async for page in every_page(self._table, shard, query):
            for row in page.rows:
                key, steps = str(row["RowKey"]), row.get("Count")
                since, task = key.split("|")[-2:]
                if task not in self._passed_over:
                    steps = steps if isinstance(steps, int) else 1
                    waiting.append(_Waiting(since, task, max(1, steps), shard, key))
            if len(waiting) >= most:
                break
        return waiting[:most]

    async def _names_waiting(self) -> set[str]:
        """Return the names of the gates behind which steps wait: one query for each gate and shard."""
        names: set[str] = set()
        start = f"{TaskIndex.GATE}|"
        for shard in map(shard_name, range(self._storage.shards)):
            beyond = start
            while beyond:
                query = RowQuery(start, f"{start[:-1]}}}", beyond=beyond, most=1, columns=KEYS)
                beyond = ""
                async for page in every_page(self._table, shard, query):
                    if page.rows:
                        name = str(page.rows[0]["RowKey"]).split("|")[1]
                        names.add(name)
                        beyond = f"{start}{name}}}"
                        break
        return names

    # Rows

    async def _read(self, name: str) -> tuple[Gate, str | None]:
        """Return a gate and the ETag of its row, None without a row. Raises `CorruptRowError`."""
        row = await self._table.read(self.partition, name)
        return (Gate(name=name), None) if row is None else (_gate_of(row), str(row["odata.etag"]))

    async def _change(self, name: str, change: _GateChange, *, is_operator: bool = False) -> None:
        """Change a gate by compare-and-swap, and send the message of its release chain.

        Nothing is read if the change would not alter the gate as this instance sees it, except for operators.
        Raises `StorageError`.
        """
        async with self._changes[name]:  # the instance does not compete with itself
            known = self._view.get(name, Gate(name=name))
            if not is_operator and change(known) is known:
                return
            for _ in range(_MOST_TRIES):
                try:
                    gate, etag = await self._read(name)
                    after = change(gate)
                except CorruptRowError:
                    if not is_operator:
                        raise
                    gate, etag = known, "*"
                    after = replace(change(gate), link=gate.link + 1)
                if after is gate:
                    self._view[name] = gate
                    return
                if await self._write(gate, after, etag):
                    if after.link != gate.link and after.next_at is not None:
                        await self._schedule(name, after.link, after.next_at)
                    return
        raise _too_many_changes(name)

    async def _write(self, gate: Gate, after: Gate, etag: str | None) -> bool:
        """Write a gate's row with the alert of an opening; return False if another instance was first."""
        row = {"Circuit": str(after.circuit), "Gate": _GATE.dump_json(after, exclude_defaults=True).decode()}
        insert = RowChange("insert", after.name, row)
        changes = [insert if etag is None else RowChange("update", after.name, row, etag)]
        changes += [message_change(alert) for alert in _alerts(gate, after)]
        answer = await self._table.send(self.partition, changes)
        if not isinstance(answer, RefusedChanges):
            self._view[after.name] = after
            return True
        if answer.is_conflict:
            return False
        raise StorageError(f"gate {after.name}: HTTP {answer.status} {answer.text}")


def _too_many_changes(name: str) -> TransientStorageError:
    return TransientStorageError(f"gate {name}: other instances changed it {_MOST_TRIES} times")


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
    if since is None or (previous is not None and since - previous < _ONE_ALERT):
        return []
    body = {
        "cause": "gate closed",
        "gate": after.name,
        "reason": f"the gate of {after.name} has closed: its steps are deferred until a call succeeds",
    }
    alert_id = f"{after.name}.{sortable(since)}"
    return [Message(kind=MessageKind.ALERT, id=alert_id, task="", at=since, body=body)]
