"""The lease: one Supervisor sweeps at a time, and none that died keeps the others from it for long."""

from __future__ import annotations

import pytest

from functions.pattern.errors import TransientError
from functions.supervisor.lease import Lease
from tests.fakes.clock import FakeClock
from tests.fakes.supervision import MemoryLeaseRow


class Rivals:
    """Two Supervisors that compete for one row."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.row = MemoryLeaseRow()
        self.one = Lease(self.row, holder="one", clock=self.clock)
        self.two = Lease(self.row, holder="two", clock=self.clock)


@pytest.fixture
def rivals() -> Rivals:
    """Make two Supervisors, of which none leads."""
    return Rivals()


async def test_one_leads(rivals: Rivals) -> None:
    """The first that comes, and nobody beside it."""
    assert await rivals.one.take()
    assert not await rivals.two.take()


async def test_lease_given_back_is_free_at_once(rivals: Rivals) -> None:
    """The next sweep may be another Supervisor's."""
    await rivals.one.take()
    await rivals.one.give_back()
    assert await rivals.two.take()


async def test_lease_of_the_dead_expires(rivals: Rivals) -> None:
    """After a quarter of a minute another Supervisor leads."""
    await rivals.one.take()
    rivals.clock.advance(14.9)
    assert not await rivals.two.take()
    rivals.clock.advance(0.1)
    assert await rivals.two.take()


async def test_late_return_does_not_end_the_lease_of_another(rivals: Rivals) -> None:
    """The sweep outlasted its lease, and another has it now."""
    await rivals.one.take()
    rivals.clock.advance(15)
    await rivals.two.take()
    await rivals.one.give_back()
    assert not await rivals.one.take()


async def test_holder_that_could_not_give_back_takes_it_again(
    rivals: Rivals, caplog: pytest.LogCaptureFixture
) -> None:
    """The failure is logged and harms no sweep."""
    await rivals.one.take()
    with caplog.at_level("INFO"):
        rivals.row.failure = TransientError("Table Storage: ServiceRequestError")
        await rivals.one.give_back()
    rivals.row.failure = None
    assert "expires by itself" in caplog.text
    assert await rivals.one.take()


async def test_write_whose_answer_was_lost_counts(rivals: Rivals) -> None:
    """The read-back shows that it was our own, and it can be given back."""
    rivals.row.lose_answer = True
    assert await rivals.one.take()
    assert not await rivals.two.take()
    await rivals.one.give_back()
    assert await rivals.two.take()


async def test_slower_of_two_does_not_lead(rivals: Rivals, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both read that nobody leads; the compare-and-swap decides."""
    write = rivals.row.write

    async def write_after_two(*arguments: object) -> object:
        monkeypatch.setattr(rivals.row, "write", write)
        assert await rivals.two.take()
        return await write(*arguments)  # type: ignore[arg-type]  # passed on as they came

    monkeypatch.setattr(rivals.row, "write", write_after_two)
    assert not await rivals.one.take()


async def test_giving_back_what_is_not_held_does_nothing(rivals: Rivals) -> None:
    """Nobody loses a lease by it."""
    await rivals.one.take()
    await rivals.two.give_back()
    assert not await rivals.two.take()
