"""The full sweep: what index and tasks do not agree on is looked at again, fixed and reported."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from functions.pattern.errors import TransientError
from functions.pattern.identity import TaskId
from functions.pattern.index_rows import IndexFix, IndexRow, RowPage, TaskRow
from functions.pattern.store_ports import Stored
from functions.supervisor import full_sweep
from functions.supervisor.damage import Damage
from functions.supervisor.full_sweep import FullSweep
from tests.fakes.clock import FakeClock
from tests.fakes.ports import fake_ports
from tests.fakes.store import MemoryStateStore
from tests.fakes.supervision import RecordedDamage, RecordedHeartbeats
from tests.fakes.task_index import MemoryTaskIndex
from tests.fakes.tasks import pending
from tests.fakes.vast_table import no_end
from tests.fakes.workflows import LINE


class Rows:
    """Shards as lists of rows, read two at a time; remembers what it was asked to fix."""

    def __init__(self, *shards: Sequence[IndexRow | TaskRow]) -> None:
        self._shards = shards
        self.read: list[int] = []
        self.fixed: dict[TaskId, list[str]] = {}
        self.removed: list[str] = []
        self.broken: set[int] = set()
        self.hanging: set[int] = set()
        #: So many times, a task changes between the look at it and the write.
        self.overtaken = 0
        #: Pages of tasks that can be read before it takes too long.
        self.pages = 1_000

    @property
    def count(self) -> int:
        """Count the shards."""
        return len(self._shards)

    async def indexed(self, shard: int, *, after: str | None, most: int) -> RowPage[IndexRow]:
        """Read two index rows."""
        if shard in self.broken:
            raise TransientError("Table Storage: ServiceRequestError")
        if after is None:
            self.read.append(shard)
        if shard in self.hanging:
            await no_end()
        return _page([row for row in self._shards[shard] if isinstance(row, IndexRow)], after, most)

    async def tasks(
        self, shard: int, *, beyond: TaskId | None, after: str | None, most: int
    ) -> RowPage[TaskRow]:
        """Read two tasks, if there is time."""
        if self.pages == 0:
            await no_end()
        self.pages -= 1
        rows = [row for row in self._shards[shard] if isinstance(row, TaskRow)]
        return _page([row for row in rows if beyond is None or row.task > beyond], after, most)

    async def fix(self, stored: Stored, seen: Sequence[IndexRow]) -> IndexFix | None:
        """Remember the task and the wrong rows that were seen; without one, its right one is created."""
        if self.overtaken > 0:
            self.overtaken -= 1
            return None
        self.fixed.setdefault(stored.record.order.task, []).extend(row.key for row in seen)
        return IndexFix(deleted=len(seen)) if seen else IndexFix(created=1)

    async def remove(self, orphan: IndexRow) -> IndexFix:
        """Remember the row."""
        if orphan.key == "purged":
            return IndexFix()
        self.removed.append(orphan.key)
        return IndexFix(deleted=1)


def _page[RowT](rows: Sequence[RowT], after: str | None, most: int) -> RowPage[RowT]:
    """Give two rows, however many are asked for."""
    assert most <= 1000
    end = int(after or 0) + 2
    return RowPage(tuple(rows[end - 2 : end]), str(end) if end < len(rows) else None)


def _index(task: str, key: str) -> IndexRow:
    return IndexRow(TaskId(task), key, "1")


def _task(task: str, key: str) -> TaskRow:
    return TaskRow(TaskId(task), key)


def _sweep(rows: Rows, *tasks: str, window: int = 1_000) -> FullSweep:
    clock = FakeClock()
    store = MemoryStateStore(clock)
    for task in tasks:
        store.put(pending(LINE, TaskId(task)))
    index = MemoryTaskIndex(store, shards=rows.count)
    ports = fake_ports(
        index_rows=rows,
        index=index,
        store=store,
        clock=clock,
        heartbeats=RecordedHeartbeats(),
    )
    return FullSweep(ports, Damage(ports, RecordedDamage().alert), window=window)


async def test_tasks_with_their_one_right_row_are_left_alone() -> None:
    """They are counted, over all pages and shards."""
    rows = Rows(
        [
            _index("a", "1"),
            _index("b", "2"),
            _index("c", "3"),
            _task("a", "1"),
            _task("b", "2"),
            _task("c", "3"),
        ],
        [_index("d", "1"), _task("d", "1")],
    )
    figures = await _sweep(rows, "a", "b", "c", "d").run()
    assert (figures.tasks, figures.index_rows) == (4, 4)
    assert (figures.created, figures.deleted, figures.failures) == (0, 0, 0)
    assert (rows.fixed, rows.removed) == ({}, [])


@pytest.mark.parametrize(
    ("seen", "wrong", "created"),
    [([], [], 1), (["wrong"], ["wrong"], 1), (["right", "wrong"], ["wrong"], 0)],
    ids=["missing", "wrong", "doubled"],
)
async def test_task_whose_rows_differ_is_fixed(seen: list[str], wrong: list[str], created: int) -> None:
    """It must have exactly one, the right one."""
    rows = Rows([*(_index("a", key) for key in seen), _task("a", "right")])
    figures = await _sweep(rows, "a").run()
    assert rows.fixed == {TaskId("a"): wrong}
    assert (figures.created, figures.deleted) == (created, len(wrong))


async def test_task_that_changes_while_it_is_looked_at_is_fixed_all_the_same() -> None:
    """A notice that is noted as sent, say, brings no index row with it."""
    rows = Rows([_index("b", "right"), _index("b", "wrong"), _task("a", "right"), _task("b", "right")])
    rows.overtaken = 3
    figures = await _sweep(rows, "a", "b").run()
    assert (rows.fixed, figures.created, figures.deleted) == ({"a": [], "b": ["wrong"]}, 1, 1)
    assert figures.failures == 0


async def test_task_that_changes_all_the_time_is_counted_and_holds_up_no_other() -> None:
    """It has its turn the next day."""
    rows = Rows([_task("a", "right"), _index("gone", "1")])
    rows.overtaken = 1_000
    figures = await _sweep(rows, "a").run()
    assert (rows.fixed, rows.removed, figures.failures) == ({}, ["1"], 1)


async def test_index_row_without_a_task_is_removed(caplog: pytest.LogCaptureFixture) -> None:
    """And logged."""
    rows = Rows([_index("gone", "1"), _index("gone", "2")])
    figures = await _sweep(rows).run()
    assert (rows.removed, figures.deleted) == (["1", "2"], 2)
    assert "task gone: index rows created 0, deleted 1" in caplog.messages


async def test_task_that_appeared_while_its_shard_was_read_is_looked_at_again() -> None:
    """Its index row was seen, its own row was not, and now it is there."""
    rows = Rows([_index("a", "1")])
    await _sweep(rows, "a").run()
    assert (rows.fixed, rows.removed) == ({TaskId("a"): ["1"]}, [])


async def test_task_that_was_purged_meanwhile_is_no_concern() -> None:
    """Its row was seen, or its index row, and both are gone."""
    rows = Rows([_index("b", "purged"), _task("a", "1")])
    figures = await _sweep(rows).run()
    assert (rows.fixed, rows.removed, figures.created, figures.deleted) == ({}, [], 0, 0)


async def test_shard_that_fails_does_not_stop_the_others() -> None:
    """It is counted, and has its turn the next day."""
    rows = Rows([], [_index("gone", "1")], [])
    rows.broken = {0}
    figures = await _sweep(rows).run()
    assert (figures.failures, rows.removed) == (1, ["1"])


async def test_shard_that_takes_all_the_time_keeps_no_other_from_its_turn() -> None:
    """Those that had none come first."""
    rows = Rows([], [], [], [])
    rows.hanging = {1}
    sweep = _sweep(rows)
    assert [(await sweep.run()).unfinished for _ in range(3)] == [True, True, True]
    assert rows.read == [0, 1, 2, 3, 1, 0, 1]


async def test_sweep_goes_on_where_the_last_one_was_cut_short() -> None:
    """What is behind is fixed, and not compared again; what is ahead is not taken for gone."""
    names = ("a", "b", "d", "e", "f", "h")
    right = [_index(name, f"of {name}") for name in names if name not in {"b", "f"}]
    gone = [_index(name, name) for name in ("c", "g", "i")]
    rows = Rows([*right, *gone, *(_task(name, f"of {name}") for name in names)])
    sweep = _sweep(rows, *names, window=2)
    rows.pages = 2
    first = await sweep.run()
    assert (first.unfinished, first.tasks, rows.fixed, rows.removed) == (True, 4, {"b": []}, ["c"])
    rows.pages = 1_000
    second = await sweep.run()
    assert (second.unfinished, second.tasks, second.index_rows) == (False, 2, 3)
    assert (rows.fixed, rows.removed) == ({"b": [], "f": []}, ["c", "g", "i"])
    assert (await sweep.run()).tasks == len(names)


async def test_sweep_that_takes_too_long_is_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host would end it, and the process with it."""
    rows = Rows([])
    monkeypatch.setattr(full_sweep, "_LONGEST", 0.01)
    monkeypatch.setattr(rows, "indexed", lambda *_, **__: asyncio.sleep(60))
    assert (await _sweep(rows).run()).unfinished
