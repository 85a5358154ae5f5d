"""What a process remembers of tasks is bounded, and the newer of two records is used."""

from __future__ import annotations

from dataclasses import replace

import pytest

from functions.pattern.identity import TaskId
from functions.pattern.store_ports import Stored
from functions.store import remembered
from functions.store.remembered import RememberedTasks, newest
from tests.fakes.tasks import after, pending
from tests.fakes.workflows import LINE


def _stored(task: str, *, finished: bool = False, updated: float = 0) -> Stored:
    record = pending(LINE, TaskId(task))
    changed = replace(
        record.task, updated_at=after(updated), finished_at=after(updated) if finished else None
    )
    return Stored(replace(record, task=changed), f"{task}.{updated}")


def test_task_that_was_written_longest_ago_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finished tasks, which few ask for, take no room from those under way."""
    monkeypatch.setattr(remembered, "_MOST_UNDER_WAY", 2)
    monkeypatch.setattr(remembered, "_MOST_FINISHED", 1)
    tasks = RememberedTasks()
    for name in ("a", "b", "a", "c"):
        tasks.keep(_stored(name))
    for name in ("d", "e"):
        tasks.keep(_stored(name, finished=True))
    known = [name for name in "abcde" if tasks.find(TaskId(name)) is not None]
    assert known == ["a", "c", "e"]


def test_task_is_remembered_once() -> None:
    """As it was written last, and not at all once it is forgotten."""
    tasks = RememberedTasks()
    tasks.keep(_stored("a"))
    tasks.keep(done := _stored("a", finished=True))
    assert tasks.find(TaskId("a")) == done
    tasks.forget(TaskId("a"))
    assert tasks.find(TaskId("a")) is None


def test_newer_record_is_used() -> None:
    """What the caller has read may be newer than what this process wrote, or older."""
    old, new = _stored("a", updated=1), _stored("a", updated=2)
    assert newest(old, new) == newest(new, old) == new
    assert newest(None, old) == newest(old, None) == old
    assert newest(None, None) is None
