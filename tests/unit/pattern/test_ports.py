"""The store in memory, on which other tests stand, keeps what the port `StateStore` promises."""

from __future__ import annotations

from dataclasses import replace

import pytest

from functions.pattern.errors import PatternError, PermanentError, TransientError
from functions.pattern.identity import TaskId
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.request_figures import BusFigures, StoreFigures
from functions.pattern.store_ports import Admission, Changed, StateStore
from tests.fakes.clock import FakeClock
from tests.fakes.interventions import recovered
from tests.fakes.store import MemoryStateStore
from tests.fakes.tasks import SECOND, claimed, pending, started
from tests.fakes.workflows import TASK, order


@pytest.fixture
def store() -> MemoryStateStore:
    """Make an empty store."""
    return MemoryStateStore(FakeClock())


async def test_order_is_recorded_once(store: MemoryStateStore) -> None:
    """New, then known; other content under its id is a conflict, and changes nothing."""
    port: StateStore = store
    other = replace(pending(), order=order(weight=4))
    admissions = [(await port.admit(record)).admission for record in (pending(), pending(), other)]
    assert admissions == [Admission.RECORDED, Admission.KNOWN, Admission.CONFLICT]
    assert store.record(TASK) == pending()


async def test_event_is_judged_by_the_record_as_it_is(store: MemoryStateStore) -> None:
    """Whatever its teller has read; of a task that is gone, everything is refused."""
    store.put(recovered(pending()))
    assert await store.change(TASK, claimed()) == Refused(RefusalReason.STALE_EPOCH)
    assert await store.change(TASK, claimed(SECOND)) == Changed(store.record(TASK), (claimed(SECOND),))
    assert await store.change(TaskId("gone"), claimed()) == Refused(RefusalReason.NO_SUCH_TASK)


async def test_what_follows_is_folded_with_the_event(store: MemoryStateStore) -> None:
    """In one write; a repeat changes nothing, but what follows from it may."""
    store.put(pending())
    writes = store.writes
    changed = await store.change(TASK, claimed(), follow=lambda _, __: [started("open")])
    assert changed == Changed(store.record(TASK), (claimed(), started("open")))
    assert await store.change(TASK, claimed()) == Changed(store.record(TASK))
    assert store.writes == writes + 1


def test_transient_fault_remembers_how_long_to_wait() -> None:
    """Retry decisions are made on type and attribute, never on text."""
    fault = TransientError("busy", retry_after=2.5)
    assert (str(fault), fault.retry_after) == ("busy", 2.5)
    assert isinstance(fault, PatternError)
    assert TransientError("busy").retry_after is None
    # Refusal remembers its status.
    refusal = PermanentError("gone", status=410)
    assert (str(refusal), refusal.status) == ("gone", 410)
    assert PermanentError("gone").status is None
    # Request figures begin at zero.
    assert StoreFigures() == StoreFigures(transactions=0, operations=0, reads=0)
    assert BusFigures() == BusFigures(messages=0, batches=0)
