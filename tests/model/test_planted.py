"""The model sees bugs that are planted in the core: each of its rules is violated by one of them."""

from __future__ import annotations

import pytest

from tests.model.search import search
from tests.model.workflows import SEARCHES
from tests.simulation.planted import PLANTED, Edit, planted

pytestmark = [pytest.mark.night, pytest.mark.no_cover, pytest.mark.timeout(1800)]

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
        Edit("core.conclusions", "settings.extended_waits[number]", "settings.extended_waits[-1]"),
    ),
    "recovery_counts_twice": (
        Edit("core.conclusions", "record.failures + is_recovery", "record.failures + 2 * is_recovery"),
    ),
    "error_without_an_alert": (
        Edit(
            "core.conclusions",
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


@pytest.mark.parametrize("bug", [*_SEEN, *_EDITS])
def test_planted_bug_is_seen_by_the_model(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule is violated, or no end can be reached from a state."""
    if bug in _EDITS:
        monkeypatch.setitem(PLANTED, bug, _EDITS[bug])
    with planted(bug):
        assert _is_violated(_SEEN.get(bug, "small"))


def _is_violated(name: str) -> bool:
    try:
        return search(SEARCHES[name]).stuck > 0
    except AssertionError:
        return True
