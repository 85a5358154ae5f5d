"""A shard is moved to another account under the application's hands, and nothing of it is lost or doubled."""

from __future__ import annotations

import json
from typing import Any

import pytest
from azure.data.tables.aio import TableServiceClient

from functions.pattern.errors import TransientError
from functions.pattern.request_figures import StoreFigures
from functions.pattern.store_ports import Admission
from functions.store import known_map
from functions.store.connect import TableStorage
from functions.store.keys import shard_key
from functions.store.known_map import KnownMap
from functions.store.shard_move import LATEST, SETTLES, ShardMove
from functions.store.shards import Shards, StateAccount
from tests.fakes.tasks import claimed, pending
from tests.fakes.workflows import LINE
from tests.integration.moved_shards import MOVED, ROWS, SHARDS, TASKS, MovedStore, TableWith

pytestmark = pytest.mark.process


@pytest.fixture
async def store(storage: TableStorage, service: TableServiceClient) -> MovedStore:
    """Make a state store over two accounts, with all its shards in the first."""
    return await MovedStore.make(storage, service)


async def test_shard_is_moved_with_all_its_rows_and_is_worked_with_there(store: MovedStore) -> None:
    """The other shard stays where it was; what is moved already is left alone."""
    await store.admit_all()
    rows = await store.rows(0)
    assert await store.move() == len(rows) == await store.move() + len(rows)
    assert (await store.rows(0), await store.rows(1)) == ({}, rows)
    process = store.process()
    for task in TASKS:
        assert (await process.store.admit(pending(LINE, task))).admission is Admission.KNOWN
    assert store.pauses == [SETTLES, LATEST]
    assert known_map.LEASE < SETTLES


async def test_nobody_reads_or_writes_a_shard_while_it_is_moved(store: MovedStore) -> None:
    """Both raise `TransientError`; tasks of the other shard are none the wiser."""
    await store.admit_all()
    others = next(task for task in TASKS if task not in MOVED)

    async def try_it() -> None:
        process = store.process()
        for attempt in (process.store.load, process.store.order):
            with pytest.raises(TransientError, match="shard 0 is being moved to account 1"):
                await attempt(MOVED[0])
        with pytest.raises(TransientError):
            await process.store.admit(pending(LINE, MOVED[0]))
        assert await process.store.load(others) is not None

    store.meanwhile = [try_it]
    await store.move()
    assert store.pauses


async def test_what_a_process_remembers_of_a_task_is_no_danger_to_it(
    store: MovedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its next write, upon a record of the account before, conflicts, and is made upon what is read."""
    process = await store.admit_all()
    await store.move()
    monkeypatch.setattr(known_map, "READ_EVERY", 0)
    stored = await process.told(MOVED[0], claimed(task=MOVED[0]))
    assert stored.record.task.locked_by is not None
    assert await store.rows(0) == {}


async def test_answer_that_comes_when_the_shard_may_be_elsewhere_does_not_count(
    store: MovedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order was recorded where nobody looks for it, after the copy: its sender must send it again."""
    process, late, now = store.process(), [0.0], known_map._now

    async def be_moved() -> None:
        await store.move()
        late[0] = known_map.LEASE

    store.groups.meanwhile = be_moved
    monkeypatch.setattr(known_map, "_now", lambda: now() + late[0])
    with pytest.raises(TransientError, match="the map of the shards has changed meanwhile"):
        await process.store.admit(pending(LINE, MOVED[0]))
    assert await process.store.load(MOVED[0]) is None
    assert (await process.store.admit(pending(LINE, MOVED[0]))).admission is Admission.RECORDED
    await store.move(0)  # what was left there is not taken for the task
    assert len(await store.rows(0)) == ROWS


@pytest.mark.parametrize(("shard", "to", "said"), [(2, 1, "no shard 2"), (0, 2, "no account 2")])
async def test_shard_and_account_must_be_there(store: MovedStore, shard: int, to: int, said: str) -> None:
    """Otherwise nothing is touched."""
    with pytest.raises(ValueError, match=said):
        await ShardMove(store.tables, pause=store._pause).move(shard, to)


async def test_accounts_in_another_order_are_refused(store: MovedStore) -> None:
    """Rows would be copied from where none are, and the shard be empty."""
    await store.admit_all()
    await store.move(1)
    first, second = store.tables
    for wrong in ([first, first], [second, first]):
        with pytest.raises(ValueError, match=r"StateStore__1 does not lead to account 1|no map"):
            await store.move(0, wrong)
    with pytest.raises(ValueError, match="StateStore__1 is missing"):
        await ShardMove([first], pause=store._pause).move(1, 0)


async def test_move_that_an_earlier_version_has_begun_is_left_to_it(store: MovedStore) -> None:
    """It has deleted rows where it copied them from: they are no copy's model any more."""
    row = await store.tables[0].get_entity("!settings", "shard-map")
    await store.tables[0].update_entity({**row, "Moving": 0, "To": 1, "Copying": True})
    with pytest.raises(ValueError, match="an earlier version has begun to move shard 0"):
        await store.move(1)


async def test_instance_that_does_not_know_an_account_fails_for_the_moment(
    store: MovedStore, storage: TableStorage
) -> None:
    """It is of the deployment before: what it was asked for comes again, and is taken by another."""
    await store.move()
    alone = StateAccount.of(storage, store.tables[0].table_name)
    shards = Shards([alone], SHARDS, KnownMap(store.tables[0], StoreFigures()))
    with pytest.raises(TransientError, match="account 1, which this instance does not know"):
        async with shards.numbered(0):
            pass


async def test_rows_with_long_texts_fit_into_transactions(store: MovedStore) -> None:
    """Each character can be six bytes on the wire, of which a transaction takes few."""
    for number in range(60):
        row = {"PartitionKey": shard_key(0), "RowKey": f"task|{number:03d}"}
        await store.tables[0].create_entity({**row, "Text": "\u00e9" * 15_000})
    bodies: list[int] = []

    class Measured(TableWith):
        async def submit_transaction(self, operations: Any) -> Any:
            bodies.append(sum(len(json.dumps(dict(each[1]))) for each in operations))
            return await self._table.submit_transaction(operations)

    tables = [store.tables[0], Measured(store.tables[1], lambda change: change())]
    assert await store.move(1, tables) == 60
    assert max(bodies) < 1024 * 1024
    assert len(await store.rows(1)) == 60
