"""A host's clock, which can be wrong: libfaketime tells the host's processes the time that a file says.

It is built by `make test` where that can be done (Linux, with a C compiler). Without it clocks are right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path

import psutil

_LIBRARY = Path("vendor", "libfaketime", "src", "libfaketime.so.1")
#: Where libfaketime leaves two files of a process that was killed, each named for its id.
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - its own place


def library() -> Path | None:
    """Return where libfaketime is, or None where it is not installed."""
    found = find_spec("libfaketime")
    folders = (found.submodule_search_locations if found else None) or ()
    return next((file for each in folders if (file := Path(each) / _LIBRARY).exists()), None)


@dataclass(frozen=True, slots=True)
class ClockSetting:
    """From `since` (true time, UTC) on, a clock was `ahead` of it, or behind if that is negative.

    Until `alone` it may still have been what it was before.
    """

    since: datetime
    ahead: timedelta
    alone: datetime


class HostClock:
    """The clock of one host's processes, by a `file` that is theirs. Monotonic clocks stay as they are."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._library = library()
        self._settings: list[ClockSetting] = []
        self.set(0.0)

    @property
    def environment(self) -> Mapping[str, str]:
        """What the host's processes need to have this clock."""
        if self._library is None:
            return {}
        return {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }

    @property
    def settings(self) -> Sequence[ClockSetting]:
        """What the clock has told, in order."""
        return self._settings

    def set(self, ahead: float) -> None:
        """Have the clock be so many seconds ahead of the true time from now on."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        new = self._file.with_suffix(".new")
        new.write_text(f"{ahead:+f}\n", encoding="ascii")
        since = datetime.now(UTC)
        new.replace(self._file)
        self._settings.append(ClockSetting(since, timedelta(seconds=ahead), alone=datetime.now(UTC)))


def remove_leftovers() -> None:
    """Remove what libfaketime has left of processes that were killed."""
    for file in _SHARED_MEMORY.glob("*faketime_*"):
        process = file.name.rpartition("_")[2]
        if process.isdecimal() and not psutil.pid_exists(int(process)):
            file.unlink(missing_ok=True)
