"""A refused group is taken apart, so that what one task writes harms no other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError

from functions.pattern.errors import UnwritableError
from functions.pattern.identity import TaskId
from functions.pattern.request_figures import StoreFigures
from functions.store.entity_groups import EntityGroups
from functions.store.group_format import GroupRefused, GroupWritten, Operation
from functions.store.row_reads import RowReads
from functions.store.transactions import Committed, Conflicted, Result, ShardWriter, Transaction

UNEXPECTED = 412, "UpdateConditionNotSatisfied"
TOO_LARGE = 400, "PropertyValueTooLarge"


class ScriptedGroups(EntityGroups):
    """Refuses groups with certain rows; `named` tells whether it says which row it is."""

    def __init__(self, refused: dict[str, tuple[int, str]], *, named: bool = True) -> None:
        self._refused = refused
        self._named = named
        self.sent: list[list[str]] = []
        self.fails_at: int | None = None

    async def send(self, partition: str, operations: Sequence[Operation]) -> GroupWritten | GroupRefused:
        """Refuse, or give each row's key as its ETag."""
        keys = [f"{partition}/{each.entity['RowKey']}" for each in operations]
        self.sent.append(keys)
        if len(self.sent) == self.fails_at:
            raise HttpResponseError("HTTP 503")
        for index, key in enumerate(keys):
            if key in self._refused:
                return GroupRefused(*self._refused[key], index if self._named else None)
        return GroupWritten(tuple(keys))


def _transactions(*tasks: str) -> list[Transaction]:
    """Make transactions of two rows each."""
    return [
        Transaction(TaskId(task), tuple(Operation("upsert", {"RowKey": f"{task}{row}"}) for row in (1, 2)))
        for task in tasks
    ]


async def _commit(groups: EntityGroups, *tasks: str) -> list[str]:
    results = await ShardWriter(groups, "s", StoreFigures()).commit(_transactions(*tasks))
    return [_text(result) for result in results]


def _text(result: Result) -> str:
    match result:
        case Committed():
            return result.etag
        case Conflicted():
            return " ".join(["conflict", *sorted(result.rows)])
        case UnwritableError():
            return result.code


async def test_tasks_are_written_as_one() -> None:
    """Each has its own first row's ETag; the figures count one transaction."""
    groups, figures = ScriptedGroups({}), StoreFigures()
    results = await ShardWriter(groups, "s", figures).commit(_transactions("a", "b", "c"))
    assert results == [Committed("s/a1"), Committed("s/b1"), Committed("s/c1")]
    assert (figures.transactions, figures.operations) == (1, 6)


async def test_conflict_is_that_of_the_task_whose_row_is_named() -> None:
    """The first or the second of its rows; the others are sent again, together."""
    groups = ScriptedGroups({"s/b1": UNEXPECTED, "s/c2": (404, "ResourceNotFound"), "s/e1": (409, "x")})
    results = await _commit(groups, *"abcde")
    assert results == ["s/a1", "conflict b1", "conflict c2", "s/d1", "conflict e1"]
    assert [len(sent) for sent in groups.sent] == [10, 8, 6, 4]


@pytest.mark.parametrize("refusal", [UNEXPECTED, TOO_LARGE])
@pytest.mark.parametrize("named", [True, False])
async def test_task_that_is_refused_fails_alone(refusal: tuple[int, str], *, named: bool) -> None:
    """Also when the service does not say which it is: then it may be any of its rows."""
    conflict = "conflict b2" if named else "conflict b1 b2"
    result = conflict if refusal is UNEXPECTED else "PropertyValueTooLarge"
    assert await _commit(ScriptedGroups({"s/b2": refusal}, named=named), *"abc") == ["s/a1", result, "s/c1"]


async def test_unwritable_task_is_sent_alone_once() -> None:
    """After the group, three times alone; the others are not tried together again."""
    groups = ScriptedGroups({"s/b2": TOO_LARGE})
    await _commit(groups, *"abc")
    assert [len(sent) for sent in groups.sent] == [6, 2, 2, 2]


class ScriptedReads(RowReads):
    """Knows which rows are there."""

    def __init__(self, *there: str) -> None:
        self._there = there
        self.read_keys: list[str] = []

    async def read(self, partition: str, row_key: str, columns: Sequence[str]) -> Mapping[str, Any] | None:
        """Read a row's key."""
        assert columns == ("RowKey",)
        self.read_keys.append(f"{partition}/{row_key}")
        return {"RowKey": row_key} if f"{partition}/{row_key}" in self._there else None


