"""The timers: they are registered with their schedules, never raise, and log what an operator needs."""

from __future__ import annotations

import logging
from dataclasses import replace

import azure.durable_functions as df
import pytest

from functions.pattern.errors import TransientError
from functions.supervisor.blueprint import report_full_sweep, report_sweep, supervisor_blueprint
from functions.supervisor.damage import Damage
from functions.supervisor.full_sweep import FullSweep
from functions.supervisor.sweeping import SweepReport
from tests.fakes.task_index import MemoryTaskIndex
from tests.fakes.tasks import pending
from tests.fakes.workflows import LINE
from tests.unit.supervisor.bench import Bench
from tests.unit.supervisor.test_full_sweep import Rows, _index


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
