"""The invariants of drawn workflows: each is violated by the one thing that it forbids."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from functions.pattern.definition import Step, Workflow
from functions.pattern.identity import StepName
from functions.pattern.states import Remedy
from functions.workflows.registration import Registration
from tests.chaos.evidence.alerts import PostedAlert
from tests.chaos.evidence.evidence import Evidence
from tests.chaos.evidence.observer import Observations
from tests.chaos.evidence.rows import RawEpoch, RawStep
from tests.chaos.invariants import Invariant, violations
from tests.chaos.plan.schedule import Plan, Scenario
from tests.chaos.remotes.ledger import CallDirection, Effect, Ledger, ServiceCall
from tests.chaos.sample_evidence import (
    ORDER,
    after,
    call,
    compensated,
    notice,
    processed,
    sending,
    task,
)
from tests.chaos.sample_evidence import rows as sample_rows
from tests.simulation.drawn.parcels import DrawnParcel, request

_DRAWN = Workflow(
    name="w0",
    resource="w0s",
    payload=DrawnParcel,
    steps=(
        Step(StepName("a"), agent="red", request=request, complete_within=4, undo=True),
        Step(
            StepName("b"),
            agent="red",
            request=request,
            complete_within=4,
            undo=True,
            needs=frozenset({StepName("a")}),
        ),
        Step(StepName("c"), agent="red", request=request, complete_within=4, on_failure=Remedy.CONTINUE),
        Step(StepName("d"), agent="red", request=request, complete_within=4, idempotent=False),
    ),
)


rows = partial(sample_rows, workflow=("w0", 1))


@pytest.fixture(autouse=True)
def _one_drawn_workflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the sample's order be of a workflow of four steps."""
    monkeypatch.setattr(Plan, "registrations", (Registration(_DRAWN),))
    monkeypatch.setattr(Plan, "scenarios", {ORDER: Scenario.DRAWN})


def test_correct_runs_violate_nothing() -> None:
    """A step that may fail has; one was not needed; all others are done, or undone in reverse."""
    assert violations(_processed()) == []
    assert violations(_compensated()) == []


@pytest.mark.parametrize(
    ("invariant", "step"),
    [
        (Invariant.NET_EFFECT, ("a", "Failed")),
        (Invariant.NET_EFFECT, ("b", "Running")),
        (Invariant.NET_EFFECT, ("b", "Skipped")),
        (Invariant.ORDER, ("a", "Running")),
    ],
)
def test_what_spoils_a_processed_order_is_found(invariant: Invariant, step: tuple[str, str]) -> None:
    """One step is in a state that the order's end, or the ledger, contradicts."""
    evidence = _processed()
    steps = [_step(*step) if each.name == step[0] else each for each in evidence.tasks[ORDER].steps]
    assert invariant in _broken(replace(evidence, tasks={ORDER: rows(task("Processed", 1), *steps)}))


def test_what_must_not_be_repeated_is_carried_out_each_time() -> None:
    """The service knows no keys, and the ledger counts both."""
    ledger = Ledger(sent_once={"d"})
    key = f"{ORDER}.0a1b2c3d/d/do"
    for _ in range(2):
        ledger.carry_out(ledger.arrive(ORDER, key, CallDirection.DO, sending(1.5)))
    assert [each.effect for each in ledger.calls] == [Effect.PERFORMED] * 2
    calls = [*_processed().calls[:-1], *ledger.calls]
    assert _broken(replace(_processed(), calls=calls)) == {Invariant.ONE_EFFECT}


def test_need_that_is_undone_first_is_found() -> None:
    """Undo goes in reverse."""
    spoilt = [
        replace(each, sending=sending(13.5), carried_out=after(13.5)) if each.key.endswith("a/undo") else each
        for each in _compensated().calls
    ]
    assert _broken(replace(_compensated(), calls=spoilt)) == {Invariant.ORDER}


@pytest.mark.parametrize(("need", "called", "is_broken"), [("a", 3.0, True), ("a", 1.2, False)])
def test_step_that_is_called_before_what_it_needs_is_found(
    need: str, called: float, *, is_broken: bool
) -> None:
    """Its rows say nothing of that at the end; what it needs may be called again later, to no effect."""
    again = replace(_call(need, CallDirection.DO, 4.0), effect=Effect.REPEATED)
    calls = [_call("b", CallDirection.DO, 1.5), _call("d", CallDirection.DO, 1.5), again]
    calls.append(_call(need, CallDirection.DO, called))
    steps = [
        each.model_copy(update={"complete_by": after(9)}) if each.name == need else each
        for each in _processed().tasks[ORDER].steps
    ]
    early = replace(_processed(), calls=calls, tasks={ORDER: rows(task("Processed", 1), *steps)})
    assert (Invariant.ORDER in _broken(early)) is is_broken


