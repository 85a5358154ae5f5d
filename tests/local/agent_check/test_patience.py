"""The kit waits for an Agent as long as it is at work, by what it needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from local.agent_check.patience import Patience
from tests.local.agent_check.planted import check_changed

#: Two seconds for each request, and a start that takes longer than what it is waited for later.
_SLOW = [
    (
        "            reply = answer(ledger, request)\n",
        "            time.sleep(2)\n            reply = answer(ledger, request)\n",
    ),
    (
        "    while True:\n        try:\n            ledger",
        "    time.sleep(20)\n    while True:\n        try:\n            ledger",
    ),
]
_ALL_AT_ONCE = [
    "the same request once more",
    "an undo twice",
    "taken after complete by",
    "another schema version",
    "rubbish",
    "the largest request",
]


@pytest.mark.parametrize(
    ("lock", "needs", "seconds"), [(15, 0.1, 30), (15, 20, 100), (5, 0.1, 10), (5, 90, 300)]
)
def test_patience_follows_what_the_agent_needs(lock: float, needs: float, seconds: float) -> None:
    """At least two locks, at most five minutes."""
    assert Patience(lock, needs).seconds == seconds


def test_patience_begins_anew() -> None:
    """With what is heard, with the end of the locks after a crash, and when the Agent is back."""
    patience = Patience(15)
    assert patience.ends(100, 90) == 130
    assert patience.ends(100, 90, 300) == 400
    assert patience.ends(100, 110, 300) == 140
    patience.killed = 105
    assert patience.ends(100, 110) == 150
    patience.back = 130
    assert patience.ends(100, 110) == 160


@pytest.mark.night
@pytest.mark.process
@pytest.mark.timeout(900)
def test_slow_agent_is_passed(tmp_path: Path) -> None:
    """One process has much to do; as long as it is at work, it is waited for."""
    report = check_changed(_SLOW, _ALL_AT_ONCE, tmp_path, processes=1)
    assert report.checks("passed") >= set(_ALL_AT_ONCE), report.text
    assert report.code == 0
