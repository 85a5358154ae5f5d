"""Sweeps over very many tasks: nothing is missed, and memory is bounded."""

from __future__ import annotations

import gc
import logging
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from functions.supervisor.table_sweep import TableSweep
from tests.fakes.storage_process import START, virtual_now
from tests.fakes.vast_table import VastTable
from tests.unit.storage.virtual import virtual
from tests.unit.supervisor.supervised import Supervised

#: `make test-all` sweeps a million.
_TASKS = int(os.environ.get("VAST_TASKS", "50000"))
_SHARDS = 16
#: Bytes by which the process may grow: windows of the full sweep, pages, and the changes of the table.
_MOST_BYTES = (96 + _TASKS // 10_000) * 1024 * 1024

pytestmark = pytest.mark.timeout(120 + _TASKS // 500)


@contextmanager
def bounded_memory() -> Iterator[None]:
    """Check that the process grows within the bound."""
    logging.getLogger("functions").setLevel(logging.ERROR)
    gc.collect()
    unit = 1 if sys.platform == "darwin" else 1024
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    logging.getLogger("functions").setLevel(logging.NOTSET)
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit < _MOST_BYTES


@virtual
async def test_full_sweep_repairs_the_index_of_very_many_tasks() -> None:
    """Each missing row is written, each wrong one is deleted; the next full sweep finds nothing."""
    table = VastTable(_TASKS, shards=_SHARDS)
    process, damaged = Supervised(table, shards=_SHARDS), len(table.damaged)
    retention = timedelta(days=36_500)
    with bounded_memory():
        for created in (damaged, 0):
            report = await TableSweep(
                process.storage, retention=retention, reserved_for=retention, now=virtual_now
            ).run()
            assert (report.examined, report.failed, report.left) == (_TASKS, 0, {})
            assert (report.created, report.deleted) == (created, 2 * created)
    assert table.changed_tasks == set(table.damaged)


@virtual
async def test_sweeps_recover_every_overdue_one_of_very_many_tasks() -> None:
    """And no other. A task without its index row waits for the full sweep."""
    table = VastTable(_TASKS, shards=_SHARDS)
    process = Supervised(table, shards=_SHARDS, recoveries=1000)
    found = table.due_by(START) - set(table.damaged)
    with bounded_memory():
        while not found <= table.changed_tasks:
            report = await process.sweep()
            assert (report.failed, report.corrupt) == (0, {})
            assert report.recovered
    assert table.changed_tasks <= table.due_by(virtual_now())


@virtual
async def test_retention_makes_progress_in_each_run() -> None:
    """However many tasks are old."""
    table = VastTable(2_000, shards=4)
    table.seconds = 1
    storage, purged = Supervised(table, shards=4).storage, list[int]()
    while not purged or purged[-1]:
        purged.append(
            (
                await TableSweep(
                    storage, retention=timedelta(), reserved_for=timedelta(1), now=virtual_now
                ).run()
            ).purged
        )
    assert sum(purged) == table.ended
    assert len(purged) > 2
