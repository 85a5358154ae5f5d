"""How far a hub's readers are, by numbers and times alone."""

from __future__ import annotations

from datetime import timedelta

from functions.pattern.hub_positions import Gap, HubPartition, Lag, Sample, lag_of, waits_since
from tests.fakes.clock import START

_LAG = Lag("0", checkpoint=10, last=20, waiting=10, gap=None)


def _sample(hours: int, last: int) -> Sample:
    return Sample(START + timedelta(hours=hours), {"0": last})


def test_lag_counts_from_the_checkpoint() -> None:
    """Without one, from the first that is kept."""
    assert lag_of(HubPartition("0", 5, 20), 10) == _LAG
    assert lag_of(HubPartition("0", 5, 20), None) == Lag("0", None, 20, 16, None)
    assert lag_of(HubPartition("0", 0, -1), None).waiting == 0


def test_gap_is_what_was_dropped_before_it_was_taken() -> None:
    """Up to the first that is kept."""
    assert lag_of(HubPartition("0", 12, 20), 10).gap == Gap("0", 11, 11)
    assert Gap("0", 11, 11).count == 1
    assert lag_of(HubPartition("0", 11, 20), 10).gap is None


def test_oldest_event_waits_since_the_last_sample_without_it() -> None:
    """At the longest; when all samples have it, since the first at least."""
    samples = [_sample(0, 5), _sample(1, 10), _sample(2, 11), _sample(3, 20)]
    assert waits_since(_LAG, samples) == START + timedelta(hours=1)
    assert waits_since(_LAG, samples[2:]) == START + timedelta(hours=2)


def test_where_nothing_waits_or_nothing_is_known_there_is_no_time() -> None:
    """Nor where there was no sample yet."""
    assert waits_since(Lag("0", 20, 20, 0, None), [_sample(0, 5)]) is None
    assert waits_since(_LAG, []) is None
    assert waits_since(Lag("0", None, 3, 4, None), [Sample(START, {})]) == START


def test_checkpoint_beyond_the_end_is_another_hubs() -> None:
    """All that this one keeps waits; what was sampled of the one before tells nothing."""
    lag = lag_of(HubPartition("0", 2, 5), 900)
    assert (lag.waiting, lag.gap, lag.is_of_another_hub) == (4, None, True)
    assert waits_since(lag, [_sample(0, 900), _sample(1, 0), _sample(2, 5)]) == START + timedelta(hours=1)
    assert waits_since(lag, [_sample(0, 900)]) is None
