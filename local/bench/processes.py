"""CPU time and memory of processes that are measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import psutil

_MEBIBYTE = 1024 * 1024


@contextmanager
def cpu_of(processes: Mapping[str, int]) -> Iterator[dict[str, float]]:
    """Yield the CPU time in seconds of each process, given by its id; the block's end fills it in."""
    before, used = _cpu_seconds(processes), dict[str, float]()
    yield used
    used.update({name: seconds - before[name] for name, seconds in _cpu_seconds(processes).items()})


def resident_size(processes: Mapping[str, int]) -> dict[str, float]:
    """Return the memory of each process, given by its id, in MiB."""
    return {name: psutil.Process(pid).memory_info().rss / _MEBIBYTE for name, pid in processes.items()}


def _cpu_seconds(processes: Mapping[str, int]) -> dict[str, float]:
    times = {name: psutil.Process(pid).cpu_times() for name, pid in processes.items()}
    return {name: each.user + each.system for name, each in times.items()}
