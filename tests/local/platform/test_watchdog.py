"""When its pipe ends, the watchdog stops what still runs: gently once, then for good."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator

import pytest

from local.platform import watchdog
from local.platform.watchdog import watch

pytestmark = pytest.mark.process


@pytest.fixture
def part() -> Iterator[subprocess.Popen[bytes]]:
    """Give a process in a group of its own."""
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        yield process
        process.kill()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    # The test's own child stays a zombie until it is waited for, so the watchdog waits its full time.
    monkeypatch.setattr(watchdog, "_STOP_WITHIN", 0.3)


def test_a_guarded_part_is_asked_to_stop(part: subprocess.Popen[bytes]) -> None:
    """SIGTERM comes first, so that Azurite saves."""
    watch([f"{part.pid} {signal.SIGTERM:d}\n"])
    assert part.wait(5) == -signal.SIGTERM


def test_a_frozen_part_is_woken_and_asked_to_stop(part: subprocess.Popen[bytes]) -> None:
    """A paused process would never see the signal."""
    part.send_signal(signal.SIGSTOP)
    watch([f"{part.pid} {signal.SIGTERM:d}\n"])
    assert part.wait(5) == -signal.SIGTERM


def test_a_part_that_was_asked_already_is_not_asked_again(part: subprocess.Popen[bytes]) -> None:
    """A second SIGTERM would end Azurite before it has saved; it gets its time, and then SIGKILL."""
    watch([f"{part.pid} {signal.SIGTERM:d}\n", f"{part.pid} 0\n"])
    assert part.wait(5) == -signal.SIGKILL


def test_a_released_part_is_left_alone(part: subprocess.Popen[bytes]) -> None:
    """Its process id may be another program's by now."""
    watch([f"{part.pid} {signal.SIGTERM:d}\n", f"{part.pid} -1\n"])
    assert part.poll() is None
