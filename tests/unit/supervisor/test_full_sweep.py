"""The full sweep fixes the index, corrupt rows are alerted once, and timers log what they did."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

import azure.durable_functions as df
import pytest

from functions.pattern.errors import TransientError, UnreadableError
from functions.pattern.identity import TaskId
from functions.pattern.index_rows import IndexFix, IndexRow, RowPage, TaskRow
from functions.pattern.store_ports import Stored
from functions.supervisor import damage, full_sweep
from functions.supervisor.blueprint import report_full_sweep, report_sweep, supervisor_blueprint
from functions.supervisor.damage import Damage
from functions.supervisor.full_sweep import FullSweep
from functions.supervisor.sweeping import SweepReport
from tests.fakes.clock import FakeClock
from tests.fakes.ports import fake_ports
from tests.fakes.store import MemoryStateStore
from tests.fakes.supervision import RecordedDamage, RecordedHeartbeats
from tests.fakes.task_index import MemoryTaskIndex
from tests.fakes.tasks import pending
from tests.fakes.vast_table import no_end
from tests.fakes.workflows import LINE
from tests.unit.supervisor.conftest import Bench


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
        """Read two tasks."""
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


def _sweep(rows: Rows, *tasks: str) -> FullSweep:
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
    return FullSweep(ports, Damage(ports, RecordedDamage().alert), window=1_000)


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


async def test_sweep_that_takes_too_long_is_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host would end it, and the process with it."""
    rows = Rows([])
    monkeypatch.setattr(full_sweep, "_LONGEST", 0.01)
    monkeypatch.setattr(rows, "indexed", lambda *_, **__: asyncio.sleep(60))
    assert (await _sweep(rows).run()).unfinished


BAD = UnreadableError("!due|x|task-9", "ValueError: Invalid isoformat string: 'x'")
_DAY = 24 * 60 * 60


