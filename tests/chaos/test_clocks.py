"""A host's clock can be wrong while all others are right, and what it has told is judged by that."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest

from tests.chaos.evidence.clocks import ToldTimes
from tests.chaos.hosts.clock import ClockSetting, HostClock, library
from tests.chaos.sample_evidence import after

_TELL = "import time; print(time.time(), time.monotonic())"


def _set(since: float, ahead: float, *, takes: float = 0.0) -> ClockSetting:
    """Set a clock, which takes so many seconds."""
    return ClockSetting(after(since), timedelta(seconds=ahead), alone=after(since + takes))


#: For two seconds from the tenth on, this clock is a minute ahead.
_WRONG = [_set(0, 0), _set(10, 60), _set(12, 0)]
_RIGHT = [_set(0, 0)]


@pytest.mark.skipif(library() is None, reason="not run: no libfaketime")
@pytest.mark.parametrize("ahead", [90.0, -90.0])
def test_only_the_processes_of_a_host_have_its_clock(tmp_path: Path, ahead: float) -> None:
    """The wall clock is wrong, the monotonic one is not; and it is right again when that is said."""
    clock = HostClock(tmp_path / "clock")
    clock.set(ahead)
    assert _told(clock)[0] - time.time() == pytest.approx(ahead, abs=10)
    assert abs(_told(clock)[1] - time.monotonic()) < 10
    clock.set(0.0)
    assert _told(clock)[0] - time.time() == pytest.approx(0, abs=10)


@pytest.mark.parametrize(
    ("told", "earliest", "latest"),
    [
        (5, 5, 5),  # before it was wrong
        (11, 11, 11),  # the other one
        (71, 11, 71),  # the wrong one at 11, or any at 71
        (69, 69, 69),  # it never told that while it was wrong
    ],
)
def test_time_that_a_wrong_clock_told_may_be_another(told: float, earliest: float, latest: float) -> None:
    """Only within the seconds in which it was wrong: all else is judged as if it had not been."""
    times = ToldTimes([_RIGHT, _WRONG])
    assert times.earliest(after(told)) == after(earliest)
    assert times.latest(after(told)) == after(latest)


def test_earliest_of_several_times_is_when_the_clock_jumped_among_them() -> None:
    """It told all from the 70th second on from its 10th true one on."""
    assert ToldTimes([_RIGHT, _WRONG]).earliest(after(65), to=after(71)) == pytest.approx(
        after(10), abs=timedelta(seconds=0.3)
    )
    assert ToldTimes([_RIGHT]).earliest(after(65), to=after(71)) == after(65)


def test_clock_that_is_put_right_slowly_is_wrong_until_then() -> None:
    """This process may not get its turn between the note and the file."""
    slowly = ToldTimes([_RIGHT, [*_WRONG[:2], _set(12, 0, takes=1)]])
    assert slowly.earliest(after(72.9)) == after(12.9)
    assert slowly.earliest(after(73.1)) == after(73.1)


def test_without_clocks_each_time_is_true() -> None:
    """As in a run whose clocks can't be changed."""
    assert ToldTimes().earliest(after(5)) == ToldTimes().latest(after(5)) == after(5)


def _told(clock: HostClock) -> list[float]:
    run = subprocess.run(
        [sys.executable, "-c", _TELL],
        env={**os.environ, **clock.environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return [float(each) for each in run.stdout.split()]
