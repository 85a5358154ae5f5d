"""Rows that are no task's go after their retention, however many there are."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from functions.operations.housekeeping import OldRows
from functions.pattern.errors import TransientError
from functions.pattern.occurrences import TaskCounter
from tests.fakes.clock import START, FakeClock
from tests.fakes.minute_counts import MemoryMinuteCounts
from tests.fakes.ports import fake_ports


class Rows:
    """Rows of a table: tells how many it deletes each time, until there are none."""

    def __init__(self, *deletes: int) -> None:
        self._deletes = list(deletes)
        self.before: datetime | None = None

    async def delete_before(self, before: datetime, most: int) -> int:
        """Delete some."""
        self.before = before
        deleted = self._deletes.pop(0) if self._deletes else 0
        if deleted < 0:
            raise TransientError("Table Storage: ServiceRequestError")
        assert deleted <= most
        return deleted


async def test_rows_of_other_tables_go_after_the_same_time(caplog: pytest.LogCaptureFixture) -> None:
    """Agents' requests long after their complete-by, and rejected messages: all of them. A line says so."""
    rejected, requests, clock = Rows(5_000, 3), Rows(5_000, 5_000, 5), FakeClock()
    clock.advance(31 * 24 * 3600)
    with caplog.at_level("INFO"):
        await OldRows(fake_ports(clock=clock, rejected=rejected, agent_requests=requests), 30).run()
    assert 'old rows {"rejected": 5003, "requests": 10005}' in caplog.text
    assert requests.before == rejected.before == START + timedelta(days=1)


async def test_failure_of_one_table_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """It is left to the next run."""
    rejected, requests = Rows(-1), Rows(7)
    deleted = await OldRows(fake_ports(rejected=rejected, agent_requests=requests), 30).run()
    assert (deleted.failures, deleted.requests) == (1, 7)
    assert "rejected messages: left to the next run" in caplog.text


async def test_counts_of_tasks_go_after_two_hours() -> None:
    """The retention of tasks does not matter."""
    counts, clock = MemoryMinuteCounts(), FakeClock()
    for minutes in (119, 121, 122):
        await counts.write(START - timedelta(minutes=minutes), "one", {TaskCounter.ACCEPTED: 1})
    others = {"rejected": Rows(), "agent_requests": Rows()}
    deleted = await OldRows(fake_ports(clock=clock, minute_counts=counts, **others), 30).run()
    assert deleted.counts == 2
    assert [minute for minute, _ in counts.rows] == [START - timedelta(minutes=119)]
