"""Rows that can't be read are passed over, counted, named, and alerted once."""

from __future__ import annotations

import pytest

from functions.pattern.errors import UnreadableError
from functions.pattern.identity import TaskId
from functions.supervisor import damage
from tests.fakes.tasks import pending
from tests.fakes.workflows import LINE
from tests.unit.supervisor.bench import Bench

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
