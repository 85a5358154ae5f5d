"""The release chains of gates. Times are UTC.

A release chain is a series of messages. Each message releases some of the steps that wait behind a gate.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from functions.core.gate_rules import Circuit, Gate, next_link
from functions.core.task_events import GateReleased
from functions.storage.gates import MOST_TRIES, Gates
from functions.storage.index_pages import KEYS, every_page, read_entries
from functions.storage.row_keys import TaskIndex, after_prefix, index_range, shard_name, with_prefix
from functions.storage.table_contract import CorruptRowError, TransientStorageError

_log = logging.getLogger(__name__)

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


class GateReleases:
    """The release chains of `gates`. Tasks that could not be released are passed over for some minutes."""

    def __init__(self, gates: Gates) -> None:
        self._gates, self._storage, self._now = gates, gates.storage, gates.now
        self._settings = gates.settings
        self._passed_over: dict[str, datetime] = {}

    async def release(self, name: str, link: int) -> None:
        """Handle message `link` of a release chain: release the steps that wait longest, send the next one.

        A repeated message has no effect. Raises `StorageError`: the message must be delivered again.
        """
        for _ in range(MOST_TRIES):
            now = self._now()
            gate, etag = await self._gates.read(name)
            if gate.link != link or gate.hold is not None:
                return
            if gate.circuit is Circuit.OPEN and gate.next_at is not None and now < gate.next_at:
                at = gate.next_at + self._settings.skew  # the clock of this host is behind
                await self._gates.schedule_release(name, link, at)
                return
            after = next_link(gate, now, self._settings, is_waiting=True)
            beyond: dict[str, str] = {}
            oldest = await self._oldest(name, after.amount, beyond)
            if not oldest:
                after = next_link(gate, now, self._settings, is_waiting=False)
            if await self._gates.write(gate, after, etag):
                break
        else:
            raise TransientStorageError(f"gate {name}: other instances changed it {MOST_TRIES} times")
        left = after.amount
        while oldest and left > 0:
            left -= await self._release_steps(gate, oldest, left)
            is_over = self._now() >= now + _RELEASE_TIME
            oldest = await self._oldest(name, left, beyond) if left > 0 and not is_over else []
        if after.next_at is not None:
            await self._gates.schedule_release(name, after.link, after.next_at)

    async def start_missing_chains(self) -> None:
        """Start the release chain of each gate behind which steps wait, if its message was lost.

        Raises `TransientStorageError`.
        """
        shards = map(shard_name, range(self._storage.shards))
        waiting = await asyncio.gather(*map(self._names_waiting, shards))
        for name in sorted(set[str]().union(*waiting)):
            try:
                gate, _ = await self._gates.read(name)
            except CorruptRowError as error:
                _log.warning("gate %s: no release: %s", name, error)
                continue
            is_lost = gate.next_at is None or gate.next_at < self._now() - _LOST_AFTER
            if is_lost and gate.hold is None:
                await self._gates.schedule_release(name, gate.link, self._now())

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
