"""The accounts of the state store: read from the settings, and checked at start to be the right ones."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress

from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure.data.tables import TableClient

from functions.connections import Connection
from functions.pattern.errors import SettingsError
from functions.settings import Settings
from functions.store.connect import connect_at_start
from functions.store.keys import ACCOUNT_ROW, SHARD_MAP_ROW, SHARDS_PARTITION, SHARDS_ROW
from functions.store.shard_map import ShardMap, map_entity, map_of
from functions.store.tables import TASKS_TABLE, answering, make_tables, prepare_tables

_ACCOUNT = re.compile(r"StateStore__(\d+)(?:__(tableServiceUri|clientId))?")

#: The most accounts of one state store: there are at most as many shards.
_MOST = 64


def load_accounts(environment: Mapping[str, str], settings: Settings) -> tuple[Connection, ...]:
    """Read how the accounts are reached, by their numbers. Raises `SettingsError`.

    `StateStore` is the only one; several are `StateStore__0`, `StateStore__1` and so on.
    """
    parts: dict[int, dict[str, str]] = {}
    for name, value in environment.items():
        found = _ACCOUNT.fullmatch(name)
        if found is not None and value:
            parts.setdefault(int(found[1]), {})[found[2] or "connection"] = value
    if not parts:
        return (settings.state_store_connection,)
    if settings.state_store is not None or settings.state_store_uri is not None:
        raise SettingsError("settings StateStore and StateStore__0 name the same account: remove one of them")
    return tuple(_connection(number, parts.get(number, {})) for number in range(min(max(parts) + 1, _MOST)))


def _connection(number: int, parts: Mapping[str, str]) -> Connection:
    text, address = parts.get("connection"), parts.get("tableServiceUri")
    if text is None and address is None:
        raise SettingsError(
            f"setting StateStore__{number} is missing: set it to a storage connection string, or"
            f" StateStore__{number}__tableServiceUri to the account's table address"
        )
    return Connection(text, address, parts.get("clientId"), setting=f"StateStore__{number}")


def prepare_agent_tables(connection: Connection, names: tuple[str, ...]) -> None:
    """Make missing tables of the Agents in their own account. Raises `SettingsError`."""
    with connect_at_start(connection) as service:
        make_tables(service, names, setting=connection.setting)


def prepare_accounts(connections: Sequence[Connection], names: tuple[str, ...], shards: int) -> None:
    """Make missing tables, and see that each account is the one that the map of the shards means by it.

    Without `names`, none is made: what is missing is a fault.

    The first start with several accounts writes the map: shards of a new state store are spread over them,
    and those of an older one stay in the first, until they are moved. Raises `SettingsError`.
    """
    with ExitStack() as stack:
        services = [stack.enter_context(connect_at_start(connection)) for connection in connections]
        tables: list[TableClient] = []
        for service, connection in zip(services, connections, strict=True):
            with answering(connection.setting):
                if names:
                    service.create_table_if_not_exists(TASKS_TABLE)
                tables.append(service.get_table_client(TASKS_TABLE))
                _check_mark(tables[-1], len(tables) - 1, None)  # before anything is written to the wrong one
        first = connections[0].setting
        if len(tables) > 1:
            with answering(first):
                _spread(tables[0], shards, len(tables))
        prepare_tables(services[0], names, shards=shards, setting=first)
        with answering(first):
            shard_map = _map(tables[0], ShardMap.spread(shards, 1), len(tables))
        if shard_map is None:
            return
        with answering(first):
            are_all_marked = _is_there(tables[0], ACCOUNT_ROW)
        for number, (table, connection) in reversed([*enumerate(zip(tables, connections, strict=True))]):
            with answering(connection.setting):
                if are_all_marked and number in shard_map.named:
                    _check_is_marked(table, number)
                _mark(table, number, shard_map.store)  # the first one last


def _spread(first: TableClient, shards: int, accounts: int) -> None:
    """Write the map of a new state store, before anything tells that there is one."""
    if not _holds_tasks(first):
        with suppress(ResourceExistsError):
            first.create_entity(map_entity(ShardMap.spread(shards, accounts)))


def _map(first: TableClient, new: ShardMap, accounts: int) -> ShardMap | None:
    """Read the map; where there is none, several accounts begin with `new`, and one needs none."""
    if accounts > 1:
        with suppress(ResourceExistsError):
            first.create_entity(map_entity(new))
    try:
        shard_map = map_of(first.get_entity(SHARDS_PARTITION, SHARD_MAP_ROW))
    except ResourceNotFoundError:
        return None
    except ValueError as error:
        raise SettingsError(f"setting StateStore__0: {error}") from None
    if len(shard_map.accounts) != len(new.accounts):
        raise SettingsError(
            f"setting StateStore__0: the map of the shards names {len(shard_map.accounts)} shards, and there"
            f" are {len(new.accounts)}: mend its row"
        )
    missing = min(shard_map.named - {*range(accounts)}, default=None)
    if missing is not None:
        raise SettingsError(
            f"setting StateStore__{missing} is missing: set it to account {missing} of the state store, in"
            " which some of its shards lie"
        )
    return shard_map


def _mark(table: TableClient, number: int, store: str) -> None:
    """Mark an account as one of a state store's, if it is not marked."""
    with suppress(ResourceExistsError):
        table.create_entity(
            {"PartitionKey": SHARDS_PARTITION, "RowKey": ACCOUNT_ROW, "Store": store, "Account": number}
        )
    _check_mark(table, number, store)


def _check_mark(table: TableClient, number: int, store: str | None) -> None:
    """Refuse an account that is another one, or another state store's (None: whichever it is)."""
    try:
        mark = table.get_entity(SHARDS_PARTITION, ACCOUNT_ROW)
    except ResourceNotFoundError:
        _check_is_no_first(table, number)
        return
    if mark["Account"] != number or store not in {None, mark["Store"]}:
        whose = "a" if store in {None, mark["Store"]} else "another"
        raise SettingsError(
            f"setting StateStore__{number} leads to account {mark['Account']} of {whose} state store: set it"
            f" to the account that is number {number} of this one"
        )


def _check_is_marked(table: TableClient, number: int) -> None:
    """Refuse an account with shards that has lost its mark: it is another one, which holds none of them."""
    if not _is_there(table, ACCOUNT_ROW):
        raise SettingsError(
            f"setting StateStore__{number} leads to an account without the shards of account {number}"
            " of this state store: set it to that account, or restore its tables first"
        )


def _check_is_no_first(table: TableClient, number: int) -> None:
    """Refuse an account, not marked yet, that other tasks lie in: of a state store's, only its first says."""
    if number > 0 and _holds_tasks(table):
        raise SettingsError(
            f"setting StateStore__{number} leads to the first account of another state store: make that"
            " StateStore__0, or set an account that holds no tasks yet"
        )


def _holds_tasks(table: TableClient) -> bool:
    """Tell whether a state store was begun in an account that is its first."""
    return _is_there(table, SHARDS_ROW)


def _is_there(table: TableClient, row: str) -> bool:
    try:
        table.get_entity(SHARDS_PARTITION, row)
    except ResourceNotFoundError:
        return False
    return True
