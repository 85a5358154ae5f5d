"""Durations in buckets: small, exact when they are added up, and wrong by 10 % at most."""

from __future__ import annotations

import math
import random

import pytest

from functions.pattern.histogram import RELATIVE_ERROR, Histogram

_YEAR = 366 * 86_400


def histogram(*seconds: float) -> Histogram:
    """Record these."""
    recorded = Histogram()
    for each in seconds:
        recorded.record(each)
    return recorded


@pytest.mark.parametrize("part", [0.01, 0.5, 0.9, 0.99, 1])
def test_quantile_is_within_a_tenth_of_the_nearest_rank(part: float) -> None:
    """Of durations from milliseconds to days, of any distribution."""
    chance = random.Random(7)  # noqa: S311 - for a test
    durations = sorted(chance.lognormvariate(2, 4) + 0.001 for _ in range(5_000))
    exact = durations[math.ceil(part * len(durations)) - 1]
    found = histogram(*durations).quantile(part)
    assert RELATIVE_ERROR <= 0.1
    assert found == pytest.approx(exact, rel=RELATIVE_ERROR + 1e-9)


def test_histograms_add_up() -> None:
    """As if one process had recorded everything."""
    one, other = histogram(0.2, 3), histogram(3, 500)
    one.add(other)
    assert one.written == histogram(0.2, 3, 3, 500).written
    assert len(one) == 4


@pytest.mark.parametrize(("least", "most"), [(0, 0.001), (2 * _YEAR, 100 * _YEAR)])
def test_what_is_out_of_bounds_counts_as_the_bound(least: float, most: float) -> None:
    """So that it stays small."""
    assert histogram(least).written == histogram(most).written


def test_nothing_recorded_has_no_quantile() -> None:
    """Nothing is made up."""
    assert Histogram().quantile(0.5) is None


def test_what_was_written_is_read_again() -> None:
    """With the same counts."""
    written = histogram(0, 0.3, 0.3, 70).written
    assert Histogram.read(written).written == written


@pytest.mark.parametrize("damaged", [[1], [-1, 3], [1_000, 1], [3, 0], [3, -2]])
def test_damaged_one_is_refused(damaged: list[int]) -> None:
    """Rather than shown."""
    with pytest.raises(ValueError, match=r"bucket|shorter"):
        Histogram.read(damaged)