async def test_damaged_rows_harm_no_other(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """Of the index, of a task, of the outbox: the others are recovered, and one alert names all three."""
    for task in ("task-1", "task-2", "task-3"):
        bench.store.put(pending(LINE, TaskId(task)))
    bench.store.damaged = {TaskId("task-2")}
    bench.index.damaged = [BAD]
    bench.outbox.damaged = [UnreadableError("!send|1notices|y", "ValueError: no JSON")]
    bench.clock.advance(36)
    figures = await bench.sweep()
    assert (figures.recovered, figures.failures, len(figures.damage)) == (2, 0, 3)
    [(rows, named)] = bench.damage.alerts
    assert rows == 3
    assert named.keys() == {BAD.key, "task-2|task", "!send|1notices|y"}
    assert named[BAD.key] == BAD.reason
    assert sum("can't be read" in text for text in caplog.messages) == 3
    assert bench.heartbeat.beats[-1]["unreadable"] == 3


async def test_operators_are_alerted_once(bench: Bench) -> None:
    """Not by every sweep, nor by another instance; by a row that joins, and by one that comes back later."""
    bench.index.damaged = [BAD]
    await bench.sweep()
    await bench.sweep()
    await bench.rival("two").run()
    assert len(bench.damage.alerts) == 1
    bench.index.damaged.append(UnreadableError("!due|y|task-8", "why"))
    await bench.sweep()
    assert [list(named) for _, named in bench.damage.alerts] == [[BAD.key], ["!due|y|task-8"]]
    bench.clock.advance(6 * _DAY)
    await bench.sweep()
    bench.clock.advance(6 * _DAY)
    await bench.sweep()
    assert len(bench.damage.alerts) == 2
    bench.index.damaged = []
    await bench.sweep()
    bench.clock.advance(8 * _DAY)
    bench.index.damaged = [BAD]
    await bench.sweep()
    assert len(bench.damage.alerts) == 3


async def test_damage_without_bound_is_alerted_within_bounds(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rollback can make thousands of rows unreadable: one alert names some, and what is kept is bounded."""
    monkeypatch.setattr(damage, "_MOST", 50)
    bench.index.damaged = [UnreadableError(f"!due|x|task-{number}", "why") for number in range(80)]
    for _ in range(2):
        await bench.sweep()
    assert [(rows, len(named)) for rows, named in bench.damage.alerts] == [(50, 10)]
    assert bench.heartbeat.beats[-1]["unreadable"] == 80


@pytest.fixture(autouse=True)
def _everything_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def _full_sweep(bench: Bench, rows: Rows) -> FullSweep:
    index = MemoryTaskIndex(bench.store, shards=rows.count)
    ports = replace(bench.ports, index=index, index_rows=rows)
    return FullSweep(ports, Damage(ports, bench.damage.alert))


async def test_timers_sweep_on_their_schedules(bench: Bench) -> None:
    """The setting's for the sweep, daily for the full one."""
    rows = Rows([])
    app = df.DFApp()
    app.register_functions(
        supervisor_blueprint(
            replace(bench.parts, full_sweep=_full_sweep(bench, rows)), schedule="*/30 * * * * *"
        )
    )
    timers = app.get_functions()
    built = {each.get_function_name(): each.get_trigger().schedule for each in timers}
    assert built == {"supervisor": "*/30 * * * * *", "full_sweep": "0 0 3 * * *"}
    for each in timers:
        await each.get_user_function()(None)
    assert (len(bench.heartbeat.beats), rows.read) == (1, [0])


async def test_sweep_logs_one_line_with_what_it_did(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """Only the figures that are not zero."""
    bench.store.put(pending(LINE))
    bench.clock.advance(36)
    await report_sweep(bench.supervisor)
    assert caplog.messages == [
        'supervisor sweep {"found": 1, "overdue": 1, "recovered": 1, "oldest_overdue": 6.0}'
    ]


async def test_sweep_with_nothing_to_do_gives_a_sign_of_life(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """An alert rule can only see that the line is missing if it always comes."""
    await report_sweep(bench.supervisor)
    assert [(each.levelno, each.getMessage()) for each in caplog.records] == [
        (logging.INFO, "supervisor sweep {}")
    ]


async def test_unfinished_sweep_is_a_warning(
    bench: Bench, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks were left that nobody has looked at."""

    async def cut_short() -> SweepReport:
        return SweepReport(unfinished=True)

    monkeypatch.setattr(bench.supervisor, "run", cut_short)
    await report_sweep(bench.supervisor)
    [line] = caplog.records
    assert (line.levelno, line.getMessage()) == (logging.WARNING, 'supervisor sweep {"unfinished": true}')


async def test_sweep_that_fails_is_an_error_an_alert_can_match(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """No shard could be read, so it is no sign of life; the timer does not raise."""
    bench.index.failure = TransientError("Table Storage: ServiceRequestError")
    await report_sweep(bench.supervisor)
    line = caplog.records[-1]
    assert (line.levelno, line.getMessage()) == (logging.ERROR, "supervisor sweep failed")
    assert not bench.heartbeat.beats


async def test_full_sweep_that_fixes_is_a_warning(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing should ever have to be fixed."""
    await report_full_sweep(_full_sweep(bench, Rows([_index("gone", "1")])))
    line = caplog.records[-1]
    assert (line.levelno, line.getMessage()) == (
        logging.WARNING,
        'full sweep {"index_rows": 1, "deleted": 1}',
    )


async def test_full_sweep_always_logs_its_line(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """Once a day, also when all is well."""
    await report_full_sweep(_full_sweep(bench, Rows([])))
    assert [(each.levelno, each.getMessage()) for each in caplog.records] == [(logging.INFO, "full sweep {}")]


async def test_full_sweep_that_fails_is_an_error(
    bench: Bench, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The timer does not raise."""
    sweep = _full_sweep(bench, Rows([]))
    monkeypatch.delattr(MemoryTaskIndex, "shards")
    await report_full_sweep(sweep)
    assert (caplog.records[-1].levelno, caplog.messages[-1]) == (logging.ERROR, "full sweep failed")