def test_what_may_fail_may_be_carried_out_after_what_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was gone on without, as nobody knew its outcome."""
    *others, last = _DRAWN.steps
    needing = replace(_DRAWN, steps=(*others, replace(last, needs=frozenset({StepName("c")}))))
    monkeypatch.setattr(Plan, "registrations", (Registration(needing),))
    late = [*_processed().calls, _call("c", CallDirection.DO, 3)]
    assert Invariant.ORDER not in _broken(replace(_processed(), calls=late))


def test_task_that_was_born_without_one_of_its_steps_is_found() -> None:
    """It has others."""
    evidence = replace(_processed(), tasks={ORDER: rows(task("Processed", 1), *map(_step, "abd"))})
    assert Invariant.ATOMIC_BIRTH in _broken(evidence)


def test_step_that_has_an_undo_and_stands_is_found() -> None:
    """One without an undo may stand."""
    left = [each for each in _compensated().calls if not each.key.endswith("b/undo")]
    assert _broken(replace(_compensated(), calls=left)) == {Invariant.NET_EFFECT}


def test_alert_of_what_is_noted_needs_no_error() -> None:
    """What was gone on without was done after all: operators are told, and the task is as it is."""
    said = "gone on without, but it was done after all"
    evidence = replace(_processed(), alerts=(PostedAlert(ORDER, 1, f"c: {said}"),))
    assert _broken(evidence) == {Invariant.ALERTS}
    steps = [each.model_copy(update={"noted": said}) for each in evidence.tasks[ORDER].steps]
    assert _broken(replace(evidence, tasks={ORDER: rows(task("Processed", 1), *steps)})) == set()


def test_alert_of_a_doubt_that_has_gone_is_of_a_step_that_was_under_way() -> None:
    """Its task was undone without it; that it was not done became known later."""
    doubt = PostedAlert(ORDER, 2, "c: its outcome is unknown, and it has no undo: if it was done, it stands")
    evidence = _compensated()
    evidence = replace(evidence, alerts=(*evidence.alerts, doubt))
    assert _broken(evidence) == {Invariant.ALERTS}
    of = evidence.tasks[ORDER]
    steps = [_step("c", "Running") if each.name == "c" else each for each in of.history[0].steps]
    closed = of.history[0].model_copy(update={"steps": tuple(steps)})
    known = replace(evidence, tasks={ORDER: of.model_copy(update={"history": (closed,)})})
    assert Invariant.ALERTS not in _broken(known)


def test_run_in_which_nothing_drawn_was_called_proves_nothing() -> None:
    """Its orders were lost before their first step."""
    assert Invariant.NOT_VACUOUS in _broken(replace(_processed(), calls=()))


def _processed() -> Evidence:
    steps = (_step("a"), _step("b"), _step("c", "Failed"), _step("d"))
    calls = [_call(name, CallDirection.DO, 1.5) for name in ("a", "b", "d")]
    return replace(processed(), tasks={ORDER: rows(task("Processed", 1), *steps)}, calls=calls)


def _compensated() -> Evidence:
    base = compensated()
    was = (_step("a"), _step("b"), _step("c", "NotStarted"), _step("d", "NotStarted"))
    end = (_undone("a"), _undone("b"), _step("c", "Skipped"), _step("d", "Skipped"))
    closed = RawEpoch(
        epoch=1,
        ended_by="exhausted",
        ended_at=after(12),
        state="Processing",
        direction="do",
        locked_by=f"{ORDER}.1",
        steps=was,
    )
    calls = [
        *(_call(name, CallDirection.DO, 1.5) for name in ("a", "b")),
        *(_call(name, CallDirection.UNDO, at) for name, at in (("b", 14), ("a", 15))),
    ]
    now = task("Compensated", 2, direction="undo")
    return replace(
        base,
        tasks={ORDER: rows(now, *end, history=(closed,))},
        observations=Observations({ORDER: [now]}, [], 3),
        calls=calls,
        notices=(notice("received", 1, 0.5), notice("compensated", 2, 14)),
        alerts=(PostedAlert(ORDER, 1, "given up"),),
    )


def _step(name: str, state: str = "Completed") -> RawStep:
    if state in {"NotStarted", "Skipped"}:
        return RawStep(name=name, state=state)
    return RawStep(
        name=name, state=state, epoch=1, started_at=after(1), complete_by=after(5), finished_at=after(2)
    )


def _undone(name: str) -> RawStep:
    return RawStep(
        name=name, state="Undone", epoch=2, started_at=after(1), complete_by=after(18), finished_at=after(16)
    )


def _call(step: str, direction: CallDirection, at: float) -> ServiceCall:
    return call(direction, at, key=f"{ORDER}.0a1b2c3d/{step}/{direction}")


def _broken(evidence: Evidence) -> set[Invariant]:
    return {violation.invariant for violation in violations(evidence)}
