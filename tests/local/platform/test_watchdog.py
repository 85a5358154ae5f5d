"""When its pipe ends, the watchdog stops what still runs: gently first, then with SIGKILL."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from threading import Thread

import pytest

from local.platform import watchdog
from local.platform.watchdog import watch
from tests.local.platform.processes import PATIENCE

pytestmark = pytest.mark.process


@pytest.fixture
def part() -> Iterator[subprocess.Popen[bytes]]:
    """Run a process in its own group; it is reaped when it ends, as the group counts as running before."""
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        reaper = Thread(target=process.wait)
        reaper.start()
        yield process
        process.kill()
        reaper.join()


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "_STOP_WITHIN", 0.1)


@pytest.fixture
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "_STOP_WITHIN", PATIENCE)


@pytest.mark.usefixtures("_patient")
def test_a_guarded_part_is_asked_to_stop(part: subprocess.Popen[bytes]) -> None:
    """SIGTERM comes first, so that Azurite saves."""
    watch([f"{part.pid} {signal.SIGTERM:d}\n"])
    assert part.wait(PATIENCE) == -signal.SIGTERM


@pytest.mark.usefixtures("_patient")
def test_a_frozen_part_is_resumed_and_asked_to_stop(part: subprocess.Popen[bytes]) -> None:
    """A paused process would never receive the signal."""
    part.send_signal(signal.SIGSTOP)
    watch([f"{part.pid} {signal.SIGTERM:d}\n"])
    assert part.wait(PATIENCE) == -signal.SIGTERM


@pytest.mark.usefixtures("_impatient")
def test_a_part_that_was_asked_already_is_not_asked_again(part: subprocess.Popen[bytes]) -> None:
    """A second SIGTERM would end Azurite before it has saved; it gets its time, and then SIGKILL."""
    watch([f"{part.pid} {signal.SIGTERM:d}\n", f"{part.pid} 0\n"])
    assert part.wait(PATIENCE) == -signal.SIGKILL


@pytest.mark.usefixtures("_impatient")
def test_a_released_part_gets_no_signal(part: subprocess.Popen[bytes]) -> None:
    """Its process id may belong to another program by now."""
    watch([f"{part.pid} {signal.SIGTERM:d}\n", f"{part.pid} -1\n"])
    assert part.poll() is None
