"""The core keeps its promises in every order of events that a few runs, faults and an operator can cause.

The model sees bugs that are planted in the core: each of its rules is violated by one of them.
"""

from __future__ import annotations

import sys

import pytest

from tests.model.search import search
from tests.model.workflows import SEARCHES
from tests.simulation.planted import PLANTED, Edit, planted

pytestmark = [pytest.mark.timeout(1800), pytest.mark.no_cover]

#: Transitions of each search, at least: together more than 2.8 million.
_LEAST = {
    "small": 180_000,
    "time limit": 130_000,
    "kept side by side": 450_000,
    "undone side by side": 300_000,
    "operator": 1_170_000,
    "faults": 640_000,
}
_BY_DAY = {"small"}
_NAMES = [pytest.param(name, marks=[] if name in _BY_DAY else pytest.mark.night) for name in SEARCHES]
#: Planted bugs of the simulation, with the search that sees each one.
_SEEN = {
    "undo_of_completed_steps_only": "small",
    "undo_in_order_of_dispatch": "small",
    "verdict_of_another_epoch_counts": "small",
    "late_reply_counts": "small",
    "outcome_of_an_old_epoch_counts": "small",
    "epoch_ends_during_a_payment": "small",
    "run_repeats_a_payment": "small",
    "run_repeats_an_overdue_call": "small",
    "overdue_payment_is_recovered": "small",
    "time_limit_applies_before_the_question": "time limit",
}
#: Further bugs, for the rules that those do not violate.
_EDITS = {
    "recoveries_have_no_end": (
        Edit("core.step_rules", "record.failures < settings.threshold +", "record.failures < 9 +"),
        Edit("core.epoch_rules", "settings.extended_waits[number]", "settings.extended_waits[-1]"),
    ),
    "recovery_counts_twice": (Edit("core.epoch_rules", "record.failures + 1 if", "record.failures + 2 if"),),
    "error_without_an_alert": (
        Edit(
            "core.epoch_rules",
            'record = add_message(record, MessageKind.ALERT, now, body={"cause": "error", "reason": reason})',
            "pass",
        ),
    ),
    "step_starts_before_its_needs": (
        Edit("core.derive", "if spec.needs.isdisjoint(awaited) and", "if len(spec.needs) < len(awaited) and"),
    ),
    "deadlines_are_ignored": (
        Edit(
            "core.deadline_rules", "after = _act_on_overdue(record, event, now, settings)", "after = record"
        ),
    ),
}


@pytest.mark.parametrize("name", _NAMES)
def test_every_state_is_sound_and_leads_to_an_end(name: str) -> None:
    """Each change, call and state is checked. From each state an end is reached without a further fault."""
    found = search(SEARCHES[name])
    sys.stdout.write(f"{name}: {found}\n")
    assert found.stuck == 0
    assert set(found.ends) >= {"Processed", "Error"}
    assert found.transitions >= _LEAST[name]


@pytest.mark.night
@pytest.mark.parametrize("bug", [*_SEEN, *_EDITS])
def test_planted_bug_is_seen_by_the_model(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule is violated, or no end can be reached from a state."""
    if bug in _EDITS:
        monkeypatch.setitem(PLANTED, bug, _EDITS[bug])
    with planted(bug):
        try:
            stuck = search(SEARCHES[_SEEN.get(bug, "small")]).stuck
        except AssertionError:
            return
    assert stuck > 0
