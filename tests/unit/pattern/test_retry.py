"""How calls are made again: bounded, and told in one place."""

from __future__ import annotations

from typing import Any

import pytest

from functions.pattern.retry import Retry
from functions.pattern.states import FaultKind


@pytest.mark.parametrize(
    "given",
    [
        {"attempts": 0},
        {"attempts": 1_001},
        {"attempts": 2.5},
        {"first": 0},
        {"first": 20},
        {"most": 86_401},
        {"factor": 0.5},
        {"factor": 11},
        {"on": {"bad luck"}},
    ],
    ids=str,
)
def test_retry_without_bounds_is_refused(given: dict[str, Any]) -> None:
    """Where it is written down."""
    with pytest.raises(ValueError, match=r"must be|not a valid FaultKind"):
        Retry(**given)


def test_waits_grow_up_to_the_longest() -> None:
    """By the factor, however many attempts there are."""
    retry = Retry(first=1, factor=3, most=20)
    assert [retry.longest_wait(attempt) for attempt in (1, 2, 3, 4, 1_000)] == [1, 3, 9, 20, 20]


def test_only_named_faults_are_worth_another_attempt() -> None:
    """They may be written as texts. A fault that an Agent of one's own raises without its kind always is."""
    retry = Retry(on=frozenset({FaultKind.BUSY}))
    assert retry.is_worth_it(FaultKind.BUSY)
    assert retry.is_worth_it(None)
    assert not retry.is_worth_it(FaultKind.SERVER_ERROR)
