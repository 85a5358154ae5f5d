"""Crashes, late requests and two runs at once of the move of a shard: every row is there, and none twice."""

from __future__ import annotations

import pytest
from azure.data.tables.aio import TableServiceClient

from functions.pattern.errors import TransientError
from functions.store.connect import TableStorage
from functions.store.fenced_shard import FencedShard
from functions.store.keys import shard_key
from functions.store.retention import TableTaskRetention
from tests.fakes.tasks import claimed
from tests.integration.moved_shards import MOVED, Crash, MovedStore, Once, TableWith

pytestmark = pytest.mark.process


@pytest.fixture
async def store(storage: TableStorage, service: TableServiceClient) -> MovedStore:
    """Make a state store over two accounts, with tasks in it, and all its shards in the first."""
    store = await MovedStore.make(storage, service)
    await store.admit_all()
    return store


@pytest.mark.parametrize("done", [True, False], ids=["done", "not done"])
async def test_move_is_gone_on_with_after_a_crash_at_any_of_its_writes(
    store: MovedStore, *, done: bool
) -> None:
    """There and back, each time with one crash more ahead."""
    rows = await store.rows(0)
    place, at, crashes = 0, 0, 0
    while crashes == at:
        at += 1
        crash, there = Crash(at, done=done), 1 - place
        try:
            await store.move(there, [TableWith(table, crash.around) for table in store.tables])
        except TransientError:
            crashes += 1
            await store.move(there)
        place = there
        assert (await store.rows(place), await store.rows(1 - place, fence=True)) == (rows, {})
    assert crashes >= 6 + 2 * (len(rows) // 99)


async def test_write_that_came_late_is_copied_too(store: MovedStore) -> None:
    """They changed tasks, with their index rows, after these were copied: what they deleted is gone, too."""
    process, shards = store.late()

    async def write_late() -> None:
        """When the shard is closed, and its fence is taken again."""
        assert len(await store.rows(1)) == len(await store.rows(0))
        await process.told(MOVED[0], claimed(task=MOVED[0]))

    async def write_later() -> None:
        """When that is being copied."""
        await process.told(MOVED[2], claimed(task=MOVED[2]))
        assert await TableTaskRetention(shards, process.figures).delete(await process.read(MOVED[1]))
        wanted.update(await store.rows(0))

    wanted: dict[str, object] = {}
    transactions = -(-len(await store.rows(0)) // 99)
    late, later = Once(transactions + 2, write_late), Once(transactions + 3, write_later)
    target = TableWith(TableWith(store.tables[1], late.around), later.around)  # type: ignore[arg-type]
    await store.move(1, [store.tables[0], target])
    assert wanted
    assert await store.rows(1) == wanted
    assert await store.rows(0) == {}


async def test_run_that_is_taken_over_stops(store: MovedStore) -> None:
    """It copies nothing once another one has begun, and is done."""
    rows = await store.rows(0)
    store.meanwhile = [store.move]
    with pytest.raises(TransientError, match="another run has taken the move over"):
        await store.move()
    assert await store.rows(1) == rows


@pytest.mark.parametrize("at", [2, 3, 4, 5])
async def test_what_an_older_run_has_sent_changes_nothing_however_late_it_comes(
    store: MovedStore, at: int
) -> None:
    """The other run has copied all, and a task was changed since: it is not set back, and none is deleted."""

    async def be_overtaken() -> None:
        await store.move()
        await store.process().told(MOVED[0], claimed(task=MOVED[0]))
        wanted.update(await store.rows(1))
        await FencedShard.take(store.tables[1], shard_key(0))  # a third one crashed

    wanted: dict[str, object] = {}
    late = Once(at, be_overtaken)
    with pytest.raises(TransientError):
        await store.move(1, [TableWith(table, late.around) for table in store.tables])
    assert wanted == await store.rows(1)


async def test_shard_that_was_moved_back_is_not_cleared_away(store: MovedStore) -> None:
    """The run that had moved it waits before it deletes what was left there: by then it is in use again."""
    rows = await store.rows(0)
    store.meanwhile = [_nothing, lambda: store.move(0)]
    with pytest.raises(TransientError, match="shard 0 is being moved by another run"):
        await store.move(1)
    assert (await store.rows(0), await store.rows(1)) == (rows, {})


async def test_move_that_was_begun_can_be_taken_back(store: MovedStore) -> None:
    """Its account does not answer, say: the shard stays where it is, and is opened; the copy is deleted."""
    rows = await store.rows(0)

    async def end() -> None:
        raise TransientError("ended")

    store.meanwhile = [end]
    with pytest.raises(TransientError, match="ended"):
        await store.move(1)
    assert await store.move(0) == 0
    assert (await store.rows(0), await store.rows(1, fence=True)) == (rows, {})
    assert await store.process().store.load(MOVED[0]) is not None


async def test_what_is_left_of_a_task_at_its_old_account_is_replaced_when_the_shard_comes_back(
    store: MovedStore,
) -> None:
    """The command was ended before it cleared away: the old rows are not taken for the task's."""

    async def end() -> None:
        raise TransientError("ended")

    store.meanwhile = [_nothing, end]
    with pytest.raises(TransientError, match="ended"):
        await store.move(1)
    assert await store.rows(0) == await store.rows(1)
    await store.process().told(MOVED[0], claimed(task=MOVED[0]))
    rows = await store.rows(1)
    assert await store.move(0)
    assert (await store.rows(0), await store.rows(1)) == (rows, {})
    assert (await store.process().read(MOVED[0])).record.task.locked_by is not None


async def _nothing() -> None:
    pass