def _new_tasks(*tasks: str) -> list[Transaction]:
    """Make the transactions of new tasks, of two rows each."""
    rows = {task: ({"RowKey": f"{task}1"}, {"RowKey": f"{task}2"}) for task in tasks}
    return [
        Transaction(TaskId(task), tuple(Operation("create", row) for row in its))
        for task, its in rows.items()
    ]


async def test_replay_of_new_tasks_is_looked_up_after_its_first_conflict() -> None:
    """The absent ones are sent once more, whatever the number of those that are there."""
    there = [f"s/{task}1" for task in "abdfg"]
    groups, reads = ScriptedGroups(dict.fromkeys(there, (409, "EntityAlreadyExists"))), ScriptedReads(*there)
    figures = StoreFigures()
    results = await ShardWriter(groups, "s", figures, reads).commit(_new_tasks(*"abcdefg"))
    assert [_text(each) for each in results] == [
        *("conflict a1", "conflict b1 b2", "s/c1", "conflict d1 d2", "s/e1"),
        *("conflict f1 f2", "conflict g1 g2"),
    ]
    assert [len(sent) for sent in groups.sent] == [14, 4]
    assert reads.read_keys == [f"s/{task}1" for task in "bcdefg"]
    assert (figures.transactions, figures.reads) == (2, 6)


async def test_new_tasks_without_a_conflict_are_not_looked_up() -> None:
    """An order costs no more than before."""
    reads = ScriptedReads()
    await ShardWriter(ScriptedGroups({}), "s", StoreFigures(), reads).commit(_new_tasks(*"abc"))
    assert reads.read_keys == []


async def test_new_tasks_beside_a_changed_one_are_not_looked_up() -> None:
    """Its conflict says nothing about them; of what is no new task, nothing is looked up either."""
    groups, reads = ScriptedGroups({"s/a1": UNEXPECTED}), ScriptedReads()
    mixed = [*_transactions("a"), *_new_tasks("b"), *_transactions("c")]
    await ShardWriter(groups, "s", StoreFigures(), reads).commit(mixed)
    assert reads.read_keys == []
    groups, reads = ScriptedGroups({"s/b1": UNEXPECTED}), ScriptedReads()
    mixed = [*_new_tasks("b"), *_transactions("c"), *_new_tasks("d")]
    await ShardWriter(groups, "s", StoreFigures(), reads).commit(mixed)
    assert reads.read_keys == ["s/d1"]


async def test_new_task_that_comes_in_between_has_its_own_conflict() -> None:
    """Another process may admit it after the look: that is not looked up again."""
    refused = {"s/a1": (409, "EntityAlreadyExists"), "s/b1": (409, "EntityAlreadyExists")}
    groups, reads = ScriptedGroups(refused), ScriptedReads("s/a1")
    results = await ShardWriter(groups, "s", StoreFigures(), reads).commit(_new_tasks(*"abc"))
    assert [_text(each) for each in results] == ["conflict a1", "conflict b1", "s/c1"]
    assert reads.read_keys == ["s/b1", "s/c1"]


async def test_error_names_the_task_and_the_code() -> None:
    """It is what an operator needs; values are not shown."""
    [error] = await ShardWriter(ScriptedGroups({"s/a1": TOO_LARGE}), "s", StoreFigures()).commit(
        _transactions("a")
    )
    assert isinstance(error, UnwritableError)
    assert (error.task, str(error)) == ("a", "the rows of task a can't be written: PropertyValueTooLarge")


@pytest.mark.parametrize("fails_at", [1, 2, 3])
async def test_fault_of_the_service_is_raised(fails_at: int) -> None:
    """It is nobody's own, and what has been written meanwhile is found by reading it back."""
    groups = ScriptedGroups({"s/b2": TOO_LARGE})
    groups.fails_at = fails_at
    with pytest.raises(HttpResponseError):
        await _commit(groups, *"abc")


async def test_deletion_tells_whether_the_rows_were_as_expected() -> None:
    """A row that can't be named at all is an error."""
    writer = ShardWriter(ScriptedGroups({"s/b": UNEXPECTED, "s/c": TOO_LARGE}), "s", StoreFigures())
    task = TaskId("a")
    assert await writer.delete(task, [Operation("delete", {"RowKey": "a"})])
    assert not await writer.delete(task, [Operation("delete", {"RowKey": "b"})])
    with pytest.raises(UnwritableError):
        await writer.delete(task, [Operation("delete", {"RowKey": "c"})])
