"""A writer meets rows that are not as the task says: what it is told is recorded all the same."""

from __future__ import annotations

from dataclasses import replace

from functions.pattern.announcements import announcements
from functions.pattern.events import AnnouncementSent
from functions.pattern.states import ProcessState
from functions.store.event_line import EventLine
from functions.store.keys import task_row
from functions.store.transactions import Transaction
from tests.fakes.tasks import after, completed
from tests.fakes.workflows import TASK
from tests.unit.store.rows import MemoryRows
from tests.unit.store.writers import Writer, wide


async def test_index_row_that_is_wrong_is_mended() -> None:
    """The conflict leaves the task as it is, so it comes from another row; the outcome is recorded."""
    rows = MemoryRows(wide(1))
    rows.remove("!due")
    await Writer(rows).knows(completed("s00"))
    assert rows.record(TASK).task.process_state is ProcessState.PROCESSED
    assert [key[:5] for key in rows.entities if key.startswith("!")] == ["!done"]


async def test_only_the_row_that_was_not_as_expected_is_spared() -> None:
    """A notice's row that is gone leaves no old index row; when both are gone, each conflict names one."""
    waits = wide(1)
    waits = replace(waits, order=replace(waits.order, reply_to="notices-demo"))
    [received] = announcements(None, waits)
    for gone, conflicts in (("!send", 1), ("!", 2)):
        rows = MemoryRows(waits)
        rows.remove(gone)
        sent = AnnouncementSent(announcement=received, sent_at=after(1))
        await Writer(rows).tell_all([sent, completed("s00")])
        assert [key[:5] for key in rows.entities if key.startswith("!")] == ["!done", "!send"]
        assert len(rows.sent) == 1 + conflicts


async def test_conflict_that_blames_the_wrong_row_holds_up_nobody() -> None:
    """As when a service named always the first: what it names was spared, or can't be."""
    rows = MemoryRows(wide(1))
    rows.remove("!due")
    rows.blames = lambda _: task_row(TASK)
    await Writer(rows).knows(completed("s00"))
    assert [key[:5] for key in rows.entities if key.startswith("!")] == ["!done"]
    assert len(rows.sent) == 3


async def test_conflict_that_blames_a_row_of_a_new_name_each_time_holds_up_nobody() -> None:
    """A row whose key holds the time of the change: after as many conflicts as rows, all are spared."""
    rows = MemoryRows(wide(1))
    rows.remove("!due")
    writer = Writer(rows)

    def later(transaction: Transaction) -> str:
        writer.clock.advance(0.01)
        return next(key for key in transaction.rows if key.startswith("!done"))

    rows.blames = later
    await writer.knows(completed("s00"))
    assert [key[:5] for key in rows.entities if key.startswith("!")] == ["!done"]
    assert len(rows.sent) == len(rows.sent[0].rows) + 2


async def test_conflict_that_nothing_mends_is_waited_for_in_the_end() -> None:
    """Whatever the rows are called: each try in vain would read and write the task at once again."""
    line = EventLine(TASK, None)
    at_once = [
        line.conflicted("v", frozenset({f"!done|{n}"}), frozenset({"a", f"!done|{n}"})) for n in range(9)
    ]
    assert at_once == [False, True, True, *[False] * 6]
