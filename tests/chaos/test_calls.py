"""Calls are judged by when they were sent, and by each dispatch of their step, whatever clocks told."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.chaos.evidence.clocks import ToldTimes
from tests.chaos.evidence.dispatches import Dispatch, Request
from tests.chaos.evidence.evidence import Evidence
from tests.chaos.hosts.clock import ClockSetting
from tests.chaos.invariants import Invariant, violations
from tests.chaos.remotes.ledger import CallDirection, Effect
from tests.chaos.sample_evidence import ORDER, after, call, compensated, processed, sending, step


@pytest.mark.parametrize(("turn", "is_late"), [(2.9, False), (3.1, True)])
def test_call_is_late_if_its_host_could_know_that_when_it_was_sent(turn: float, *, is_late: bool) -> None:
    """One that is frozen has read its clock before, and calls after. When the call arrives says nothing."""
    sent = replace(sending(4, turn=turn), ends_at=after(3), complete_by=after(5))
    calls = (replace(processed().calls[0], sending=sent, arrived=after(9)),)
    broken = {Invariant.SILENCE_OF_THE_LATE} if is_late else set()
    assert _broken(replace(processed(), calls=calls)) == broken


def test_call_has_no_more_time_than_its_dispatch() -> None:
    """An Agent that gives itself more acts after complete-by, though not by its own reckoning."""
    calls = (replace(processed().calls[0], sending=sending(1.5, within=3.6)),)
    late = replace(processed(), calls=calls)
    assert _broken(late) == {Invariant.SILENCE_OF_THE_LATE}
    first = Dispatch("payment", "do", after(1), after(5.2))
    assert _broken(replace(late, asked={ORDER: {Request(1, first)}})) == set()


@pytest.mark.parametrize(("started", "called", "is_known"), [(0.5, 0.8, True), (0.9, 0.8, False)])
def test_call_belongs_to_a_dispatch_that_the_next_one_has_replaced(
    started: float, called: float, *, is_known: bool
) -> None:
    """A request that came twice was carried out, and waited too long: that it was asked for is known."""
    first = Dispatch("payment", "do", after(started), after(started + 4))
    calls = (call(CallDirection.DO, called), call(CallDirection.DO, 1.5, Effect.REPEATED))
    twice = replace(processed(), calls=calls)
    assert Invariant.ORDER in _broken(twice)
    assert (Invariant.ORDER not in _broken(replace(twice, asked={ORDER: {Request(1, first)}}))) is is_known


@pytest.mark.parametrize(
    ("epoch", "at", "is_vouched"),
    [(1, 1.1, True), (1, 0.8, False), (2, 1.1, False)],
)
def test_journal_is_no_proof_of_what_rows_do_not_show(epoch: int, at: float, *, is_vouched: bool) -> None:
    """It is written by the act of sending: a step asked for before it was recorded, or never, is found."""
    assert _is_vouched(processed(), epoch, Dispatch("payment", "do", after(at), after(5))) is is_vouched


@pytest.mark.parametrize(("epoch", "is_vouched"), [(3, True), (2, False)])
def test_undo_is_asked_for_in_an_epoch_of_undoing(epoch: int, *, is_vouched: bool) -> None:
    """Its row tells the begin of what it undoes."""
    assert _is_vouched(compensated(), epoch, Dispatch("payment", "undo", after(13), after(20))) is is_vouched


def _is_vouched(evidence: Evidence, epoch: int, asked: Dispatch) -> bool:
    return asked in replace(evidence, asked={ORDER: {Request(epoch, asked)}}).dispatches_of(ORDER)


@pytest.mark.parametrize(("since", "is_known"), [(0.5, True), (1.5, False)])
def test_first_dispatch_may_tell_a_later_time_than_the_next(since: float, *, is_known: bool) -> None:
    """Its host's clock was three seconds ahead when the step was called, or only later."""
    evidence = compensated()
    recovered, exhausted = evidence.tasks[ORDER].history
    ahead = recovered.model_copy(update={"steps": (step("Running", 1, started=4.0),)})
    again = exhausted.model_copy(update={"steps": (step("Running", 2, started=2.0),)})
    told = ToldTimes(
        [[ClockSetting(after(at), timedelta(seconds=by), after(at)) for at, by in _ahead(since)]]
    )
    its_rows = evidence.tasks[ORDER].model_copy(update={"history": (ahead, again)})
    found = _broken(replace(evidence, tasks={ORDER: its_rows}, told=told))
    assert (Invariant.ORDER not in found) is is_known


def _ahead(since: float) -> list[tuple[float, float]]:
    """Have a clock be three seconds ahead for one second."""
    return [(0, 0), (since, 3), (since + 1, 0)]


def _broken(evidence: Evidence) -> set[Invariant]:
    return {violation.invariant for violation in violations(evidence)}
