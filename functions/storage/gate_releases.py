"""The release chains of gates, the overdue requests of queues, and the actions of operators.

A release chain is a series of messages. Each message releases some of the steps that wait behind a gate.
Times are UTC.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from functions.core.deadline_rules import counts
from functions.core.gate_rules import Circuit, Gate, end_hold, is_unreached, next_link, overdue, start_hold
from functions.core.record import StepType, TaskRecord
from functions.core.task_events import Due, GateReleased
from functions.storage.gates import MOST_TRIES, Gates
from functions.storage.index_pages import KEYS, every_page, read_entries
from functions.storage.row_keys import TaskIndex, after_prefix, index_range, shard_name, with_prefix
from functions.storage.table_contract import CorruptRowError, StorageError, TransientStorageError

_log = logging.getLogger(__name__)

#: An overdue request: its start, its deadline and its start id.
type _Request = tuple[datetime, datetime, str]

#: Time after which the message of a release chain counts as lost.
_LOST_AFTER = timedelta(seconds=15)
#: Time for the releases of one message, which is shorter.
_RELEASE_TIME = timedelta(seconds=10)
_RELEASES_AT_ONCE = 50
#: Time for which a task that could not be released is passed over.
_PASSED_OVER = timedelta(minutes=10)


@dataclass(frozen=True, slots=True, order=True)
class _Waiting:
    """An index row of a task that waits behind a gate since a time (sortable text)."""

    since: str
    task: str
    steps: int
    shard: str
    key: str


class ReleasingGates(Gates):
    """Gates that release the steps behind them, and that operators and the Supervisor change."""

    # Overdue requests

    async def judge(self, record: TaskRecord, *, may_recover: bool) -> Due:
        """Count one overdue request of a task for each queue: the first that its Agent had reached.

        Return the event by which they are decided, with the gates as they were before. So an absence of an
        Agent counts at most as many failures of tasks as open the circuit. Two Supervisors at once, or the
        repetition after a lost answer, may count a request twice. A gate that cannot be changed is left out.
        """
        now, settings, late = self._now(), self._settings, dict[str, list[_Request]]()
        for spec, operation in record.operations:
            may_count = spec.type is StepType.QUEUE and counts(record, spec, may_recover=may_recover)
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
                gate = await self.change(name, lambda gate: overdue(gate, *chosen(gate)[:2], now, settings))
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
        await self.change(name, lambda gate: start_hold(gate, reason, who, self._now()), is_operator=True)

    async def end_hold(self, name: str, since: datetime | None = None) -> None:
        """End an operator's hold, or only that of `since`, and start the release of the steps behind it."""
        await self.change(name, lambda gate: end_hold(gate, self._now(), since), is_operator=True)

    async def set_calls_at_once(self, name: str, limit: int | None) -> None:
        """Set the largest number of calls that one instance has under way, at least 1; None: no limit."""

        def change(gate: Gate) -> Gate:
            after = replace(gate, calls_at_once=None if limit is None else max(1, limit))
            return gate if after == gate else after

        await self.change(name, change, is_operator=True)

    # The release chain

    async def release(self, name: str, link: int) -> None:
        """Handle message `link` of a release chain: release the steps that wait longest, send the next one.

        A repeated message has no effect. Raises `StorageError`: the message must be delivered again.
        """
        for _ in range(MOST_TRIES):
            now = self._now()
            gate, etag = await self.read(name)
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
            if await self.write(gate, after, etag):
                break
        else:
            raise TransientStorageError(f"gate {name}: other instances changed it {MOST_TRIES} times")
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
        shards = map(shard_name, range(self._storage.shards))
        waiting = await asyncio.gather(*map(self._names_waiting, shards))
        for name in sorted(set[str]().union(*waiting)):
            try:
                gate, _ = await self.read(name)
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
                try:
                    since = datetime.fromisoformat(each.since)
                    event = GateReleased(gate=gate.name, most=steps, since=since, holds=gate.holds)
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
        async for page in every_page(self._storage.table, shard, query):
            for row in page.rows:
                key, steps = str(row["RowKey"]), row.get("Count")
                since, task = key.split("|")[-2:]
                if task not in self._passed_over:
                    steps = steps if isinstance(steps, int) else 1
                    waiting.append(_Waiting(since, task, max(1, steps), shard, key))
            if len(waiting) >= most:
                break
        return waiting[:most]

    async def _names_waiting(self, shard: str) -> set[str]:
        """Return the names of the gates behind which steps of a shard wait, by one query for each."""
        names: set[str] = set()
        start = f"{TaskIndex.GATE}|"
        beyond: str | None = start
        while beyond is not None:
            query = replace(with_prefix(start), beyond=beyond, most=1, columns=KEYS)
            page = await read_entries(
                self._storage.table, shard, query, lambda row: row["RowKey"].split("|")[1]
            )
            names.update(page.entries)
            beyond = after_prefix(f"{start}{page.entries[0]}|") if page.entries else None
        return names
