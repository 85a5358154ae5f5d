"""The simulation judges rightly: its rows, effects, alerts, report and kept figures."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from functions.pattern.announcements import announcements
from functions.pattern.errors import TransientError
from functions.pattern.events import Claimed, Recovered, StepStarted
from functions.pattern.identity import Epoch, SchedulerId, StartId, TaskId
from functions.pattern.records import Order, TaskRecord
from functions.pattern.refusals import Refused
from functions.pattern.transitions import admit, apply
from functions.store.entities import entity, outbox_entity, task_entity
from functions.store.index_entities import index_entity
from functions.store.keys import epoch_row, order_row, step_row
from tests.fakes.orders import ORDERS, PAYMENT
from tests.fakes.workflows import BIRTH
from tests.simulation.checks.alerts import posted, unnamed
from tests.simulation.checks.every import one_effect
from tests.simulation.checks.rows import tasks_of
from tests.simulation.faults.kinds import SimulatedFault
from tests.simulation.remotes.ledger import RemoteCall, RemoteLedger
from tests.simulation.run import figures
from tests.simulation.run.drawn_run import Scenario, simulate
from tests.simulation.run.figures import Figures, KeptFigures, What
from tests.simulation.run.platform import Platform
from tests.simulation.run.report import Report
from tests.simulation.run.verdict import run_seed
from tests.simulation.tables.rows import terms_of
from tests.simulation.world.world import CalmFates

_WIDE = 40
_log = logging.getLogger("functions.supervisor")


async def _goes_wrong(_platform: Platform) -> None:
    for error in (TransientError("no store"), ValueError("a defect")):
        _log.error("left to the next run", exc_info=error)


def test_defect_that_is_logged_is_found() -> None:
    """What the world around the application does is none; afterwards all is logged as before."""
    _, world = simulate(1, CalmFates(Random(1)), _goes_wrong, {})
    assert world.loop.unhandled == ["left to the next run: ValueError: a defect"]
    assert _log.isEnabledFor(logging.ERROR)


def test_some_graphs_are_as_wide_as_a_workflow_can_be() -> None:
    """All their steps are ready at once; and how wide a graph is, its verdict tells."""
    wide = [seed for seed in range(300) if _at_once(seed) == _WIDE]
    assert wide
    assert run_seed(wide[0]).widest == _WIDE


def _at_once(seed: int) -> int:
    graphs = (each.workflow.steps for each in Scenario.drawn(seed).registrations)
    return max(sum(not step.needs for step in steps) for steps in graphs)


def test_filter_may_name_alternatives() -> None:
    """As that for old rejected messages does."""
    [before, either] = terms_of("At lt '5' and ( RowKey ge 'n' or GoneAt lt '5' )")
    rows = [{"At": "4", "RowKey": "a"}, {"At": "4", "RowKey": "z"}, {"At": "4", "RowKey": "a", "GoneAt": "3"}]
    assert [before.holds(row) and either.holds(row) for row in rows] == [False, True, True]


def _seen(*births: str) -> list[str]:
    """Have a payment be made under each birth, of which the order's row has the first; give what is found."""
    ledger = RemoteLedger()
    for birth in births:
        call = RemoteCall("payment", f"o-1.{birth}/payment/do", 0.0)
        ledger.calls.append(call)
        ledger.carry_out(call, 0.0)
    evidence: Any = type("Evidence", (), {"ledger": ledger, "births": {"o-1": births[0]}})
    return [violation.what for violation in one_effect(evidence)]


def test_payments_under_five_births_are_five_effects() -> None:
    """Each key is a service's own, and so each is paid."""
    assert _seen("b1", "b2", "b3", "b4", "b5") == [
        "payment was done 5 times",
        *(
            f"o-1.{birth}/payment/do was called, and its task's birth is b1"
            for birth in ("b2", "b3", "b4", "b5")
        ),
    ]


def test_call_that_is_repeated_is_one_effect() -> None:
    """It has the same key."""
    assert _seen("b1", "b1") == []


def _report(kinds: frozenset[str], outcomes: dict[str, int], widest: int) -> Report:
    report = Report()
    report.add(
        Figures(
            seed=0,
            violations=(),
            digest="",
            outcomes=outcomes,
            faults={},
            kinds=kinds,
            seconds=0,
            cpu=0,
            widest=widest,
            deepest=10,
        )
    )
    return report


def test_run_in_which_everything_happened_is_not_vacuous() -> None:
    """Each kind of faults, each outcome, and wide and deep graphs."""
    every = _report(frozenset(SimulatedFault), {"Processed": 9, "Compensated": 1, "Error": 1}, 40)
    assert every.vacuous == []


def test_what_happened_too_seldom_is_named() -> None:
    """A kind that never had an effect, an outcome below a twentieth, graphs that are too narrow."""
    kinds = frozenset(SimulatedFault) - {SimulatedFault.POISON}
    poor = _report(kinds, {"Processed": 90, "Compensated": 9, "Error": 1}, 39)
    assert poor.vacuous == ["Error", SimulatedFault.POISON, "40 steps wide"]


def test_seeds_in_which_no_task_was_processed_prove_little() -> None:
    """Whatever else happened in them."""
    stuck = _report(frozenset(SimulatedFault), {"Compensated": 1, "Error": 1}, 40)
    assert stuck.vacuous == ["Processed", "seeds with a task that was processed"]


