"""Moves a shard to another account, while the application runs; safe to run again after a crash."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

from azure.core import MatchConditions
from azure.core.exceptions import ResourceModifiedError, ResourceNotFoundError
from azure.data.tables import UpdateMode
from azure.data.tables.aio import TableClient

from functions.pattern.errors import TransientError
from functions.store.connect import table_faults
from functions.store.fenced_shard import FencedShard, is_empty
from functions.store.keys import ACCOUNT_ROW, SHARD_MAP_ROW, SHARDS_PARTITION, shard_key
from functions.store.known_map import LEASE
from functions.store.shard_map import Moving, ShardMap, map_entity, map_of

_log = logging.getLogger(__name__)

#: Seconds between closing a shard and copying it: nobody relies on an older map by then, not even a process
#: whose machine was paused for some seconds (memory-preserving maintenance), and so counts too few of them.
SETTLES = LEASE + 10

#: Seconds after which no request is on its way any more that was meant for the account before: the client's
#: retries and their timeouts take less.
LATEST = 120


class ShardMove:
    """Copies a shard's rows, closes it, copies what has changed since, names the account in the map.

    Whoever reads or writes a closed shard gets a `ShardClosedError`. Nothing is deleted where the shard was
    until the map names the other account. Of two runs, the later one takes the move over.
    """

    def __init__(self, tables: Sequence[TableClient], *, pause: Callable[[float], Awaitable[None]]) -> None:
        self._tables = tables
        self._pause = pause

    async def move(self, shard: int, to: int) -> int:
        """Move a shard, and clear away what it leaves; give how many rows this run has copied.

        Raises `TransientError`: run it again. Raises `ValueError` when it is refused and nothing was changed.
        """
        with table_faults():
            shard_map, etag = await self._read()
            _check(shard_map, shard, to, len(self._tables))
            for number, table in enumerate(self._tables):
                await _check_mark(table, number, shard_map.store)
            if shard_map.accounts[shard] == to:
                copied = 0
                if shard_map.moving is not None:  # it stays, and nothing is lost: nothing was deleted
                    await self._write(shard_map.begin(Moving(shard, to)).arrived(), etag)
            else:
                copied = await self._bring(shard_map, etag, Moving(shard, to))
                _log.info("shard %d is open, in account %d; %d s until its old rows go", shard, to, LATEST)
                await self._pause(LATEST)
            await self._clear_elsewhere(shard, to)
        return copied

    async def _bring(self, shard_map: ShardMap, etag: str, moving: Moving) -> int:
        source, copied = self._tables[shard_map.accounts[moving.shard]], 0
        if shard_map.moving is None:  # most of it is copied while the shard is still open
            target = await self._take(moving, etag)
            copied = await target.mirror(source)
        shard_map, etag = await self._write(shard_map.begin(moving), etag)
        _log.info("shard %d is closed; it is copied in %d s", moving.shard, SETTLES)
        await self._pause(SETTLES)
        target = await self._take(moving, etag)
        while changed := await target.mirror(source):
            copied += changed
        await target.release()
        await self._write(shard_map.arrived(), etag)
        return copied

    async def _take(self, moving: Moving, etag: str) -> FencedShard:
        """Take the shard's fence where it goes, and only then see that no other run has begun since."""
        target = await FencedShard.take(self._tables[moving.to], shard_key(moving.shard))
        if (await self._read())[1] != etag:
            raise TransientError("another run has taken the move over")
        return target

    async def _clear_elsewhere(self, shard: int, home: int) -> None:
        """Delete the shard's rows in all other accounts: nobody reads them."""
        for number, table in enumerate(self._tables):
            if number == home or await is_empty(table, shard_key(shard)):
                continue
            leftovers = await FencedShard.take(table, shard_key(shard))
            shard_map, _ = await self._read()
            if shard_map.accounts[shard] != home or (shard_map.moving and shard_map.moving.shard == shard):
                raise TransientError(f"shard {shard} is being moved by another run")
            await leftovers.clear()
            await leftovers.release()

    async def _read(self) -> tuple[ShardMap, str]:
        try:
            row = await self._tables[0].get_entity(SHARDS_PARTITION, SHARD_MAP_ROW)
        except ResourceNotFoundError:
            raise ValueError(
                "there is no map of the shards: start the application with its accounts"
            ) from None
        return map_of(row), str(row.metadata["etag"])

    async def _write(self, shard_map: ShardMap, etag: str) -> tuple[ShardMap, str]:
        try:
            answer = await self._tables[0].update_entity(
                map_entity(shard_map),
                mode=UpdateMode.REPLACE,
                etag=etag,
                match_condition=MatchConditions.IfNotModified,
            )
        except ResourceModifiedError as error:
            raise TransientError("the map of the shards has changed meanwhile") from error
        return shard_map, str(answer["etag"])


def _check(shard_map: ShardMap, shard: int, to: int, accounts: int) -> None:
    for what, number, count in (("shard", shard, len(shard_map.accounts)), ("account", to, accounts)):
        if not 0 <= number < count:
            raise ValueError(f"there is no {what} {number}: they are numbered 0 to {count - 1}")
    missing = max({*shard_map.accounts, 0})
    if missing >= accounts:
        raise ValueError(f"setting StateStore__{missing} is missing: name all accounts of the state store")
    moving = shard_map.moving
    if moving is not None and (moving.shard != shard or to not in {moving.to, shard_map.accounts[shard]}):
        raise ValueError(f"shard {moving.shard} is on its way to account {moving.to}: end that move first")
    if moving is not None and moving.copying:
        raise ValueError(f"an earlier version has begun to move shard {moving.shard}: end that move with it")


async def _check_mark(table: TableClient, number: int, store: str) -> None:
    """Refuse an account that is not the one of that number: the wrong rows would be taken for the shard's."""
    try:
        mark = await table.get_entity(SHARDS_PARTITION, ACCOUNT_ROW)
    except ResourceNotFoundError:
        mark = None
    if mark is None or (mark["Account"], mark["Store"]) != (number, store):
        raise ValueError(
            f"setting StateStore__{number} does not lead to account {number} of this state store: start the"
            " application with its accounts, and give the same settings here"
        )
