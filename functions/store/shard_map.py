"""The map of the shards: the row, in the first account, that names the account of each shard."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from functions.store.keys import SHARD_MAP_ROW, SHARDS_PARTITION

#: The version of what the row says; a process that reads another one must not guess.
SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Moving:
    """A shard that is on its way to another account: nobody reads or writes it until it is there.

    Where it is `copying`, an earlier version has begun to: rows are deleted where they were copied from.
    """

    shard: int
    to: int
    copying: bool = False


@dataclass(frozen=True, slots=True)
class ShardMap:
    """Names an account for each shard, both by number.

    All accounts are marked with `store`, an id. `version` grows by one with each change.
    """

    store: str
    accounts: tuple[int, ...]
    version: int = 1
    moving: Moving | None = None

    @classmethod
    def spread(cls, shards: int, accounts: int) -> Self:
        """Spread the shards of a new state store evenly over its accounts."""
        return cls(uuid.uuid4().hex, tuple(shard % accounts for shard in range(shards)))

    @property
    def named(self) -> frozenset[int]:
        """The accounts in which shards lie, or to which one is being moved."""
        return frozenset({*self.accounts, *(() if self.moving is None else (self.moving.to,))})

    def begin(self, moving: Moving) -> Self:
        """Close a shard, which is to be moved, or take its move over."""
        return replace(self, version=self.version + 1, moving=moving)

    def arrived(self) -> Self:
        """Name the new account of the shard that was moved, and open it."""
        if self.moving is None:
            raise ValueError("no shard is being moved")
        accounts = list(self.accounts)
        accounts[self.moving.shard] = self.moving.to
        return replace(self, version=self.version + 1, accounts=tuple(accounts), moving=None)


def map_entity(shard_map: ShardMap) -> dict[str, Any]:
    """Write the map as a row."""
    moving = shard_map.moving
    return {
        "PartitionKey": SHARDS_PARTITION,
        "RowKey": SHARD_MAP_ROW,
        "Schema": SCHEMA,
        "Store": shard_map.store,
        "Version": shard_map.version,
        "Accounts": ",".join(str(account) for account in shard_map.accounts),
        **({} if moving is None else {"Moving": moving.shard, "To": moving.to, "Copying": moving.copying}),
    }


def map_of(row: Mapping[str, Any]) -> ShardMap:
    """Read the map from its row. Raises `ValueError` for one of another version, and for a damaged one."""
    schema = row.get("Schema")
    if schema != SCHEMA:
        raise ValueError(
            f"the map of the shards has schema {schema}, and this version reads {SCHEMA}: deploy the version"
            " that wrote it"
        )
    try:
        moving = Moving(row["Moving"], row["To"], row["Copying"]) if "Moving" in row else None
        accounts = tuple(int(account) for account in row["Accounts"].split(","))
        return ShardMap(row["Store"], accounts, row["Version"], moving)
    except (KeyError, ValueError):
        raise ValueError(
            f"the map of the shards is damaged: mend its row ({SHARDS_PARTITION}, {SHARD_MAP_ROW})"
        ) from None