def _figures(seed: int, *violations: str) -> Figures:
    return Figures(
        seed=seed,
        violations=violations,
        digest="",
        outcomes={"Processed": 2, "Error": 1},
        faults={"crashes": 3},
        kinds=frozenset({"crashes"}),
        seconds=5_400,
        cpu=0,
        widest=1,
        deepest=1,
    )


def test_kept_figures_know_their_commit(tmp_path: Path) -> None:
    """It is the one that was there when the seed ran."""
    KeptFigures(tmp_path).keep(_figures(1))
    [kept] = KeptFigures(tmp_path).read()
    assert len(kept.commit) >= 7
    assert kept == _figures(1).model_copy(update={"commit": kept.commit})


def test_line_that_was_cut_off_costs_its_own_seed_only(tmp_path: Path) -> None:
    """The process was killed while it wrote; who goes on runs that seed again, and each counts once."""
    kept = KeptFigures(tmp_path)
    for seed in (1, 2):
        kept.keep(_figures(seed))
    [file] = tmp_path.iterdir()
    file.write_text(file.read_text(encoding="utf-8")[:-20], encoding="utf-8")
    assert [*kept.known()] == [1]
    for seed in (2, 3, 3):
        kept.keep(_figures(seed))
    assert [each.seed for each in kept.read()] == [1, 2, 3]


def test_what_another_commit_violated_is_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What this one violated is not, and what was right stays so."""
    before = KeptFigures(tmp_path)
    before.keep(_figures(1, "I1"))
    before.keep(_figures(2))
    monkeypatch.setattr(figures, "_commit", lambda: "later")
    now = KeptFigures(tmp_path)
    now.keep(_figures(3, "I2"))
    assert [*now.known()] == [2, 3]


def test_what_changed_code_violated_is_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows whether the changes are the same."""
    monkeypatch.setattr(figures, "_commit", lambda: "12345678+changed")
    kept = KeptFigures(tmp_path)
    kept.keep(_figures(1, "I1"))
    kept.keep(_figures(2))
    assert [*kept.known()] == [2]


def test_what_is_kept_of_seeds_stands_for_no_other_runs(tmp_path: Path) -> None:
    """Pairs and calm seeds have the same numbers."""
    KeptFigures(tmp_path, What.PAIRS).keep(_figures(1))
    KeptFigures(tmp_path, What.CALM).keep(_figures(2))
    seeds = KeptFigures(tmp_path)
    seeds.keep(_figures(3))
    assert [*seeds.known()] == [3]
    assert [*KeptFigures(tmp_path, What.PAIRS).known()] == [1]


_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_LATER = _NOW + timedelta(seconds=9)
_TASK = TaskId("order-1")


def test_rows_of_a_recovered_task_are_read() -> None:
    """The task, its steps, closed epochs and announcements."""
    record = _recovered()
    found = tasks_of(_rows(record))[_TASK]
    assert found.task is not None
    assert (found.task.state, found.task.epoch, found.task.failure_count) == ("Pending", 2, 1)
    (closed,) = found.history
    assert (closed.ended_by, closed.state, closed.locked_by) == ("recovered", "Processing", "order-1.1")
    assert (closed.steps[0].state, closed.steps[0].complete_by) == ("Running", _LATER)
    assert found.steps[0].started_at == _NOW
    assert len(found.outbox) == 1
    assert not found.is_finished


def _recovered() -> TaskRecord:
    order = Order(
        task=_TASK,
        birth=BIRTH,
        workflow="orders",
        workflow_version=1,
        shape=ORDERS.shape,
        payload=b"{}",
        digest="",
        submitter="",
        submitted_at=_NOW,
        reply_to="notices-demo",
    )
    record = admit(order, pick_up_by=_LATER)
    scheduler = SchedulerId("order-1.1")
    for event, at in (
        (Claimed(epoch=Epoch(1), scheduler=scheduler, start_by=_LATER), _NOW),
        (
            StepStarted(
                epoch=Epoch(1),
                scheduler=scheduler,
                step=PAYMENT,
                complete_by=_LATER,
                activity=1,
                start_id=StartId("s"),
            ),
            _NOW,
        ),
        (Recovered(epoch=Epoch(1), start_by=_LATER), _LATER),
    ):
        changed = apply(record, event, at)
        assert not isinstance(changed, Refused)
        record = changed
    return record


def _rows(record: TaskRecord) -> list[dict[str, Any]]:
    rows = [
        task_entity(record.task, ("a write",)),
        entity(order_row(record.order.task), record.order),
        *(entity(step_row(_TASK, number), step) for number, step in enumerate(record.steps)),
        *(entity(epoch_row(_TASK, closed.epoch), closed) for closed in record.history),
        index_entity(record),
        *(outbox_entity(each) for each in announcements(None, record)),
    ]
    return sorted(rows, key=lambda row: str(row["RowKey"]))


def test_summary_that_is_posted_again_excuses_no_other_alert() -> None:
    """The largest count of a summary counts; alerts of lost messages are not counted."""
    causes = "operator alert: orders: Error: (no) money ({}); message lost: queue (7); other causes (2)"
    body = {"event": "more alerts", "alerts": 99, "since": "2026-01-01T12:00:00Z"}
    again = [posted({**body, "causes": causes.format(count)}) for count in (19, 20)]
    other = posted({**body, "since": "2026-01-01T12:05:00Z", "causes": causes.format(1)})
    assert unnamed([*again, other]) == 25
